/* Hands device memory to a child by IPC: hands again|captures|busy|inner|asks|kind, linked with the runtime.
   again: other memory at the addresses of freed memory that the child still has open; captures, busy: a handle while a
   stream captures, or the GPU works; inner: a handle to an address within an allocation; asks: what the driver says of it;
   kind: what a handle begins with. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (4 << 20)
#define CHECK(call)                                                          \
  do {                                                                       \
    cudaError_t code_ = (call);                                              \
    if (code_ != cudaSuccess) {                                              \
      printf("%s: %s, line %d\n", #call, cudaGetErrorName(code_), __LINE__); \
      exit(1);                                                               \
    }                                                                        \
  } while (0)
#define EXPECT(is)                             \
  do {                                         \
    if (!(is)) {                               \
      printf("FAIL: %s, line %d\n", #is, __LINE__); \
      exit(1);                                 \
    }                                          \
  } while (0)

static int down[2], up[2];

static void wait_for(int from) {
  char byte;
  EXPECT(read(from, &byte, 1) == 1);
}

static void tell(int to) { EXPECT(write(to, "x", 1) == 1); }

static int first(const void *memory) {
  unsigned char byte;
  CHECK(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost));
  return byte;
}

/* Opens each handle that comes, and says what byte is at its start; closes none. */
static void child(void) {
  cudaIpcMemHandle_t handle;
  while (read(down[0], &handle, sizeof handle) == sizeof handle) {
    void *opened;
    CHECK(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
    unsigned char byte = first(opened);
    EXPECT(write(up[1], &byte, 1) == 1);
  }
}

static int seen_by_child(cudaIpcMemHandle_t handle) {
  unsigned char byte;
  EXPECT(write(down[1], &handle, sizeof handle) == sizeof handle && read(up[0], &byte, 1) == 1);
  return byte;
}

static void again(void) {
  cudaIpcMemHandle_t handle;
  char *memory, *other;
  for (int round = 1; round <= 3; round++) {
    CHECK(cudaMalloc((void **)&memory, BYTES));
    EXPECT(round == 1 || memory == other);
    CHECK(cudaMemset(memory, round, BYTES));
    CHECK(cudaIpcGetMemHandle(&handle, memory));
    EXPECT(seen_by_child(handle) == round);
    CHECK(cudaFree(memory));
    other = memory;
  }
}

static void captures(void) {
  cudaIpcMemHandle_t handle;
  cudaStream_t stream;
  cudaGraph_t graph;
  char *memory, *other;
  CHECK(cudaMalloc((void **)&memory, BYTES));
  CHECK(cudaMalloc((void **)&other, BYTES));
  CHECK(cudaMemset(memory, 5, BYTES));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemsetAsync(other, 1, BYTES, stream));
  CHECK(cudaIpcGetMemHandle(&handle, memory));
  CHECK(cudaStreamEndCapture(stream, &graph));
  EXPECT(graph && seen_by_child(handle) == 5);
}

static void blocks(void *gate) { wait_for(((int *)gate)[0]); }

static void busy(void) {
  static int gate[2];
  cudaIpcMemHandle_t handle;
  cudaStream_t stream;
  char *memory;
  EXPECT(!pipe(gate));
  CHECK(cudaMalloc((void **)&memory, BYTES));
  CHECK(cudaMemset(memory, 6, BYTES));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaLaunchHostFunc(stream, blocks, gate));
  CHECK(cudaIpcGetMemHandle(&handle, memory));
  EXPECT(seen_by_child(handle) == 6);
  tell(gate[1]);
  CHECK(cudaStreamSynchronize(stream));
}

static void inner(void) {
  cudaIpcMemHandle_t handle, whole;
  char *memory;
  CHECK(cudaMalloc((void **)&memory, BYTES));
  CHECK(cudaMemset(memory, 8, BYTES));
  CHECK(cudaMemset(memory, 7, 1));
  CHECK(cudaIpcGetMemHandle(&handle, memory + 1000));
  CHECK(cudaIpcGetMemHandle(&whole, memory));
  EXPECT(!memcmp(&handle, &whole, sizeof whole));
  EXPECT(seen_by_child(handle) == 7);
}

static void asks(void) {
  CUresult (*ask)(void *, CUpointer_attribute, CUdeviceptr);
  char *memory;
  unsigned words[2] = {9, 9};
  unsigned long long types = 9;
  CHECK(cudaMalloc((void **)&memory, BYTES));
  ask = (CUresult(*)(void *, CUpointer_attribute, CUdeviceptr))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuPointerGetAttribute");
  EXPECT(!ask(words, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, (CUdeviceptr)memory + 1));
  EXPECT(words[0] == 1 && words[1] == 9);
  EXPECT(!ask(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, (CUdeviceptr)memory) && !types);
}

static void kind(void) {
  cudaIpcMemHandle_t handle;
  char *memory;
  CHECK(cudaMalloc((void **)&memory, BYTES));
  CHECK(cudaMemset(memory, 9, BYTES));
  CHECK(cudaIpcGetMemHandle(&handle, memory));
  EXPECT(seen_by_child(handle) == 9);
  printf("%.3s ", handle.reserved);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } ways[] = {{"again", again}, {"captures", captures}, {"busy", busy}, {"inner", inner}, {"asks", asks}, {"kind", kind}};
  int status;
  if (argc != 2 || pipe(down) || pipe(up))
    return 2;
  pid_t pid = fork();
  if (pid == 0) {
    close(down[1]);
    child();
    _exit(0);
  }
  close(down[0]);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (!strcmp(argv[1], ways[i].name))
      ways[i].run();
  close(down[1]);
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  puts("PASS");
  return 0;
}
