/* A program in the runtime API that was not built with MGB: every kind of memory, copy, set, launch and wait, what is
   wrong with them, and what the last error is. Its kernel is host code for the software GPU. */
#include "../../../softgpu/include/softgpu_image.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 1000

static __thread softgpu_thread *self;
static __thread char *variables;
static softgpu_thread **self_slot(void) { return &self; }
static char **variables_slot(void) { return &variables; }

static void add_code(softgpu_thread *thread, void *const *arguments) {
  int *to = *(int **)arguments[0], value = *(int *)arguments[1];
  to[thread->ctaid[0] * thread->ntid[0] + thread->tid[0]] += value;
}

/* What a launch names. */
static const char add = 0, unknown = 0;
static const softgpu_parameter parameters[] = {{8, 8}, {4, 4}};
static const softgpu_kernel kernel = {
    .stub = &add, .name = "add", .entry = add_code, .parameters = parameters, .parameter_count = 2, .registers = 16};
static const softgpu_image image = {.version = SOFTGPU_IMAGE_VERSION,
                                    .kernel_count = 1,
                                    .kernels = &kernel,
                                    .source = __FILE__,
                                    .variable_align = 1,
                                    .variables_slot = variables_slot,
                                    .self_slot = self_slot};

/* A call by its name: its code, and the last error after it. */
#define SAY(call)                                                               \
  do {                                                                          \
    int code_ = (call), last_ = cudaPeekAtLastError(), got_ = cudaGetLastError(); \
    printf("%s: %d %d %d\n", #call, code_, last_, got_);                        \
  } while (0)

static unsigned sum(const void *bytes, size_t count) {
  unsigned sum = 0;
  for (size_t i = 0; i < count; i++)
    sum = sum * 31 + ((const unsigned char *)bytes)[i];
  return sum;
}

/* What device memory holds. */
static void show(const char *what, const void *memory, size_t count) {
  unsigned char *bytes = malloc(count);
  SAY(cudaMemcpy(bytes, memory, count, cudaMemcpyDefault));
  printf("%s: %08x\n", what, sum(bytes, count));
  free(bytes);
}

static size_t used(void) {
  size_t left = 0, total = 0;
  SAY(cudaMemGetInfo(&left, &total));
  return total - left;
}

static void memory(void) {
  int host[N], *device = NULL, *other = NULL, *managed = NULL;
  size_t before = used(), pitch = 0;
  for (int i = 0; i < N; i++)
    host[i] = i * i;
  SAY(cudaMalloc((void **)&device, sizeof host));
  SAY(cudaMalloc((void **)&other, 0));
  printf("no bytes: %d\n", other == NULL);
  SAY(cudaMalloc((void **)&other, sizeof host));
  SAY(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(other, device, sizeof host, cudaMemcpyDeviceToDevice));
  memset(host, 0, sizeof host);
  SAY(cudaMemcpy(host, other, sizeof host, cudaMemcpyDeviceToHost));
  printf("round: %08x\n", sum(host, sizeof host));
  SAY(cudaMemcpy(host + N / 2, host, sizeof host / 2, cudaMemcpyHostToHost));
  SAY(cudaMemcpy(host, other, sizeof host, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(host, other, sizeof host, 77));
  SAY(cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
  SAY(cudaMemset(device, 3, sizeof host));
  SAY(cudaMemset2D(device, 100, 5, 60, 20));
  SAY(cudaMemset2D(device, 10, 5, 60, 20));
  SAY(cudaMemset(host, 3, sizeof host));
  show("set", device, sizeof host);
  SAY(cudaMemcpyPeer(other, 0, device, 0, sizeof host));
  SAY(cudaMemcpyPeer(other, 9, device, 0, sizeof host));
  show("peer", other, sizeof host);
  printf("held: %d\n", used() - before > 2 * sizeof host);
  SAY(cudaFree(other + 1));
  SAY(cudaFree(other));
  SAY(cudaFree(NULL));
  SAY(cudaFree(device));
  SAY(cudaFree(device));
  printf("freed: %d\n", used() == before);
  SAY(cudaMalloc((void **)&device, (size_t)1 << 40));

  SAY(cudaMallocPitch((void **)&device, &pitch, 300, 7));
  char rows[300 * 7], back[300 * 7];
  for (int i = 0; i < 300 * 7; i++)
    rows[i] = i % 101;
  SAY(cudaMemcpy2D(device, pitch, rows, 300, 300, 7, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2D(back, 300, device, pitch, 300, 7, cudaMemcpyDefault));
  SAY(cudaMemcpy2D(back, 200, device, pitch, 300, 7, cudaMemcpyDefault));
  printf("pitched: %zu %08x\n", pitch, sum(back, sizeof back));
  SAY(cudaFree(device));

  SAY(cudaMallocManaged((void **)&managed, sizeof host, cudaMemAttachGlobal));
  SAY(cudaMallocManaged((void **)&other, sizeof host, 77));
  managed[7] = 7;
  SAY(cudaMemset(managed, 1, 8));
  SAY(cudaDeviceSynchronize());
  printf("managed: %08x\n", sum(managed, 64));
  SAY(cudaFree(managed));
}

static void boxes(void) {
  struct cudaPitchedPtr box;
  struct cudaExtent extent = {90, 6, 4};
  char from[90 * 6 * 4], to[90 * 6 * 4];
  for (int i = 0; i < 90 * 6 * 4; i++)
    from[i] = i % 97;
  SAY(cudaMalloc3D(&box, extent));
  struct cudaMemcpy3DParms copy = {.srcPtr = {from, 90, 90, 6}, .dstPtr = box, .extent = extent};
  copy.kind = cudaMemcpyHostToDevice;
  SAY(cudaMemcpy3D(&copy));
  SAY(cudaMemset3D(box, 9, (struct cudaExtent){20, 6, 4}));
  SAY(cudaMemset3D(box, 8, (struct cudaExtent){10, 3, 2}));
  struct cudaMemcpy3DParms out = {.srcPtr = box, .dstPtr = {to, 90, 90, 6}, .extent = extent};
  out.kind = cudaMemcpyDeviceToHost;
  SAY(cudaMemcpy3D(&out));
  printf("box: %08x\n", sum(to, sizeof to));

  cudaArray_t array = NULL, solid = NULL;
  struct cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat}, odd = {5, 0, 0, 0, 0};
  SAY(cudaMallocArray(&array, &odd, 16, 8, 0));
  SAY(cudaMallocArray(&array, &floats, 16, 8, 0));
  SAY(cudaMalloc3DArray(&solid, &floats, (struct cudaExtent){16, 8, 4}, 0));
  SAY(cudaMemcpy2DToArray(array, 0, 0, from, 64, 64, 8, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2DToArray(array, 8, 2, from, 20, 20, 3, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2DFromArray(to, 64, array, 0, 0, 64, 8, cudaMemcpyDeviceToHost));
  printf("array: %08x\n", sum(to, 512));
  SAY(cudaMemcpy2DFromArray(to, 64, array, 0, 0, 64, 9, cudaMemcpyDeviceToHost));
  SAY(cudaMemcpy2DToArray(array, 0, 0, from, 64, 64, 8, cudaMemcpyDeviceToHost));
  struct cudaMemcpy3DParms fill = {.srcPtr = {from, 64, 16, 8}, .dstArray = solid, .extent = {16, 8, 4}};
  fill.kind = cudaMemcpyHostToDevice;
  SAY(cudaMemcpy3DAsync(&fill, 0));
  SAY(cudaMemcpyToArray(solid, 60, 1, from, 100, cudaMemcpyHostToDevice));
  struct cudaMemcpy3DParms in = {.srcArray = array, .dstArray = solid, .extent = {10, 5, 1}, .dstPos = {3, 2, 1}};
  in.kind = cudaMemcpyDeviceToDevice;
  SAY(cudaMemcpy3D(&in));
  struct cudaMemcpy3DParms whole = {.srcArray = solid, .dstPtr = {to, 64, 16, 8}, .extent = {16, 8, 4}};
  whole.kind = cudaMemcpyDeviceToHost;
  SAY(cudaMemcpy3D(&whole));
  printf("solid: %08x\n", sum(to, 2048));
  struct cudaMemcpy3DPeerParms peer = {.srcPtr = box, .dstPtr = box, .extent = {30, 2, 2}, .dstPos = {40, 3, 1}};
  SAY(cudaMemcpy3DPeer(&peer));
  SAY(cudaMemcpy3DPeerAsync(&peer, 0));
  SAY(cudaMemcpyPeerAsync(box.ptr, 0, (char *)box.ptr + 512, 0, 90, 0));
  SAY(cudaMemcpy3D(&out));
  printf("peer: %08x\n", sum(to, sizeof to));
  SAY(cudaFreeArray(array));
  SAY(cudaFreeArray(array));
  SAY(cudaFreeArray(solid));
  SAY(cudaFree(box.ptr));
}

static void streams(void) {
  cudaStream_t stream;
  cudaEvent_t event;
  cudaMemPool_t pool, mine;
  int host[N], *device = NULL, *other = NULL;
  unsigned long long high = 0;
  for (int i = 0; i < N; i++)
    host[i] = 3 * i;
  SAY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  SAY(cudaEventCreate(&event));
  SAY(cudaMallocAsync((void **)&device, sizeof host, stream));
  SAY(cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, stream));
  int value = 5;
  void *arguments[] = {&device, &value};
  SAY(cudaLaunchKernel(&add, (dim3){10, 1, 1}, (dim3){100, 1, 1}, arguments, 0, stream));
  SAY(cudaLaunchCooperativeKernel(&add, (dim3){5, 1, 1}, (dim3){100, 1, 1}, arguments, 0, stream));
  cudaLaunchConfig_t config = {.gridDim = {2, 1, 1}, .blockDim = {100, 1, 1}, .stream = stream};
  SAY(cudaLaunchKernelExC(&config, &add, arguments));
  SAY(cudaLaunchKernel(&add, (dim3){10, 1, 1}, (dim3){5000, 1, 1}, arguments, 0, stream));
  SAY(cudaLaunchKernel(&add, (dim3){10, 1, 1}, (dim3){1, 1, 1}, arguments, (size_t)1 << 33, stream));
  SAY(cudaLaunchKernel(&unknown, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, stream));
  SAY(cudaEventRecord(event, stream));
  SAY(cudaEventSynchronize(event));
  SAY(cudaEventQuery(event));
  SAY(cudaEventQuery(NULL));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaLaunchKernel(&add, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, 0));
  SAY(cudaStreamSynchronize(0));
  SAY(cudaStreamQuery(stream));
  show("added", device, sizeof host);
  SAY(cudaMemsetAsync(device, 2, sizeof host / 2, stream));
  SAY(cudaMemset2DAsync(device, 64, 4, 10, 10, stream));
  SAY(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, stream));
  SAY(cudaMemcpyAsync(device, device + N / 2, 64, cudaMemcpyDefault, stream));
  SAY(cudaMemcpyAsync(device + 16, device + N / 2, 64, cudaMemcpyDeviceToDevice, stream));
  SAY(cudaMemcpy2DAsync(host, 64, device, 64, 10, 10, cudaMemcpyDefault, stream));
  SAY(cudaStreamSynchronize(stream));
  printf("async: %08x\n", sum(host, sizeof host));

  SAY(cudaDeviceGetDefaultMemPool(&pool, 0));
  struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                        .location = {cudaMemLocationTypeDevice, 0}};
  SAY(cudaMemPoolCreate(&mine, &properties));
  SAY(cudaMemPoolCreate(&mine, NULL));
  SAY(cudaMallocFromPoolAsync((void **)&other, sizeof host, mine, stream));
  SAY(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrUsedMemHigh, &high));
  printf("high: %llu\n", high);
  SAY(cudaMemPoolTrimTo(mine, 0));
  high = 1 << 20;
  SAY(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrReleaseThreshold, &high));
  SAY(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrUsedMemHigh, &high));
  struct cudaMemAccessDesc access = {.location = {cudaMemLocationTypeDevice, 1},
                                     .flags = cudaMemAccessFlagsProtReadWrite};
  SAY(cudaMemPoolSetAccess(mine, &access, 1));
  SAY(cudaDeviceSetMemPool(0, mine));
  SAY(cudaDeviceSetMemPool(0, pool));
  SAY(cudaFreeAsync(other, stream));
  SAY(cudaFreeAsync(device + 1, stream));
  SAY(cudaFreeAsync(device, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMemPoolDestroy(mine));

  cudaGraph_t graph;
  cudaGraphExec_t exec;
  SAY(cudaMalloc((void **)&device, sizeof host));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  SAY(cudaMemsetAsync(device, 0, sizeof host, stream));
  SAY(cudaLaunchKernel(&add, (dim3){10, 1, 1}, (dim3){100, 1, 1}, arguments, 0, stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  SAY(cudaMalloc((void **)&other, 64));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SAY(cudaMemsetAsync(device, 0, sizeof host, stream));
  SAY(cudaLaunchKernel(&add, (dim3){10, 1, 1}, (dim3){100, 1, 1}, arguments, 0, stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaGraphInstantiate(&exec, graph, 0));
  SAY(cudaGraphUpload(exec, stream));
  SAY(cudaGraphLaunch(exec, stream));
  SAY(cudaGraphLaunch(NULL, stream));
  SAY(cudaStreamSynchronize(stream));
  show("graph", device, sizeof host);
  SAY(cudaGraphExecDestroy(exec));
  SAY(cudaFree(device));
  SAY(cudaEventDestroy(event));
  SAY(cudaStreamDestroy(stream));
  SAY(cudaStreamSynchronize(stream));
}

/* Handles for other processes, which this one may not open. */
static void shares(void) {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t handle;
  cudaEvent_t event, opened;
  void *device = NULL, *again = NULL;
  SAY(cudaMalloc(&device, 64));
  SAY(cudaIpcGetMemHandle(&memory, device));
  SAY(cudaIpcGetMemHandle(&memory, &device));
  SAY(cudaIpcOpenMemHandle(&again, memory, cudaIpcMemLazyEnablePeerAccess));
  SAY(cudaIpcCloseMemHandle(device));
  SAY(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  SAY(cudaIpcGetEventHandle(&handle, event));
  SAY(cudaIpcOpenEventHandle(&opened, handle));
  SAY(cudaEventDestroy(event));
  SAY(cudaFree(device));
}

/* The driver's functions, which a program may ask the runtime for. */
static void driver(void) {
  int (*total)(size_t *, int) = NULL;
  void *none = &none;
  enum cudaDriverEntryPointQueryResult found;
  size_t bytes = 0;
  SAY(cudaGetDriverEntryPointByVersion("cuDeviceTotalMem", (void **)&total, 13000, cudaEnableDefault, &found));
  printf("total: %d %d %zu\n", found, total(&bytes, 0), bytes);
  SAY(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &none, 13000, cudaEnableDefault, &found));
  printf("none: %d %d\n", found, none == NULL);
}

/* A kernel that writes where nothing is: all calls say so until the device is reset. */
static void faults(void) {
  int *nowhere = (int *)64, *device = NULL, value = 1;
  void *arguments[] = {&nowhere, &value};
  SAY(cudaMalloc((void **)&device, 64));
  /* By now it may have run, or not. */
  printf("launch: %d\n", cudaLaunchKernel(&add, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, 0));
  SAY(cudaDeviceSynchronize());
  SAY(cudaMemset(device, 0, 64));
  SAY(cudaMalloc((void **)&device, 64));
  SAY(cudaFree(device));
  SAY(cudaDeviceReset());
  SAY(cudaDeviceReset());
  SAY(cudaMalloc((void **)&device, 64));
  SAY(cudaMemset(device, 0, 64));
  SAY(cudaDeviceSynchronize());
}

int main(void) {
  int count = 0;
  __softgpuRegisterImage(&image);
  SAY(cudaGetDeviceCount(&count));
  for (int device = count - 1; device >= 0; device--) {
    SAY(cudaSetDevice(device));
    memory();
  }
  boxes();
  streams();
  shares();
  driver();
  faults();
  return 0;
}
