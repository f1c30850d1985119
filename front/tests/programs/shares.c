/* Shares device memory with a child by handles: a large block, and small ones of one granule. */
#include "check.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 3
static const size_t sizes[BLOCKS] = {5 << 20, 1000, 70000};

static void expect(CUdeviceptr address, size_t bytes, int value, const char *who) {
  unsigned char *back = malloc(bytes);
  CHECK(cuMemcpyDtoH(back, address, bytes));
  for (size_t i = 0; i < bytes; i++)
    if (back[i] != value) {
      printf("FAIL: %s sees %d for %d at %zu of %zu\n", who, back[i], value, i, bytes);
      exit(1);
    }
  free(back);
}

static int child(int from, int to) {
  CUipcMemHandle handles[BLOCKS];
  CUdeviceptr opened[BLOCKS], again;
  if (read(from, handles, sizeof handles) != sizeof handles)
    return 1;
  begin();
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(cuIpcOpenMemHandle(&opened[i], handles[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    expect(opened[i], sizes[i], i + 1, "the child");
    CHECK(cuMemsetD8(opened[i], i + 11, sizes[i]));
  }
  CHECK(cuCtxSynchronize());
  if (write(to, "x", 1) != 1 || read(from, handles, 1) != 1)
    return 1;
  /* Opened twice, closed twice. */
  CHECK(cuIpcOpenMemHandle(&again, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  if (again != opened[1]) {
    puts("FAIL: another address");
    return 1;
  }
  CHECK(cuIpcCloseMemHandle(again));
  expect(opened[1], sizes[1], 12, "the child, later");
  /* Closed while copies from it are under way, which PyTorch does: the driver waits for them. */
  CUstream stream;
  CUdeviceptr copy;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&copy, sizes[0]));
  for (int i = 0; i < 200; i++)
    CHECK(cuMemcpyDtoDAsync(copy, opened[0], sizes[0], stream));
  for (int i = 0; i < BLOCKS; i++)
    CHECK(cuIpcCloseMemHandle(opened[i]));
  CHECK(cuStreamSynchronize(stream));
  expect(copy, sizes[0], 11, "the child's copy");
  return 0;
}

int main(void) {
  int down[2], up[2], status;
  char byte;
  CUipcMemHandle handles[BLOCKS], again;
  CUdeviceptr blocks[BLOCKS], opened;
  if (pipe(down) || pipe(up))
    return 1;
  pid_t pid = fork();
  if (pid == 0)
    _exit(child(down[0], up[1]));
  begin();
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(cuMemAlloc(&blocks[i], sizes[i]));
    CHECK(cuMemsetD8(blocks[i], i + 1, sizes[i]));
  }
  for (int i = 0; i < BLOCKS; i++)
    CHECK(cuIpcGetMemHandle(&handles[i], blocks[i]));
  CHECK(cuIpcGetMemHandle(&again, blocks[2]));
  if (memcmp(&again, &handles[2], sizeof again)) {
    puts("FAIL: another handle to the same memory");
    return 1;
  }
  if (cuIpcOpenMemHandle(&opened, again, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_ERROR_INVALID_CONTEXT) {
    puts("FAIL: opened by its owner");
    return 1;
  }
  if (write(down[1], handles, sizeof handles) != sizeof handles || read(up[0], &byte, 1) != 1)
    return 1;
  for (int i = 0; i < BLOCKS; i++)
    expect(blocks[i], sizes[i], i + 11, "the owner");
  if (write(down[1], "x", 1) != 1 || waitpid(pid, &status, 0) != pid || status != 0)
    return 1;
  for (int i = 0; i < BLOCKS; i++)
    CHECK(cuMemFree(blocks[i]));
  if (cuIpcGetMemHandle(&again, blocks[0]) == CUDA_SUCCESS) {
    puts("FAIL: a handle to freed memory");
    return 1;
  }
  puts("PASS");
  return 0;
}
