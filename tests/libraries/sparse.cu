// cuSPARSE: a sparse matrix times a vector, in the generic API.
#include "check.h"
#include <cusparse.h>

int main() {
  const int n = 10000;
  std::vector<int> rows(n + 1), columns;
  std::vector<float> values, vector(n);
  std::vector<double> expected(n);
  for (int row = 0; row < n; row++) {
    vector[row] = float(row % 13);
    for (int column : {row - 1, row, row + 1})
      if (column >= 0 && column < n) {
        columns.push_back(column);
        values.push_back(column == row ? 2.f : -1.f);
        expected[row] += double(values.back()) * (column % 13);
      }
    rows[row + 1] = int(columns.size());
  }
  int *row_starts = to_device(rows), *column_numbers = to_device(columns);
  float *entries = to_device(values), *x = to_device(vector), *y;
  OK(cudaMalloc(&y, n * sizeof(float)));
  cusparseHandle_t handle;
  OK(cusparseCreate(&handle));
  cusparseSpMatDescr_t matrix;
  cusparseDnVecDescr_t in, out;
  OK(cusparseCreateCsr(&matrix, n, n, columns.size(), row_starts, column_numbers, entries, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  OK(cusparseCreateDnVec(&in, n, x, CUDA_R_32F));
  OK(cusparseCreateDnVec(&out, n, y, CUDA_R_32F));
  const float one = 1, zero = 0;
  size_t bytes = 0;
  OK(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
                             CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
  void *work = nullptr;
  OK(cudaMalloc(&work, bytes + 1));
  OK(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
                  CUSPARSE_SPMV_ALG_DEFAULT, work));
  auto found = to_host(y, n);
  for (int i = 0; i < n; i++)
    near(found[i], expected[i], 1e-3);
  OK(cusparseDestroyDnVec(in));
  OK(cusparseDestroyDnVec(out));
  OK(cusparseDestroySpMat(matrix));
  OK(cusparseDestroy(handle));
  for (void *each : {(void *)row_starts, (void *)column_numbers, (void *)entries, (void *)x, (void *)y, work})
    OK(cudaFree(each));
  printf("PASS\n");
}
