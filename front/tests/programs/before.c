/* Reads a row before its first allocation, as kernels that are not careful do. */
#include "check.h"

#define ROW 49152

int main(void) {
  static unsigned char row[ROW];
  CUdeviceptr first, second;
  begin();
  for (int round = 0; round < 2; round++) {
    CHECK(cuMemAlloc(&first, 4 << 20));
    CHECK(cuMemAlloc(&second, 4 << 20));
    CHECK(cuMemcpyDtoH(row, first - ROW, ROW));
    CHECK(cuMemFree(first));
    CHECK(cuMemFree(second));
  }
  puts("PASS");
  return 0;
}
