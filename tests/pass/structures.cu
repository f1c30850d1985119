// A structure on the host is copied, and each pointer of the copy is overwritten by an allocation: what the copy
// brought is gone before a launch reads it. Where one pointer is not overwritten on every way, it may be
// anything.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

struct Graph {
  int nodes;
  int *index, *list;
};
struct Labelled {
  int *index;
  const char *name;
  int sizes[4];
};
Graph read();
bool is_weighted();
void look_at(const Graph *graph);

__global__ void work(Graph graph) {}
__global__ void plain(int *x, int *y) {}
__global__ void labelled(Labelled one) {}

// CHECK: static in from_argument(Graph)
// CHECK: object 1 on_gpu: 4 * {{.*}}graph
// CHECK: op launch work(Graph) [1,2]
void from_argument(const Graph graph) {
  Graph on_gpu = graph;
  cudaMalloc(&on_gpu.index, 4 * graph.nodes);
  cudaMalloc(&on_gpu.list, 64);
  cudaMemcpy(on_gpu.index, graph.index, 4 * graph.nodes, cudaMemcpyHostToDevice);
  work<<<1, 1>>>(on_gpu);
  cudaFree(on_gpu.index);
  cudaFree(on_gpu.list);
}

// The source is a local variable that other code has filled.
// CHECK: static in from_local()
// CHECK: op launch plain(int*, int*) [1,2]
void from_local() {
  Graph graph = read();
  Graph on_gpu = graph;
  if (cudaMalloc(&on_gpu.index, 64) != cudaSuccess)
    printf("no memory\n");
  if (cudaMalloc(&on_gpu.list, 64) != cudaSuccess)
    printf("no memory\n");
  cudaMemcpy(on_gpu.index, graph.index, 64, cudaMemcpyHostToDevice);
  look_at(&graph);
  plain<<<1, 1>>>(on_gpu.index, on_gpu.list);
  cudaFree(on_gpu.index);
  cudaFree(on_gpu.list);
}

// Read before it is overwritten.
// CHECK: lazy in read_before(Graph)
// CHECK: why pointers-in-memory: a structure that holds device pointers is copied
void read_before(const Graph graph) {
  Graph on_gpu = graph;
  plain<<<1, 1>>>(on_gpu.index, on_gpu.index);
  cudaMalloc(&on_gpu.index, 64);
  plain<<<1, 1>>>(on_gpu.index, on_gpu.index);
}

// Overwritten on one way only.
// CHECK: lazy in sometimes(Graph)
// CHECK: why pointers-in-memory: a structure that holds device pointers is copied
void sometimes(const Graph graph) {
  Graph on_gpu = graph;
  cudaMalloc(&on_gpu.index, 64);
  if (is_weighted())
    cudaMalloc(&on_gpu.list, 64);
  plain<<<1, 1>>>(on_gpu.index, on_gpu.list);
}

// The launch gets a pointer of the copy that nothing overwrites.
// CHECK: lazy in rest(Labelled)
// CHECK: why pointers-in-memory: a structure that holds device pointers is copied
void rest(const Labelled one) {
  Labelled on_gpu = one;
  cudaMalloc(&on_gpu.index, 64);
  labelled<<<1, 1>>>(on_gpu);
}

// The copy is made anew in each run of the loop, the allocation once.
// CHECK: lazy in again(Graph, int)
// CHECK: why pointers-in-memory: a structure that holds device pointers is copied
void again(const Graph graph, int n) {
  Graph on_gpu;
  for (int i = 0; i < n; i++) {
    on_gpu = graph;
    if (i == 0)
      cudaMalloc(&on_gpu.index, 64);
    plain<<<1, 1>>>(on_gpu.index, on_gpu.index);
  }
}

// A size stands beside the pointers that allocations fill: they write no other member.
struct Sized {
  size_t n;
  int *x, *y;
};
// CHECK: static in sized(char const*)
// CHECK: peak: {{.*}} + 2 *
void sized(const char *text) {
  Sized both;
  both.n = atoi(text);
  cudaMalloc(&both.x, both.n);
  cudaMemset(both.x, 0, both.n);
  cudaMalloc(&both.y, 2 * both.n);
  plain<<<1, 1>>>(both.x, both.y);
  cudaFree(both.x);
  cudaFree(both.y);
}
