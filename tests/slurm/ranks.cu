// Ranks of one MPI program, each with memory of a GPU for itself: they compute, pass what they have to their
// neighbours, and compute on. Between two barriers all of them hold their memory at once.
//
//   ranks [MiB]

#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <vector>

__global__ void step(unsigned *values, size_t count, unsigned rank) {
  size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += threads)
    values[i] = values[i] * 3 + rank;
}

static void must(cudaError_t code, const char *what) {
  if (code == cudaSuccess)
    return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  size_t bytes = size_t(argc > 1 ? atoi(argv[1]) : 8) << 20, count = bytes / sizeof(unsigned);
  int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

  std::vector<unsigned> sent(count), received(count);
  for (size_t i = 0; i < count; i++)
    sent[i] = unsigned(i) + unsigned(rank);
  unsigned *values;
  must(cudaMalloc(&values, bytes), "cudaMalloc");
  MPI_Barrier(MPI_COMM_WORLD);
  must(cudaMemcpy(values, sent.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  step<<<8, 256>>>(values, count, rank);
  must(cudaMemcpy(sent.data(), values, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  MPI_Sendrecv(sent.data(), int(count), MPI_UNSIGNED, to, 0, received.data(), int(count), MPI_UNSIGNED, from,
               0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  must(cudaMemcpy(values, received.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  step<<<8, 256>>>(values, count, rank);
  must(cudaMemcpy(received.data(), values, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  MPI_Barrier(MPI_COMM_WORLD);
  must(cudaFree(values), "cudaFree");

  size_t wrong = 0;
  for (size_t i = 0; i < count; i++)
    wrong += received[i] != ((unsigned(i) + unsigned(from)) * 3 + unsigned(from)) * 3 + unsigned(rank);
  unsigned long long own = wrong, all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d: %zu wrong, %llu in all %s\n", rank, ranks, wrong, all, all == 0 ? "PASS" : "FAIL");
  MPI_Finalize();
  return all != 0;
}
