// What comes before what: streams, events, graphs, handles; and what is said of memory that is not there.
#include "blas.h"
#include <string>

constexpr int kN = 256;

__global__ void fill(float *to, float value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }

void handles() {
  Handle h;
  OK(cublasCreate_v2(&h));
  EXPECT(cublasCreate_v2(nullptr) == 7 && cublasDestroy_v2(nullptr) == 1);
  int version = 0, math = -1;
  OK(cublasGetVersion_v2(h, &version));
  EXPECT(version / 10000 == 13);
  OK(cublasSetMathMode(h, 3));
  OK(cublasGetMathMode(h, &math));
  EXPECT(math == 3 && cublasSetMathMode(h, 99) == 7);
  PointerMode mode;
  OK(cublasSetPointerMode_v2(h, Device));
  OK(cublasGetPointerMode_v2(h, &mode));
  EXPECT(mode == Device && cublasSetPointerMode_v2(h, PointerMode(2)) == 7);
  OK(cublasSetWorkspace_v2(h, nullptr, 0));
  cudaStream_t stream, found;
  OK(cudaStreamCreate(&stream));
  OK(cublasSetStream_v2(h, stream));
  OK(cublasGetStream_v2(h, &found));
  EXPECT(found == stream && cublasSetStream_v2(nullptr, stream) == 1);
  EXPECT(std::string(cublasGetStatusName(15)) == "CUBLAS_STATUS_NOT_SUPPORTED");
  OK(cudaStreamDestroy(stream));
  OK(cublasDestroy_v2(h));
}

// Kernels of the program before and after, on a stream that waits for another.
void streams(Handle h) {
  std::vector<float> nothing(kN * kN);
  Array<float> a(nothing), b(nothing), c(nothing);
  cudaStream_t first, second;
  cudaEvent_t filled;
  OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  OK(cudaEventCreate(&filled));
  float one = 1, zero = 0;
  for (int round = 1; round <= 5; round++) {
    fill<<<kN, kN, 0, first>>>(a.data, round);
    fill<<<kN, kN, 0, first>>>(b.data, 2);
    OK(cudaEventRecord(filled, first));
    OK(cudaStreamWaitEvent(second, filled));
    OK(cublasSetStream_v2(h, second));
    OK(cublasSgemm_v2(h, N, T, kN, kN, kN, &one, a.data, kN, b.data, kN, &zero, c.data, kN));
    fill<<<1, 1, 0, second>>>(c.data + 1, -1);
    float sum;
    OK(asum(h, kN * kN, c.data, 1, &sum));
    EXPECT(near(sum, double(kN) * kN * kN * 2 * round - 2 * kN * round + 1, 0));
    OK(cudaStreamSynchronize(first));
  }
  OK(cublasSetStream_v2(h, nullptr));
}

// A product in a graph, launched again and again.
void graphs(Handle h) {
  Array<double> a(std::vector<double>(9, 1)), c(std::vector<double>(9, 0));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cublasSetStream_v2(h, stream));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  double one = 1;
  OK(cublasDgemm_v2(h, N, N, 3, 3, 3, &one, a.data, 3, a.data, 3, &one, c.data, 3));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  EXPECT(c.get()[4] == 0);
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 4; i++)
    OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(c.get()[4] == 12);
  // A result of the host would come too late.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  double sum = 5;
  EXPECT(asum(h, 9, c.data, 1, &sum) == 13 && sum == 5);
  EXPECT(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
  cudaGetLastError();
  OK(cublasSetStream_v2(h, nullptr));
}

// Device time grows with the work.
void times(Handle h) {
  std::vector<float> ones(kN * kN, 1);
  Array<float> a(ones), c(ones);
  float one = 1, zero = 0, took[2];
  cudaEvent_t begin, end;
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreate(&end));
  for (int k : {16, 4096}) {
    OK(cudaEventRecord(begin));
    OK(cublasSgemm_v2(h, N, N, 16, 16, k, &one, a.data, 16, a.data, k, &zero, c.data, 16));
    OK(cudaEventRecord(end));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&took[k == 4096], begin, end));
  }
  EXPECT(took[1] > 2 * took[0]);
}

void faults(Handle h) {
  Array<float> c(std::vector<float>(kN, 1));
  float one = 1, zero = 0;
  // Nothing is there.
  OK(cublasSgemm_v2(h, N, N, 4, 4, 4, &one, (float *)64, 4, c.data, 4, &zero, c.data, 4));
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  float sum;
  EXPECT(asum(h, kN, c.data, 1, &sum) == 13);
}

int main(int argc, char **argv) {
  handles();
  Handle h;
  OK(cublasCreate_v2(&h));
  streams(h), graphs(h);
  if (argc > 1 && std::string(argv[1]) == "times")
    times(h);
  // Nothing works afterwards.
  if (argc > 1 && std::string(argv[1]) == "faults")
    faults(h);
  puts("PASS");
}
