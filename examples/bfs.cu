// Breadth-first search, a level a launch. Whether another level is needed only the GPU knows: a flag goes out and comes
// back every iteration, so how often the loop runs depends on the data.
//
//   bfs [nodes] [edges a node]
//
//#Args: nodes=20000 edges=3
//#Stdout: bfs: nodes=20000 edges=3 levels=15 reached=18846 PASS
//#Static: 1
//#Peak: 4 * nodes * edges + 4 * nodes + 4

#include "common.h"
#include <vector>

constexpr int kFar = -1;

// Every node of the level before marks its neighbours that nobody has reached. Two may mark the same: both write the
// same level.
__global__ void next_level(const unsigned *neighbours, unsigned nodes, unsigned edges, int *levels, int level,
                           int *more) {
  unsigned node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node >= nodes || levels[node] != level)
    return;
  for (unsigned e = 0; e < edges; e++) {
    unsigned neighbour = neighbours[size_t(node) * edges + e];
    if (levels[neighbour] == kFar) {
      levels[neighbour] = level + 1;
      *more = 1;
    }
  }
}

// The same on the host. Returns how many levels there are.
static int search(const std::vector<unsigned> &neighbours, size_t edges, std::vector<int> &levels) {
  std::vector<unsigned> queue{0};
  levels[0] = 0;
  for (size_t next = 0; next < queue.size(); next++) {
    unsigned node = queue[next];
    for (size_t e = 0; e < edges; e++) {
      unsigned neighbour = neighbours[size_t(node) * edges + e];
      if (levels[neighbour] == kFar) {
        levels[neighbour] = levels[node] + 1;
        queue.push_back(neighbour);
      }
    }
  }
  return levels[queue.back()] + 1;
}

int main(int argc, char **argv) {
  size_t nodes = positive_argument(argc, argv, 1, 20000);
  size_t edges = positive_argument(argc, argv, 2, 3);
  std::vector<unsigned> neighbours(nodes * edges);
  unsigned long long state = 1;
  for (unsigned &neighbour : neighbours) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    neighbour = unsigned((state >> 33) % nodes);
  }
  std::vector<int> levels(nodes, kFar), expected(nodes, kFar);
  levels[0] = 0;

  unsigned *device_neighbours;
  int *device_levels, *device_more;
  CHECK(cudaMalloc(&device_neighbours, nodes * edges * sizeof(unsigned)));
  CHECK(cudaMalloc(&device_levels, nodes * sizeof(int)));
  CHECK(cudaMalloc(&device_more, sizeof(int)));
  CHECK(cudaMemcpy(device_neighbours, neighbours.data(), nodes * edges * sizeof(unsigned), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_levels, levels.data(), nodes * sizeof(int), cudaMemcpyHostToDevice));
  int more = 1;
  int level = 0;
  for (; more; level++) {
    more = 0;
    CHECK(cudaMemcpy(device_more, &more, sizeof(more), cudaMemcpyHostToDevice));
    next_level<<<unsigned((nodes + 127) / 128), 128>>>(device_neighbours, unsigned(nodes), unsigned(edges),
                                                       device_levels, level, device_more);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(&more, device_more, sizeof(more), cudaMemcpyDeviceToHost));
  }
  CHECK(cudaMemcpy(levels.data(), device_levels, nodes * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_neighbours));
  CHECK(cudaFree(device_levels));
  CHECK(cudaFree(device_more));

  int expected_levels = search(neighbours, edges, expected);
  size_t reached = 0;
  for (int node_level : levels)
    reached += node_level != kFar;
  printf("bfs: nodes=%zu edges=%zu levels=%d reached=%zu ", nodes, edges, level, reached);
  return report(levels == expected && level == expected_levels);
}
