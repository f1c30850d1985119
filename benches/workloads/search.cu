// Breadth-first search of a random graph, level by level.
//
//   search SIZE [--steps N]     steps: searches, each from another node, default 1
//
// Host: the graph, a random number for each node's edges and each edge's end; each level's flag; the distances as text.
// GPU: the graph in once; for each level a launch over the nodes of the frontier and one that makes the next frontier, and a
// flag in and out; distances out.
// Device memory: 39 bytes a node (where its edges begin, distance, three marks, six edges), and 9.

#include "workload.h"

constexpr size_t kEdges = 6; // of a node, on average
constexpr int kUnreached = -1;

__global__ void visit(const size_t *begins, const unsigned *ends, unsigned char *frontier, unsigned char *next,
                      const unsigned char *reached, int *distance, size_t nodes) {
  size_t node = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (node >= nodes || !frontier[node])
    return;
  frontier[node] = 0;
  for (size_t edge = begins[node]; edge < begins[node + 1]; edge++) {
    unsigned end = ends[edge];
    // Several may write the same.
    if (!reached[end]) {
      distance[end] = distance[node] + 1;
      next[end] = 1;
    }
  }
}

__global__ void proceed(unsigned char *frontier, unsigned char *next, unsigned char *reached, unsigned char *more, size_t nodes) {
  size_t node = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (node >= nodes || !next[node])
    return;
  next[node] = 0;
  frontier[node] = 1;
  reached[node] = 1;
  *more = 1;
}

// Right distances: 0 at the source alone; no edge spans more than one level; who is reached has a neighbour a level before.
// All nodes' edges are walked for the sampled nodes' predecessors, the sampled ones' for the levels they span.
static void check_distances(Verdict &verdict, const HostArray<size_t> &begins, const HostArray<unsigned> &ends,
                            const HostArray<int> &distance, size_t nodes, size_t source) {
  constexpr size_t kEvery = 256;
  HostArray<unsigned char> preceded(nodes / kEvery + 1);
  for (size_t k = 0; k <= nodes / kEvery; k++)
    preceded[k] = 0;
  for (size_t node = 0; node < nodes; node++) {
    int here = distance[node];
    if (here == kUnreached)
      continue;
    verdict.expect_that("that the source alone has the distance 0,", node, (here == 0) == (node == source) && here >= 0);
    for (size_t edge = begins[node]; edge < begins[node + 1]; edge++) {
      size_t end = ends[edge];
      if (end % kEvery == 0 && distance[end] == here + 1)
        preceded[end / kEvery] = 1;
      if (node % kEvery == 1)
        verdict.expect_that("that an edge leads at most a level on,", end, distance[end] != kUnreached && distance[end] <= here + 1);
    }
  }
  for (size_t node = 0; node < nodes; node += kEvery)
    verdict.expect_that("that a node before is a level nearer,", node, distance[node] <= 0 || preceded[node / kEvery] == 1);
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "search", 1);
  Profile profile;
  require(options, options.bytes >= 39 * 1024);
  const size_t nodes = (options.bytes - 9) / (sizeof(size_t) + sizeof(int) + 3 + kEdges * sizeof(unsigned));
  const size_t edges = nodes * kEdges;
  FILE *output = fopen(options.output, "w");
  if (output == nullptr)
    usage_error(options.name, "failed to open for writing", options.output);

  // Nodes have 1 to 11 edges, the last ones what is left.
  HostArray<size_t> begins(nodes + 1);
  HostArray<unsigned> ends(edges);
  HostArray<unsigned char> none(nodes);
  HostArray<int> distance(nodes);
  begins[0] = 0;
  for (size_t node = 0; node < nodes; node++) {
    size_t wanted = 1 + size_t(rand()) % (2 * kEdges - 1), left = edges - begins[node];
    begins[node + 1] = begins[node] + (wanted < left ? wanted : left);
    none[node] = 0;
  }
  begins[nodes] = edges;
  for (size_t edge = 0; edge < edges; edge++)
    // 31 random bits are enough for nodes up to 80 GiB, and beyond it for edges to the first ones.
    ends[edge] = unsigned(size_t(rand()) % nodes);

  size_t *d_begins;
  unsigned *d_ends;
  int *d_distance;
  unsigned char *d_frontier, *d_next, *d_reached, *d_more;
  profile.start();
  CHECK(cudaMalloc(&d_begins, (nodes + 1) * sizeof(size_t)));
  profile.memory();
  CHECK(cudaMalloc(&d_ends, edges * sizeof(unsigned)));
  CHECK(cudaMalloc(&d_distance, nodes * sizeof(int)));
  CHECK(cudaMalloc(&d_frontier, nodes));
  CHECK(cudaMalloc(&d_next, nodes));
  CHECK(cudaMalloc(&d_reached, nodes));
  CHECK(cudaMalloc(&d_more, 1));
  profile.copy_in((nodes + 1) * sizeof(size_t) + edges * sizeof(unsigned));
  CHECK(cudaMemcpy(d_begins, begins.data(), (nodes + 1) * sizeof(size_t), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_ends, ends.data(), edges * sizeof(unsigned), cudaMemcpyHostToDevice));

  Verdict verdict;
  Checksum checksum;
  const unsigned blocks = unsigned((nodes + 511) / 512);
  for (size_t step = 0; step < options.steps; step++) {
    profile.host();
    const size_t source = step % nodes;
    for (size_t node = 0; node < nodes; node++)
      distance[node] = kUnreached;
    distance[source] = 0;
    profile.copy_in(nodes * (3 + sizeof(int)));
    CHECK(cudaMemcpy(d_distance, distance.data(), nodes * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_next, none.data(), nodes, cudaMemcpyHostToDevice));
    none[source] = 1;
    CHECK(cudaMemcpy(d_frontier, none.data(), nodes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_reached, none.data(), nodes, cudaMemcpyHostToDevice));
    none[source] = 0;
    unsigned char more = 1;
    while (more) {
      more = 0;
      profile.copy_in(1);
      CHECK(cudaMemcpy(d_more, &more, 1, cudaMemcpyHostToDevice));
      profile.kernels();
      visit<<<blocks, 512>>>(d_begins, d_ends, d_frontier, d_next, d_reached, d_distance, nodes);
      CHECK_LAUNCH(visit);
      proceed<<<blocks, 512>>>(d_frontier, d_next, d_reached, d_more, nodes);
      CHECK_LAUNCH(proceed);
      CHECK(cudaDeviceSynchronize());
      profile.copy_out(1);
      CHECK(cudaMemcpy(&more, d_more, 1, cudaMemcpyDeviceToHost));
    }
    profile.copy_out(nodes * sizeof(int));
    CHECK(cudaMemcpy(distance.data(), d_distance, nodes * sizeof(int), cudaMemcpyDeviceToHost));

    profile.host();
    size_t sum = 0;
    for (size_t node = 0; node < nodes; node++) {
      fprintf(output, "%zu: %d\n", node, distance[node]);
      sum += size_t(distance[node] + 1);
    }
    checksum.add(sum);
    check_distances(verdict, begins, ends, distance, nodes, source);
  }
  profile.memory();
  CHECK(cudaFree(d_begins));
  CHECK(cudaFree(d_ends));
  CHECK(cudaFree(d_distance));
  CHECK(cudaFree(d_frontier));
  CHECK(cudaFree(d_next));
  CHECK(cudaFree(d_reached));
  CHECK(cudaFree(d_more));
  profile.host();
  fclose(output);
  return verdict.finish(options, profile, checksum);
}
