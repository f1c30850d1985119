// A struct holding device pointers, passed to the kernel by value: a sparse matrix in compressed rows, times a vector.
// The pointers reach the kernel inside the struct, where no argument of the launch shows them.
//
//   structs [rows] [entries in a row] [repetitions]
//
//#Args: rows=4000 entries=6 repetitions=3
//#Stdout: structs: rows=4000 entries=6 repetitions=3 PASS
//#Lazy: address-escapes
//#Record: 4 * (rows + 1) + 2 * 4 * rows * entries + 2 * 4 * rows

#include "common.h"
#include <utility>
#include <vector>

struct SparseMatrix {
  unsigned rows;
  unsigned *starts; // rows + 1 of them: row r has the entries starts[r] .. starts[r + 1]
  unsigned *columns;
  unsigned *values;
};

__global__ void multiply(SparseMatrix matrix, const unsigned *in, unsigned *out) {
  unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= matrix.rows)
    return;
  unsigned sum = 0;
  for (unsigned e = matrix.starts[row]; e < matrix.starts[row + 1]; e++)
    sum += matrix.values[e] * in[matrix.columns[e]];
  out[row] = sum;
}

static unsigned *to_device(const std::vector<unsigned> &host) {
  unsigned *device;
  size_t bytes = host.size() * sizeof(unsigned);
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
  return device;
}

int main(int argc, char **argv) {
  size_t rows = count_argument(argc, argv, 1, 4000);
  size_t entries = count_argument(argc, argv, 2, 6);
  size_t repetitions = count_argument(argc, argv, 3, 3);
  std::vector<unsigned> starts, columns, values, vector(rows);
  for (size_t row = 0; row < rows; row++) {
    starts.push_back(unsigned(columns.size()));
    vector[row] = unsigned(row % 97);
    for (size_t e = 0; e < entries; e++) {
      columns.push_back(unsigned((row * 31 + e * e * 17 + 5 * e) % rows));
      values.push_back(unsigned(row + 3 * e));
    }
  }
  starts.push_back(unsigned(columns.size()));

  SparseMatrix matrix{unsigned(rows), to_device(starts), to_device(columns), to_device(values)};
  unsigned *in = to_device(vector);
  unsigned *out = to_device(vector);
  for (size_t r = 0; r < repetitions; r++) {
    multiply<<<(rows + 127) / 128, 128>>>(matrix, in, out);
    CHECK_LAUNCH();
    std::swap(in, out);
  }
  std::vector<unsigned> result(rows);
  CHECK(cudaMemcpy(result.data(), in, rows * sizeof(unsigned), cudaMemcpyDeviceToHost));
  for (unsigned *memory : {matrix.starts, matrix.columns, matrix.values, in, out})
    CHECK(cudaFree(memory));

  for (size_t r = 0; r < repetitions; r++) {
    std::vector<unsigned> product(rows);
    for (size_t row = 0; row < rows; row++)
      for (unsigned e = starts[row]; e < starts[row + 1]; e++)
        product[row] += values[e] * vector[columns[e]];
    vector = product;
  }
  printf("structs: rows=%zu entries=%zu repetitions=%zu ", rows, entries, repetitions);
  return report(result == vector);
}
