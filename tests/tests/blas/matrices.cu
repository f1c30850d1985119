// Matrices: products, sums and triangular systems against loops of the host.
#include "blas.h"

// A matrix in memory: columns of `lead` elements, of which the last are nobody's.
template <class Ty> struct Matrix {
  int rows, columns, lead;
  std::vector<Ty> data;
  Matrix(int rows, int columns, int seed, int gap = 3)
      : rows(rows), columns(columns), lead(rows + gap), data(numbers<Ty>(lead * columns, seed)) {}
  Ty &operator()(int r, int c) { return data[c * lead + r]; }
  const Ty &operator()(int r, int c) const { return data[c * lead + r]; }
  // An element after an operation.
  auto of(Operation op, int r, int c) const {
    auto value = wide(op == N ? (*this)(r, c) : (*this)(c, r));
    return op == C ? conjugate(value) : value;
  }
};

template <class Ty> Matrix<Ty> stored(Operation op, int rows, int columns, int seed) {
  return op == N ? Matrix<Ty>(rows, columns, seed) : Matrix<Ty>(columns, rows, seed);
}

constexpr Operation kAll[] = {N, T, C};

// alpha op(a) op(b) + beta c, and the sum of the sizes of its terms.
template <class Ty>
auto product(Operation oa, Operation ob, const Matrix<Ty> &a, const Matrix<Ty> &b, int k, int r, int c, Ty alpha, Ty beta,
             Ty old, double &size) {
  auto sum = wide(Ty(0));
  size = beta == Ty(0) ? 0 : std::abs(beta * old);
  for (int i = 0; i < k; i++) {
    auto term = a.of(oa, r, i) * b.of(ob, i, c);
    sum += term, size += std::abs(alpha) * std::abs(term);
  }
  return wide(alpha) * sum + (beta == Ty(0) ? wide(Ty(0)) : wide(beta) * wide(old));
}

template <class Ty> void gemm(Handle h) {
  const int m = 13, n = 9, k = 21;
  for (Operation oa : kAll)
    for (Operation ob : kAll)
      for (Ty beta : {Ty(0), some<Ty>(2)}) {
        auto a = stored<Ty>(oa, m, k, 1), b = stored<Ty>(ob, k, n, 2);
        Matrix<Ty> c(m, n, 3);
        // Factors of zero are not multiplied.
        if (beta == Ty(0))
          c(1, 1) = Ty(NAN);
        Ty alpha = some<Ty>(9);
        Array<Ty> da(a.data), db(b.data), dc(c.data);
        OK(gemm_of(&alpha)(h, oa, ob, m, n, k, &alpha, da.data, a.lead, db.data, b.lead, &beta, dc.data, c.lead));
        auto found = c;
        found.data = dc.get();
        for (int col = 0; col < n; col++)
          for (int row = 0; row < c.lead; row++) {
            double size;
            if (row >= m)
              EXPECT(found(row, col) == c(row, col));
            else {
              auto wanted = product(oa, ob, a, b, k, row, col, alpha, beta, c(row, col), size);
              EXPECT(near(found(row, col), wanted, size));
            }
          }
      }
  // Nothing to add up: C is scaled.
  Matrix<Ty> c(4, 5, 3);
  Ty one = 1, two = 2;
  Array<Ty> dc(c.data);
  OK(gemm_of(&one)(h, N, N, 4, 5, 0, &one, dc.data, 4, dc.data, 1, &two, dc.data, c.lead));
  EXPECT(dc.get()[1] == Ty(2) * c.data[1]);
  OK(gemm_of(&one)(h, N, N, 0, 5, 3, &one, dc.data, 1, dc.data, 3, &two, dc.data, 1));
  EXPECT(gemm_of(&one)(h, N, N, 4, 5, 3, &one, dc.data, 3, dc.data, 3, &two, dc.data, 4) == 7);
  EXPECT(gemm_of(&one)(h, N, N, -1, 5, 3, &one, dc.data, 4, dc.data, 3, &two, dc.data, 4) == 7);
  EXPECT(gemm_of(&one)(h, Operation(9), N, 4, 5, 3, &one, dc.data, 4, dc.data, 3, &two, dc.data, 4) == 7);
  EXPECT(gemm_of(&one)(nullptr, N, N, 4, 5, 3, &one, dc.data, 4, dc.data, 3, &two, dc.data, 4) == 1);
}

template <class Ty> void batches(Handle h) {
  const int m = 6, n = 5, k = 7, count = 40;
  Ty alpha = some<Ty>(4), beta = some<Ty>(6);
  std::vector<Matrix<Ty>> a, c;
  Matrix<Ty> b(k, n, 5);
  std::vector<Ty> all_a, all_c;
  for (int i = 0; i < count; i++) {
    a.emplace_back(m, k, i), c.emplace_back(m, n, 100 + i);
    all_a.insert(all_a.end(), a[i].data.begin(), a[i].data.end());
    all_c.insert(all_c.end(), c[i].data.begin(), c[i].data.end());
  }
  auto check = [&](const std::vector<Ty> &found) {
    for (int i = 0; i < count; i++)
      for (int col = 0; col < n; col++)
        for (int row = 0; row < m; row++) {
          double size;
          auto wanted = product(N, N, a[i], b, k, row, col, alpha, beta, c[i](row, col), size);
          EXPECT(near(found[i * c[0].data.size() + col * c[0].lead + row], wanted, size));
        }
  };
  Array<Ty> da(all_a), db(b.data), dc(all_c);
  long long of_a = a[0].data.size(), of_c = c[0].data.size();
  // B is the same for all.
  OK(strided_of(&alpha)(h, N, N, m, n, k, &alpha, da.data, a[0].lead, of_a, db.data, b.lead, 0, &beta, dc.data, c[0].lead,
                        of_c, count));
  check(dc.get());
  std::vector<const Ty *> list_a, list_b;
  std::vector<Ty *> list_c;
  Array<Ty> again(all_c);
  for (int i = 0; i < count; i++) {
    list_a.push_back(da.data + i * of_a), list_b.push_back(db.data);
    list_c.push_back(again.data + i * of_c);
  }
  Array<const Ty *> la(list_a), lb(list_b);
  Array<Ty *> lc(list_c);
  OK(batched_of(&alpha)(h, N, N, m, n, k, &alpha, la.data, a[0].lead, lb.data, b.lead, &beta, lc.data, c[0].lead, count));
  check(again.get());
}

template <class Ty> void vectors(Handle h) {
  const int m = 11, n = 7;
  Matrix<Ty> a(m, n, 1);
  Ty alpha = some<Ty>(4), beta = some<Ty>(6);
  for (Operation op : kAll)
    for (int step : {1, -2}) {
      int rows = op == N ? m : n, columns = op == N ? n : m;
      auto x = numbers<Ty>(columns * 2, 5), y = numbers<Ty>(rows * 2, 6);
      Array<Ty> da(a.data), dx(x), dy(y);
      OK(gemv_of(&alpha)(h, op, m, n, &alpha, da.data, a.lead, dx.data, step, &beta, dy.data, step));
      auto found = dy.get();
      auto place = [&](int i, int count) { return step > 0 ? i * step : (i - count + 1) * step; };
      for (int row = 0; row < rows; row++) {
        auto sum = wide(Ty(0));
        for (int c = 0; c < columns; c++)
          sum += a.of(op, row, c) * wide(x[place(c, columns)]);
        auto wanted = wide(alpha) * sum + wide(beta) * wide(y[place(row, rows)]);
        EXPECT(near(found[place(row, rows)], wanted, 1000));
      }
    }
  auto x = numbers<Ty>(m, 5), y = numbers<Ty>(n, 6);
  Array<Ty> da(a.data), dx(x), dy(y);
  OK(ger_of(&alpha)(h, m, n, &alpha, dx.data, 1, dy.data, -1, da.data, a.lead));
  auto found = da.get();
  for (int c = 0; c < n; c++)
    for (int r = 0; r < m; r++)
      EXPECT(near(found[c * a.lead + r], wide(alpha) * wide(x[r]) * wide(y[n - 1 - c]) + wide(a(r, c)), 100));
}

template <class Ty> void sums(Handle h) {
  const int m = 6, n = 8;
  Ty alpha = some<Ty>(4), beta = some<Ty>(6), zero = 0;
  for (Operation oa : kAll)
    for (Operation ob : kAll) {
      auto a = stored<Ty>(oa, m, n, 1), b = stored<Ty>(ob, m, n, 2);
      Matrix<Ty> c(m, n, 3);
      Array<Ty> da(a.data), db(b.data), dc(c.data);
      OK(geam_of(&alpha)(h, oa, ob, m, n, &alpha, da.data, a.lead, &beta, db.data, b.lead, dc.data, c.lead));
      c.data = dc.get();
      for (int col = 0; col < n; col++)
        for (int row = 0; row < m; row++)
          EXPECT(near(c(row, col), wide(alpha) * a.of(oa, row, col) + wide(beta) * b.of(ob, row, col), 100));
    }
  // In place, and as a transposition without a second matrix.
  Matrix<Ty> a(m, n, 1), c(n, m, 3);
  Array<Ty> da(a.data), dc(c.data);
  OK(geam_of(&alpha)(h, T, N, n, m, &alpha, da.data, a.lead, &zero, nullptr, n, dc.data, c.lead));
  c.data = dc.get();
  EXPECT(near(c(5, 2), wide(alpha) * wide(a(2, 5)), 10));
  OK(geam_of(&alpha)(h, N, N, m, n, &alpha, da.data, a.lead, &alpha, da.data, a.lead, da.data, a.lead));
  EXPECT(near(da.get()[2], wide(Ty(2)) * wide(alpha) * wide(a.data[2]), 100));
  EXPECT(geam_of(&alpha)(h, T, N, n, m, &alpha, da.data, a.lead, &zero, nullptr, n, da.data, c.lead) == 7);
  for (Side side : {Left, Right}) {
    auto x = numbers<Ty>(n, 5);
    Array<Ty> again(a.data), dx(x);
    OK(dgmm_of(&alpha)(h, side, m, n, again.data, a.lead, dx.data, 1, again.data, a.lead));
    EXPECT(near(again.get()[3 * a.lead + 1], wide(a(1, 3)) * wide(x[side == Left ? 1 : 3]), 10));
  }
}

template <class Ty> void systems(Handle h) {
  const int m = 7, n = 5;
  Ty alpha = some<Ty>(4);
  for (Side side : {Left, Right})
    for (Fill fill : {Lower, Upper})
      for (Operation op : kAll)
        for (Diagonal diagonal : {NonUnit, Unit}) {
          int order = side == Left ? m : n;
          Matrix<Ty> a(order, order, 2), b(m, n, 3);
          for (int i = 0; i < order; i++)
            for (int j = 0; j < order; j++)
              a(i, j) = i == j ? Ty(9) : (fill == Lower) == (i > j) ? a(i, j) / Ty(4) : Ty(NAN);
          Array<Ty> da(a.data), db(b.data);
          OK(trsm_of(&alpha)(h, side, fill, op, diagonal, m, n, &alpha, da.data, a.lead, db.data, b.lead));
          auto x = b;
          x.data = db.get();
          // The triangle that counts, times the solution, is the right-hand side.
          for (int i = 0; i < order; i++)
            for (int j = 0; j < order; j++)
              if (i == j && diagonal == Unit)
                a(i, j) = Ty(1);
              else if (i != j && (fill == Lower) != (i > j))
                a(i, j) = Ty(0);
          for (int c = 0; c < n; c++)
            for (int r = 0; r < m; r++) {
              auto sum = wide(Ty(0));
              for (int i = 0; i < order; i++)
                sum += side == Left ? a.of(op, r, i) * wide(x(i, c)) : wide(x(r, i)) * a.of(op, i, c);
              EXPECT(near(Ty(sum), wide(alpha) * wide(b(r, c)), 1000));
            }
        }
}

// By types: halves, bfloat16 and bytes, whose small integers are exact.
void typed(Handle h) {
  constexpr int R32F = 0, R16F = 2, R8I = 3, R32I = 10, R16BF = 14, kSingle = 68, kHalf = 64, kInteger = 72;
  const int m = 5, n = 6, k = 4;
  auto value = [](int i) { return (i * 7) % 9 - 4; };
  auto half = [](int x) -> uint16_t {
    if (x == 0)
      return 0;
    int e = std::ilogb(std::abs(x));
    return (x < 0 ? 0x8000 : 0) | (15 + e) << 10 | int((std::abs(x) - (1 << e)) * 1024 / (1 << e));
  };
  auto brain = [](int x) -> uint16_t {
    float f = x;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits >> 16;
  };
  std::vector<int> sums(m * n);
  for (int c = 0; c < n; c++)
    for (int r = 0; r < m; r++)
      for (int i = 0; i < k; i++)
        sums[c * m + r] += value(i * m + r) * value(50 + c * k + i);
  std::vector<uint16_t> ah, bh, ab, bb;
  std::vector<int8_t> ai, bi;
  for (int i = 0; i < m * k; i++)
    ah.push_back(half(value(i))), ab.push_back(brain(value(i))), ai.push_back(value(i));
  for (int i = 0; i < k * n; i++)
    bh.push_back(half(value(50 + i))), bb.push_back(brain(value(50 + i))), bi.push_back(value(50 + i));
  Array<uint16_t> dah(ah), dbh(bh), dab(ab), dbb(bb), ch(std::vector<uint16_t>(m * n));
  Array<int8_t> dai(ai), dbi(bi);
  Array<float> cf(std::vector<float>(m * n));
  Array<int> ci(std::vector<int>(m * n));
  float one = 1, zero = 0;
  int whole = 1, none = 0;
  uint16_t unit = 0x3c00, nothing = 0;
  OK(cublasGemmEx(h, N, N, m, n, k, &one, dah.data, R16F, m, dbh.data, R16F, k, &zero, cf.data, R32F, m, kSingle, -1));
  EXPECT(std::vector<int>(sums) == [&] { auto f = cf.get(); return std::vector<int>(f.begin(), f.end()); }());
  OK(cublasGemmEx(h, N, N, m, n, k, &one, dab.data, R16BF, m, dbb.data, R16BF, k, &one, cf.data, R32F, m, kSingle, 99));
  for (int i = 0; i < m * n; i++)
    EXPECT(cf.get()[i] == 2 * sums[i]);
  OK(cublasGemmEx(h, N, N, m, n, k, &unit, dah.data, R16F, m, dbh.data, R16F, k, &nothing, ch.data, R16F, m, kHalf, -1));
  for (int i = 0; i < m * n; i++)
    EXPECT(ch.get()[i] == half(sums[i]));
  OK(cublasGemmEx(h, N, N, m, n, k, &whole, dai.data, R8I, m, dbi.data, R8I, k, &none, ci.data, R32I, m, kInteger, -1));
  EXPECT(ci.get() == sums);
  OK(cublasGemmStridedBatchedEx(h, N, N, m, n, k, &one, dah.data, R16F, m, 0, dbh.data, R16F, k, 0, &zero, cf.data, R32F, m,
                                m * n, 1, kSingle, -1));
  EXPECT(cf.get()[3] == sums[3]);
  EXPECT(cublasGemmEx(h, N, N, m, n, k, &one, dah.data, R16F, m, dbb.data, R16BF, k, &zero, cf.data, R32F, m, kSingle, -1) == 15);
  EXPECT(cublasGemmEx(h, N, N, m, n, k, &one, dah.data, R16F, m, dbh.data, R16F, k, &zero, cf.data, R32F, m, 70, -1) == 15);
  EXPECT(cublasGemmEx(h, N, N, m, n, k, &one, dah.data, R16F, m, dbh.data, R16F, k, &zero, cf.data, R32F, m, 1, -1) == 7);
}

template <class Ty> void all(Handle h) {
  gemm<Ty>(h), batches<Ty>(h), vectors<Ty>(h), sums<Ty>(h), systems<Ty>(h);
}

int main() {
  Handle h;
  OK(cublasCreate_v2(&h));
  all<float>(h), all<double>(h), all<Float2>(h), all<Double2>(h);
  typed(h);
  OK(cublasDestroy_v2(h));
  puts("PASS");
}
