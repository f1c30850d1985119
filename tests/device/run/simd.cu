// The integer SIMD intrinsics, with the examples of CUDA's documentation and values worked out by hand.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"

__global__ void all(unsigned *out) {
  int i = 0;
  out[i++] = __vadd2(0xffff0001, 0x00010001);
  out[i++] = __vaddss2(0x7fff8000, 0x0001ffff);
  out[i++] = __vaddus4(0xff01fe02, 0x01010202);
  out[i++] = __vsub4(0x00000000, 0x01020304);
  out[i++] = __vabsdiffu4(0x10203040, 0x20103050);
  out[i++] = __vabsdiffs2(0x8000ffff, 0x7fff0001);
  out[i++] = __vabs2(0xfffe0003);
  out[i++] = __vsadu4(0x01020304, 0x04030201);
  out[i++] = __vavgu4(0x01020304, 0x02020405);
  out[i++] = __vmaxs2(0xffff0001, 0x00000000);
  out[i++] = __vminu2(0xffff0001, 0x00000002);
  out[i++] = __vcmpeq2(0x1234aba5, 0x1234aba6);
  out[i++] = __vcmpgtu4(0xff000180, 0x7f000080);
  out[i++] = __vsetles2(0xffff0001, 0x00000000);
  out[i++] = __dp4a(0x01020304, 0x01010101, 5);
  out[i++] = __byte_perm(0x33221100, 0x77665544, 0x7240);
  out[i++] = __funnelshift_l(0x80000000, 1, 1);
  out[i++] = __usad(3, 10, 1);
}

int main() {
  Array<unsigned> out(18);
  all<<<1, 1>>>(out.data);
  std::vector<unsigned> wanted{0x00000002, 0x7fff8000, 0xff02ff04, 0xfffefdfc, 0x10100010, 0xffff0002, 0x00020003, 8,
                               0x02020405, 0x00000001, 0x00000001, 0xffff0000, 0xff00ff00, 0x00010000, 15, 0x77224400,
                               3,          8};
  auto values = out.get();
  for (int i = 0; i < 18; i++)
    if (values[i] != wanted[i])
      printf("%d: %#x, not %#x\n", i, values[i], wanted[i]), failures++;
  return finish();
}
