/* A driver that is the software GPU's, but lists no node of any graph. */
#include <stddef.h>

int cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
  (void)graph, (void)nodes;
  *count = 0;
  return 0;
}
