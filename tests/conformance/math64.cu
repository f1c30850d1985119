// Mathematical functions of double precision.
#include "conformance.h"

#define ONE(name, ulps, low, high)                                                                                     \
  CASE_WITHIN(name, double, ulps) { out[threadIdx.x] = name(between(threadIdx.x, low, high)); }
#define TWO(name, ulps, low, high)                                                                                     \
  CASE_WITHIN(name, double, ulps) {                                                                                    \
    unsigned i = threadIdx.x;                                                                                          \
    out[i] = name(between(i, low, high), between(i * 11 % 64, low, high));                                             \
  }

ONE(sin, 3, -10.0, 10.0)
ONE(cos, 3, -10.0, 10.0)
ONE(tan, 3, -1.5, 1.5)
ONE(sinpi, 3, -3.0, 3.0)
ONE(asin, 3, -1.0, 1.0)
ONE(acos, 3, -1.0, 1.0)
ONE(atan, 3, -20.0, 20.0)
TWO(atan2, 3, -5.0, 5.0)
ONE(sinh, 3, -8.0, 8.0)
ONE(cosh, 2, -8.0, 8.0)
ONE(tanh, 3, -4.0, 4.0)
ONE(asinh, 4, -50.0, 50.0)
ONE(atanh, 4, -0.98, 0.98)
ONE(exp, 2, -20.0, 20.0)
ONE(exp2, 2, -20.0, 20.0)
ONE(exp10, 3, -20.0, 20.0)
ONE(expm1, 2, -3.0, 3.0)
ONE(log, 2, 0.01, 100.0)
ONE(log2, 2, 0.01, 100.0)
ONE(log10, 2, 0.01, 100.0)
ONE(log1p, 2, -0.9, 10.0)
ONE(sqrt, 0, 0.0, 100.0)
ONE(rsqrt, 2, 0.01, 100.0)
ONE(cbrt, 2, -100.0, 100.0)
TWO(pow, 3, 0.1, 8.0)
TWO(hypot, 3, -30.0, 30.0)
ONE(erf, 3, -3.0, 3.0)
ONE(erfc, 6, -3.0, 3.0)
ONE(tgamma, 11, 0.2, 8.0)
ONE(lgamma, 8, 3.5, 60.0)
ONE(normcdf, 8, -3.0, 3.0)

CASE_WITHIN(sine_and_cosine_64, double, 3) {
  double s, c;
  sincos(between(threadIdx.x, -5.0, 5.0), &s, &c);
  out[threadIdx.x] = threadIdx.x % 2 ? s : c;
}
