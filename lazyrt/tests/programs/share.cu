// Device memory that processes share by handles. Holds natively, too.

#include "check.h"
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

__global__ void add(unsigned char *bytes, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    bytes[i] += value;
}

static const int COUNT = 1 << 21;

static void add_all(unsigned char *bytes, int value) {
  add<<<COUNT / 128, 128>>>(bytes, COUNT, value);
  OK(cudaDeviceSynchronize());
}

// The other process: opens the handle that comes by its input, and works on the memory.
static void opener() {
  cudaIpcMemHandle_t handle;
  EXPECT(read(0, &handle, sizeof handle) == sizeof handle);
  void *memory;
  OK(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
  unsigned char byte = 0;
  OK(cudaMemcpy(&byte, static_cast<unsigned char *>(memory) + COUNT - 1, 1, cudaMemcpyDeviceToHost));
  EXPECT(byte == 3);
  add_all(static_cast<unsigned char *>(memory), 4);
  OK(cudaIpcCloseMemHandle(memory));
}

static void owner(char *program) {
  unsigned char *memory, *beside, byte = 0;
  OK(cudaMalloc(&memory, COUNT));
  OK(cudaMalloc(&beside, 100));
  OK(cudaMemset(memory, 1, COUNT));
  OK(cudaMemset(beside, 1, 100));
  add_all(memory, 2);
  cudaIpcMemHandle_t handle;
  OK(cudaIpcGetMemHandle(&handle, memory));
  int ends[2];
  EXPECT(pipe(ends) == 0);
  EXPECT(write(ends[1], &handle, sizeof handle) == sizeof handle);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  char role[] = "opener";
  char *arguments[] = {program, role, nullptr};
  pid_t child;
  EXPECT(posix_spawn(&child, program, &actions, nullptr, arguments, environ) == 0);
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  for (size_t at : {size_t(0), size_t(COUNT - 1)}) {
    OK(cudaMemcpy(&byte, memory + at, 1, cudaMemcpyDeviceToHost));
    EXPECT(byte == 7);
  }
  OK(cudaMemcpy(&byte, beside + 99, 1, cudaMemcpyDeviceToHost));
  EXPECT(byte == 1);
  OK(cudaFree(memory));
  OK(cudaFree(beside));
  IS(cudaFree(memory), cudaErrorInvalidValue);
}

int main(int, char **arguments) {
  if (!strcmp(arguments[1], "owner"))
    owner(arguments[0]);
  else
    opener();
}
