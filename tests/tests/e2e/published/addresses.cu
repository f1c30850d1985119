// A kernel keeps the address of an object; kernels of other functions, which are given nothing, use the object.
// The argument says how the address is kept: in a variable, in memory that the host reads back, from a structure,
// by a function, by an atomic operation, by assembly, in a list.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      std::printf("addresses: line %d: %d %s\n", __LINE__, error, cudaGetErrorString(error));                          \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)

using Word = unsigned long long;

constexpr int kCount = 1 << 16;
constexpr int kRounds = 40;

struct Table {
  int *values;
  int count;
};
struct Link {
  Link *next;
  int *values;
};

__device__ int *kept;
__device__ Table table;
__device__ Link *head;

__device__ __noinline__ void keep(int **where, int *what) { *where = what; }

__global__ void into_variable(int *values) { kept = values; }
__global__ void into_memory(int *values, Word *out) { *out = (Word)(values + 1) - 4; }
__global__ void from_structure(Table given) { table = given; }
__global__ void by_function(int *values) { keep(&table.values, values); }
__global__ void by_atomic(int *values) { atomicExch((Word *)&kept, (Word)values); }
__global__ void by_assembly(int *values, int **out) { asm volatile("st.global.u64 [%0], %1;" ::"l"(out), "l"(values)); }
__global__ void into_list(Link *link, int *values) {
  link->values = values;
  link->next = head;
  head = link;
}

__global__ void add_kept() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) kept[i]++;
}
__global__ void add_table() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) table.values[i]++;
}
__global__ void add_list() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (Link *at = head; at; at = at->next)
    if (i < kCount) at->values[i]++;
}
__global__ void add(int *values) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) values[i]++;
}

void use_kept(Word) { add_kept<<<kCount / 256, 256>>>(); }
void use_table(Word) { add_table<<<kCount / 256, 256>>>(); }
void use_list(Word) { add_list<<<kCount / 256, 256>>>(); }
void use_read(Word read) { add<<<kCount / 256, 256>>>((int *)read); }
// Called through this, they are tasks of their own.
void (*volatile use)(Word);

// Each way has objects of its own, in a function of its own: a lazy task of another way makes no difference.
template <class Keep> int play(void (*user)(Word), Keep keep) {
  int *values, *host = (int *)std::calloc(kCount, sizeof(int)), wrong = 0;
  Word *out, read = 0;
  CHECK(cudaMalloc(&values, kCount * sizeof(int)));
  CHECK(cudaMalloc(&out, 64));
  CHECK(cudaMemset(values, 0, kCount * sizeof(int)));
  keep(values, out);
  CHECK(cudaMemcpy(&read, out, sizeof read, cudaMemcpyDeviceToHost));
  use = user;
  for (int round = 0; round < kRounds; ++round) {
    use(read);
    CHECK(cudaGetLastError());
    if (round % 4 == 3) {
      CHECK(cudaDeviceSynchronize());
      usleep(4000);
    }
  }
  CHECK(cudaMemcpy(host, values, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) wrong += host[i] != kRounds;
  CHECK(cudaFree(values));
  CHECK(cudaFree(out));
  std::printf("addresses: %d wrong\n", wrong);
  return wrong != 0;
}

int main(int, char **arguments) {
  auto is = [how = arguments[1]](const char *name) { return std::strcmp(how, name) == 0; };
  if (is("variable")) return play(use_kept, [](int *values, Word *) { into_variable<<<1, 1>>>(values); });
  if (is("atomic")) return play(use_kept, [](int *values, Word *) { by_atomic<<<1, 1>>>(values); });
  if (is("structure")) return play(use_table, [](int *values, Word *) { from_structure<<<1, 1>>>(Table{values, kCount}); });
  if (is("function")) return play(use_table, [](int *values, Word *) { by_function<<<1, 1>>>(values); });
  if (is("list")) return play(use_list, [](int *values, Word *out) { into_list<<<1, 1>>>((Link *)(out + 1), values); });
  if (is("memory")) return play(use_read, [](int *values, Word *out) { into_memory<<<1, 1>>>(values, out); });
  if (is("assembly")) return play(use_read, [](int *values, Word *out) { by_assembly<<<1, 1>>>(values, (int **)out); });
  return 2;
}
