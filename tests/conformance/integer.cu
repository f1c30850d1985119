// Integer arithmetic and bit intrinsics.
#include "conformance.h"

#define ONE(name, T, expression)                                                                                       \
  CASE(name, T) {                                                                                                      \
    unsigned i = threadIdx.x;                                                                                          \
    uint32_t a = any32(i), b = any32(63 - i), c = any32(i + 100);                                                      \
    uint64_t p = any64(i), q = any64(63 - i);                                                                          \
    (void)a, (void)b, (void)c, (void)p, (void)q;                                                                       \
    out[i] = static_cast<T>(expression);                                                                                            \
  }

ONE(clz, int, __clz(int(a)))
ONE(clzll, int, __clzll((long long)p))
ONE(ffs, int, __ffs(int(a)))
ONE(ffsll, int, __ffsll((long long)p))
ONE(popc, int, __popc(a))
ONE(popcll, int, __popcll(p))
ONE(brev, unsigned, __brev(a))
ONE(brevll, unsigned long long, __brevll(p))
ONE(byte_perm, unsigned, __byte_perm(a, b, c))
ONE(mulhi, int, __mulhi(int(a), int(b)))
ONE(umulhi, unsigned, __umulhi(a, b))
ONE(mul64hi, long long, __mul64hi((long long)p, (long long)q))
ONE(umul64hi, unsigned long long, __umul64hi(p, q))
ONE(mul24, int, __mul24(int(a), int(b)))
ONE(umul24, unsigned, __umul24(a, b))
ONE(sad, unsigned, __sad(int(a), int(b), c))
ONE(usad, unsigned, __usad(a, b, c))
ONE(hadd, int, __hadd(int(a), int(b)))
ONE(rhadd, int, __rhadd(int(a), int(b)))
ONE(uhadd, unsigned, __uhadd(a, b))
ONE(urhadd, unsigned, __urhadd(a, b))
ONE(funnelshift_l, unsigned, __funnelshift_l(a, b, c))
ONE(funnelshift_lc, unsigned, __funnelshift_lc(a, b, c))
ONE(funnelshift_r, unsigned, __funnelshift_r(a, b, c))
ONE(funnelshift_rc, unsigned, __funnelshift_rc(a, b, c))
ONE(dp4a_signed, int, __dp4a(int(a), int(b), int(c)))
ONE(dp4a_unsigned, unsigned, __dp4a(a, b, c))
ONE(dp2a_lo_signed, int, __dp2a_lo(int(a), int(b), int(c)))
ONE(dp2a_hi_unsigned, unsigned, __dp2a_hi(a, b, c))
ONE(divide_signed, int, i == 6 ? 0 : int(a) / (int(b) | 1))
ONE(remainder_unsigned, unsigned, a % (b | 1))
ONE(divide_64, long long, i == 3 ? 0 : (long long)p / ((long long)q | 1))
ONE(remainder_64, unsigned long long, p % (q | 1))
ONE(multiply_128, unsigned long long, (unsigned long long)(((unsigned __int128)p * q) >> 40))
ONE(minimum, int, min(int(a), int(b)))
ONE(maximum, unsigned, max(a, b))
ONE(minimum_64, long long, min((long long)p, (long long)q))
ONE(absolute, int, abs(int(a) == INT32_MIN ? 1 : int(a)))
ONE(rotate, unsigned, (a << (c % 31 + 1)) | (a >> (31 - c % 31)))
ONE(arithmetic_shift, long long, (long long)p >> (c % 64))

CASE(bit_field, unsigned) {
  unsigned i = threadIdx.x, a = any32(i), taken, put_in;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(taken) : "r"(a), "r"(i % 32), "r"(i % 17));
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(put_in) : "r"(a), "r"(any32(i + 9)), "r"(i % 32), "r"(i % 13));
  out[i] = taken ^ put_in;
}

CASE(carry_chain, unsigned long long) {
  unsigned i = threadIdx.x, low, high;
  uint64_t p = any64(i), q = any64(63 - i);
  asm("add.cc.u32 %0, %2, %3; addc.u32 %1, %4, %5;"
      : "=r"(low), "=r"(high)
      : "r"(unsigned(p)), "r"(unsigned(q)), "r"(unsigned(p >> 32)), "r"(unsigned(q >> 32)));
  out[i] = (unsigned long long)high << 32 | low;
}
