// Mathematical functions of single precision. The units in the last place are what CUDA's programming guide allows,
// with one more for the library that softgpu uses.
#include "conformance.h"

#define ONE(name, ulps, low, high)                                                                                     \
  CASE_WITHIN(name, float, ulps) { out[threadIdx.x] = name(between(threadIdx.x, low, high)); }
#define TWO(name, ulps, low, high)                                                                                     \
  CASE_WITHIN(name, float, ulps) {                                                                                     \
    unsigned i = threadIdx.x;                                                                                          \
    out[i] = name(between(i, low, high), between(i * 11 % 64, low, high));                                             \
  }

ONE(sinf, 3, -10.0f, 10.0f)
ONE(cosf, 3, -10.0f, 10.0f)
ONE(tanf, 5, -1.5f, 1.5f)
ONE(sinpif, 2, -3.0f, 3.0f)
ONE(cospif, 2, -3.0f, 3.0f)
ONE(asinf, 3, -1.0f, 1.0f)
ONE(acosf, 3, -1.0f, 1.0f)
ONE(atanf, 3, -20.0f, 20.0f)
TWO(atan2f, 4, -5.0f, 5.0f)
ONE(sinhf, 4, -8.0f, 8.0f)
ONE(coshf, 3, -8.0f, 8.0f)
ONE(tanhf, 3, -4.0f, 4.0f)
ONE(asinhf, 4, -50.0f, 50.0f)
ONE(acoshf, 5, 1.0f, 50.0f)
ONE(atanhf, 4, -0.98f, 0.98f)
ONE(expf, 3, -20.0f, 20.0f)
ONE(exp2f, 3, -20.0f, 20.0f)
ONE(exp10f, 3, -20.0f, 20.0f)
ONE(expm1f, 2, -3.0f, 3.0f)
ONE(logf, 2, 0.01f, 100.0f)
ONE(log2f, 2, 0.01f, 100.0f)
ONE(log10f, 3, 0.01f, 100.0f)
ONE(log1pf, 2, -0.9f, 10.0f)
ONE(logbf, 0, 0.01f, 1000.0f)
ONE(sqrtf, 1, 0.0f, 100.0f)
ONE(rsqrtf, 3, 0.01f, 100.0f)
ONE(cbrtf, 2, -100.0f, 100.0f)
ONE(rcbrtf, 3, 0.01f, 100.0f)
TWO(powf, 6, 0.1f, 8.0f)
TWO(hypotf, 4, -30.0f, 30.0f)
TWO(rhypotf, 4, 0.1f, 30.0f)
ONE(erff, 3, -3.0f, 3.0f)
ONE(erfcf, 5, -3.0f, 3.0f)
ONE(erfinvf, 4, -0.9f, 0.9f)
ONE(normcdff, 6, -3.0f, 3.0f)
ONE(tgammaf, 6, 0.2f, 8.0f)
ONE(lgammaf, 7, 3.5f, 60.0f)
ONE(j0f, 8, 0.5f, 2.0f)
ONE(y1f, 8, 0.5f, 2.0f)

// The fast forms are rough by their nature: what is compared is the value, not the last place.
#define FAST(name, low, high, error)                                                                                   \
  CASE(fast##name, int) {                                                                                              \
    float x = between(threadIdx.x, low, high);                                                                         \
    out[threadIdx.x] = int(rintf(name(x) * (1.0f / (error))) / 4);                                                     \
  }
FAST(__sinf, -3.0f, 3.0f, 1e-2f)
FAST(__cosf, -3.0f, 3.0f, 1e-2f)
FAST(__expf, -3.0f, 3.0f, 1e-1f)
FAST(__logf, 0.1f, 10.0f, 1e-1f)
FAST(__log2f, 0.1f, 10.0f, 1e-1f)
FAST(__exp10f, -1.0f, 1.0f, 1e-1f)

CASE_WITHIN(sine_and_cosine, float, 3) {
  float s, c;
  sincosf(between(threadIdx.x, -5.0f, 5.0f), &s, &c);
  out[threadIdx.x] = threadIdx.x % 2 ? s : c;
}
CASE_WITHIN(norm_of_three, float, 4) {
  unsigned i = threadIdx.x;
  out[i] = norm3df(between(i, 0.1f, 4.0f), between(i * 5 % 64, 1.0f, 2.0f), between(i * 7 % 64, 3.0f, 9.0f));
}
