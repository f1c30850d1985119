// Vectors: every function against loops of the host, in steps of both directions, with scalars of the host and of the
// device.
#include "blas.h"

constexpr int kN = 1000;

// The element of a vector with a step.
template <class Ty> Ty &at(std::vector<Ty> &v, int i, int n, int step) { return v[step > 0 ? i * step : (i - n + 1) * step]; }

template <class Ty> void changes(Handle h) {
  for (int i : {1, 2, -1, -3})
    for (int j : {1, -2}) {
      auto x = numbers<Ty>(kN * std::abs(i), 3), y = numbers<Ty>(kN * std::abs(j), 77);
      Array<Ty> dx(x), dy(y);
      Ty a = some<Ty>(5);
      OK(axpy(h, kN, &a, dx.data, i, dy.data, j));
      for (int e = 0; e < kN; e++)
        at(y, e, kN, j) = Ty(wide(a) * wide(at(x, e, kN, i)) + wide(at(y, e, kN, j)));
      EXPECT(dy.get() == y);
      OK(swap(h, kN, dx.data, i, dy.data, j));
      for (int e = 0; e < kN; e++)
        std::swap(at(x, e, kN, i), at(y, e, kN, j));
      EXPECT(dx.get() == x && dy.get() == y);
      OK(copy(h, kN, dx.data, i, dy.data, j));
      for (int e = 0; e < kN; e++)
        at(y, e, kN, j) = at(x, e, kN, i);
      EXPECT(dy.get() == y);
      OK(scal(h, kN, &a, dx.data, i));
      for (int e = 0; e < kN && i > 0; e++)
        at(x, e, kN, i) = Ty(wide(a) * wide(at(x, e, kN, i)));
      EXPECT(dx.get() == x);
    }
}

template <class Ty> void products(Handle h) {
  for (int i : {1, 3, -2}) {
    auto x = numbers<Ty>(kN * std::abs(i), 3), y = numbers<Ty>(kN, 77);
    Array<Ty> dx(x), dy(y);
    auto sum = wide(Ty(0));
    double size = 0, best = -1, least = 1e300;
    int largest = 0, smallest = 0;
    for (int e = 0; e < kN; e++) {
      auto term = wide(at(x, e, kN, i)) * wide(y[e]);
      sum += term, size += std::abs(term);
      auto own = std::complex<double>(wide(at(x, e, kN, i)));
      double parts = std::abs(own.real()) + std::abs(own.imag());
      if (parts > best)
        best = parts, largest = e + 1;
      if (parts < least)
        least = parts, smallest = e + 1;
    }
    Ty found;
    OK(dot(h, kN, dx.data, i, dy.data, 1, &found));
    EXPECT(near(found, sum, size));
    // The same into device memory: nothing waits, and the order of the stream holds.
    Array<Ty> to({Ty(0)});
    OK(cublasSetPointerMode_v2(h, Device));
    OK(dot(h, kN, dx.data, i, dy.data, 1, to.data));
    OK(axpy(h, 1, to.data, to.data, 1, to.data, 1));
    OK(cublasSetPointerMode_v2(h, Host));
    EXPECT(to.get()[0] == Ty(wide(found) * wide(found) + wide(found)));
    int place = -1;
    OK(amax(h, kN, dx.data, i, &place));
    EXPECT(place == (i > 0 ? largest : 0));
    OK(amin(h, kN, dx.data, i, &place));
    EXPECT(place == (i > 0 ? smallest : 0));
  }
}

template <class Ty> void norms(Handle h, Ty huge) {
  auto x = numbers<Ty>(kN, 9);
  double sum = 0, squares = 0;
  for (Ty e : x)
    sum += std::abs(e), squares += wide(e) * wide(e);
  Array<Ty> dx(x);
  Ty found;
  OK(nrm2(h, kN, dx.data, 1, &found));
  // The host's own sums of doubles are no better.
  double units = sizeof(Ty) == 4 ? 4 : 500;
  EXPECT(near(found, std::sqrt(squares), 0, units));
  OK(asum(h, kN, dx.data, 1, &found));
  EXPECT(near(found, sum, 0, units));
  // Squares that do not fit.
  Array<Ty> large({3 * huge, -4 * huge, 0});
  OK(nrm2(h, 3, large.data, 1, &found));
  EXPECT(near(found, 5 * wide(huge), 0));
  // Of nothing.
  for (int n : {0, -1}) {
    found = 7;
    OK(nrm2(h, n, dx.data, 1, &found));
    EXPECT(found == 0);
    found = 7;
    OK(dot(h, n, dx.data, 1, dx.data, 1, &found));
    EXPECT(found == 0);
  }
}

void others(Handle h) {
  std::vector<Float2> x = {{3, 4}, {0, 0}, {0, 12}};
  Array<Float2> dx(x);
  float size;
  OK(cublasScnrm2_v2(h, 3, dx.data, 1, &size));
  EXPECT(size == 13);
  Float2 square;
  OK(cublasCdotc_v2(h, 3, dx.data, 1, dx.data, 1, &square));
  EXPECT(square == Float2(169, 0));
  Array<Double2> z({{3, -4}, {-1, 2}});
  double sum;
  OK(cublasDzasum_v2(h, 2, z.data, 1, &sum));
  EXPECT(sum == 10);
  float half = 0.5;
  OK(cublasCsscal_v2(h, 3, &half, dx.data, 1));
  EXPECT(dx.get()[0] == Float2(1.5, 2));
  Array<float> a({1, 2}), b({3, 4});
  float c = 0.6f, s = 0.8f;
  OK(cublasSrot_v2(h, 2, a.data, 1, b.data, 1, &c, &s));
  EXPECT(near(a.get()[1], 0.6 * 2 + 0.8 * 4, 4) && near(b.get()[1], 0.6 * 4 - 0.8 * 2, 4));
  Array<float> ones(std::vector<float>(5000, 1));
  float all;
  OK(cublasSdot_v2_64(h, 5000, ones.data, 1, ones.data, 1, &all));
  EXPECT(all == 5000);
  Array<double> few({1, -7, 7});
  int64_t place;
  OK(cublasIdamax_v2_64(h, 3, few.data, 1, &place));
  EXPECT(place == 2);
  // Halves, with sums of single precision.
  Array<uint16_t> twos(std::vector<uint16_t>(100, 0x4000));
  uint16_t product;
  OK(cublasDotEx(h, 100, twos.data, 2, 1, twos.data, 2, 1, &product, 2, 0));
  EXPECT(product == 0x5e40); // 400
  EXPECT(cublasDotEx(h, 100, twos.data, 2, 1, twos.data, 0, 1, &product, 2, 0) == 15);
}

void copies() {
  std::vector<float> host = numbers<float>(60, 1), back(60, -1);
  Array<float> device(std::vector<float>(60, -1));
  OK(cublasSetVector(10, 4, host.data(), 3, device.data, 2));
  auto found = device.get();
  for (int i = 0; i < 20; i++)
    EXPECT(found[i] == (i % 2 == 0 ? host[i / 2 * 3] : -1));
  OK(cublasGetVector(10, 4, device.data, 2, back.data(), 1));
  for (int i = 0; i < 10; i++)
    EXPECT(back[i] == host[3 * i]);
  // 5 x 4, in columns of 7 and of 6.
  OK(cublasSetMatrix(5, 4, 4, host.data(), 7, device.data, 6));
  found = device.get();
  for (int c = 0; c < 4; c++)
    for (int r = 0; r < 5; r++)
      EXPECT(found[c * 6 + r] == host[c * 7 + r]);
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cublasSetMatrixAsync(2, 2, 8, host.data(), 3, device.data, 2, stream));
  OK(cublasGetMatrixAsync(4, 2, 4, device.data, 4, back.data(), 5, stream));
  OK(cudaStreamSynchronize(stream));
  for (int c = 0; c < 2; c++)
    for (int r = 0; r < 4; r++)
      EXPECT(back[c * 5 + r] == host[c * 6 + r]);
  OK(cudaStreamDestroy(stream));
  EXPECT(cublasSetVector(-1, 4, host.data(), 1, device.data, 1) == 7);
  EXPECT(cublasSetVector(1, 4, host.data(), 0, device.data, 1) == 7);
  EXPECT(cublasGetMatrix(5, 4, 4, device.data, 4, back.data(), 5) == 7);
  OK(cublasSetVector(0, 4, nullptr, 1, nullptr, 1));
  // No memory of the device.
  EXPECT(cublasSetVector(1, 4, host.data(), 1, (void *)8, 1) == 11);
  cudaGetLastError();
}

int main() {
  Handle h;
  OK(cublasCreate_v2(&h));
  changes<float>(h), changes<double>(h), changes<Float2>(h), changes<Double2>(h);
  products<float>(h), products<double>(h), products<Float2>(h), products<Double2>(h);
  norms<float>(h, 1e30f), norms<double>(h, 1e200);
  others(h);
  copies();
  OK(cublasDestroy_v2(h));
  puts("PASS");
}
