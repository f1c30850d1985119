// Integer SIMD within a word.
#include "conformance.h"

#define TWO(name)                                                                                                      \
  CASE(simd_##name, unsigned) {                                                                                        \
    unsigned i = threadIdx.x;                                                                                          \
    out[i] = __##name(any32(i), any32(63 - i));                                                                        \
  }
#define ONE(name)                                                                                                      \
  CASE(simd_##name, unsigned) { out[threadIdx.x] = __##name(any32(threadIdx.x)); }

TWO(vadd2)
TWO(vadd4)
TWO(vaddss2)
TWO(vaddus4)
TWO(vsub2)
TWO(vsubss4)
TWO(vsubus2)
TWO(vabsdiffs2)
TWO(vabsdiffu4)
TWO(vavgs2)
TWO(vavgu4)
TWO(vhaddu2)
TWO(vmaxs2)
TWO(vmaxu4)
TWO(vmins4)
TWO(vminu2)
TWO(vcmpeq2)
TWO(vcmpgts4)
TWO(vcmpleu2)
TWO(vcmpne4)
TWO(vseteq2)
TWO(vsetltu4)
TWO(vsads2)
TWO(vsadu4)
ONE(vabs2)
ONE(vabs4)
ONE(vabsss2)
ONE(vneg4)
ONE(vnegss2)
