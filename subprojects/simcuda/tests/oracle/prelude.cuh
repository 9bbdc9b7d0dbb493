// What the drawn programs are made of, for nvcc and for the host's compiler. For the device each function is the
// intrinsic or the operator; for the host it is written out anew, and no part of the simulation is used.
#pragma once

#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

enum { STATE_WORDS = 8, OWN_WORDS = 16 };

struct state {
    u32 v[STATE_WORDS];
};

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define HD       static __device__
#define NOINLINE static __device__ __noinline__
#else
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fenv.h>
#define HD       static
#define NOINLINE static __attribute__((noinline))
#endif

// Bits of a number, in both directions.
HD float f_of(u32 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
HD double d_of(u64 bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
// A NaN is one NaN, so that no result depends on which.
HD float one_nan(float a) {
    return a != a ? f_of(0x7fc00000) : a;
}
HD double one_nan(double a) {
    return a != a ? d_of(0x7ff8000000000000ull) : a;
}
HD u32 bits_of(float a) {
    u32 bits;
    a = one_nan(a);
    memcpy(&bits, &a, 4);
    return bits;
}
HD u64 bits_of(double a) {
    u64 bits;
    a = one_nan(a);
    memcpy(&bits, &a, 8);
    return bits;
}
HD u16 one_nan_half(u16 bits) {
    return (bits & 0x7fff) > 0x7c00 ? 0x7fff : bits;
}
HD u16 one_nan_bfloat(u16 bits) {
    return (bits & 0x7fff) > 0x7f80 ? 0x7fff : bits;
}

// Signed arithmetic wraps, and no division traps: C++ leaves these undefined.
HD s32 s_add(s32 a, s32 b) {
    return (s32)((u32)a + (u32)b);
}
HD s32 s_sub(s32 a, s32 b) {
    return (s32)((u32)a - (u32)b);
}
HD s32 s_mul(s32 a, s32 b) {
    return (s32)((u32)a * (u32)b);
}
HD s32 s_div(s32 a, s32 b) {
    return b == 0 || b == -1 ? a : a / b;
}
HD s32 s_rem(s32 a, s32 b) {
    return b == 0 || b == -1 ? a : a % b;
}
HD s64 l_div(s64 a, s64 b) {
    return b == 0 || b == -1 ? a : a / b;
}
HD s64 l_rem(s64 a, s64 b) {
    return b == 0 || b == -1 ? a : a % b;
}

#ifdef __CUDACC__

HD u32 popc(u32 a) { return __popc(a); }
HD u32 popcll(u64 a) { return __popcll(a); }
HD u32 clz(u32 a) { return __clz(a); }
HD u32 clzll(u64 a) { return __clzll(a); }
HD u32 brev(u32 a) { return __brev(a); }
HD u64 brevll(u64 a) { return __brevll(a); }
HD u32 first_set(u32 a) { return __ffs(a); }
HD u32 byte_perm(u32 a, u32 b, u32 s) { return __byte_perm(a, b, s & 0x7777); }
HD u32 shift_left(u32 a, u32 b, u32 n) { return __funnelshift_l(a, b, n); }
HD u32 shift_right(u32 a, u32 b, u32 n) { return __funnelshift_r(a, b, n); }
HD u32 shift_left_clamp(u32 a, u32 b, u32 n) { return __funnelshift_lc(a, b, n); }
HD u32 shift_right_clamp(u32 a, u32 b, u32 n) { return __funnelshift_rc(a, b, n); }
HD u32 mul_high(u32 a, u32 b) { return __umulhi(a, b); }
HD s32 mul_high_s(s32 a, s32 b) { return __mulhi(a, b); }
HD u64 mul_high_ll(u64 a, u64 b) { return __umul64hi(a, b); }
HD s64 mul_high_sll(s64 a, s64 b) { return __mul64hi(a, b); }
HD u32 mul_24(u32 a, u32 b) { return __umul24(a, b); }
HD u32 sad(u32 a, u32 b, u32 c) { return __usad(a, b, c); }
HD u32 average(u32 a, u32 b) { return __uhadd(a, b); }
HD u32 dot4(u32 a, u32 b, u32 c) { return __dp4a(a, b, c); }
HD s32 dot4_s(s32 a, s32 b, s32 c) { return __dp4a(a, b, c); }
HD u32 add_pairs(u32 a, u32 b) { return __vadd2(a, b); }
HD u32 differ_bytes(u32 a, u32 b) { return __vabsdiffu4(a, b); }

HD float f_least(float a, float b) { return fminf(a, b); }
HD float f_most(float a, float b) { return fmaxf(a, b); }
HD double d_least(double a, double b) { return fmin(a, b); }
HD double d_most(double a, double b) { return fmax(a, b); }
HD float f_root(float a) { return __fsqrt_rn(fabsf(a)); }
HD double d_root(double a) { return __dsqrt_rn(fabs(a)); }
HD float f_sign(float a, float b) { return copysignf(a, one_nan(b)); }
HD double d_sign(double a, double b) { return copysign(a, one_nan(b)); }

HD float f_add_rz(float a, float b) { return __fadd_rz(a, b); }
HD float f_add_rd(float a, float b) { return __fadd_rd(a, b); }
HD float f_mul_ru(float a, float b) { return __fmul_ru(a, b); }
HD float f_mul_rz(float a, float b) { return __fmul_rz(a, b); }
HD float f_fma_rz(float a, float b, float c) { return __fmaf_rz(a, b, c); }
HD float f_fma_ru(float a, float b, float c) { return __fmaf_ru(a, b, c); }
HD float f_div_rd(float a, float b) { return __fdiv_rd(a, b); }
HD float f_root_rz(float a) { return __fsqrt_rz(fabsf(a)); }
HD double d_add_ru(double a, double b) { return __dadd_ru(a, b); }
HD double d_mul_rd(double a, double b) { return __dmul_rd(a, b); }
HD double d_fma_rz(double a, double b, double c) { return __fma_rz(a, b, c); }
HD double d_div_ru(double a, double b) { return __ddiv_ru(a, b); }
HD float f_of_s_rz(s32 a) { return __int2float_rz(a); }
HD float f_of_u_ru(u32 a) { return __uint2float_ru(a); }
HD float f_of_ull_rd(u64 a) { return __ull2float_rd(a); }
HD double d_of_sll_rz(s64 a) { return __ll2double_rz(a); }
HD float f_of_d_rz(double a) { return __double2float_rz(a); }
HD float f_of_d_ru(double a) { return __double2float_ru(a); }

HD s32 s_of_f(float a) { return __float2int_rz(a); }
HD s32 s_of_f_rn(float a) { return __float2int_rn(a); }
HD u32 u_of_f_ru(float a) { return __float2uint_ru(a); }
HD s64 sll_of_f_rd(float a) { return __float2ll_rd(a); }
HD u64 ull_of_f(float a) { return __float2ull_rz(a); }
HD s32 s_of_d_rn(double a) { return __double2int_rn(a); }
HD u32 u_of_d(double a) { return __double2uint_rz(a); }
HD s64 sll_of_d(double a) { return __double2ll_rz(a); }
HD u64 ull_of_d_ru(double a) { return __double2ull_ru(a); }

HD __half half_of(u16 bits) { return __ushort_as_half(bits); }
HD u16 half_bits(__half a) { return one_nan_half(__half_as_ushort(a)); }
HD __nv_bfloat16 bfloat_of(u16 bits) { return __ushort_as_bfloat16(bits); }
HD u16 bfloat_bits(__nv_bfloat16 a) { return one_nan_bfloat(__bfloat16_as_ushort(a)); }
HD u16 h_add(u16 a, u16 b) { return half_bits(__hadd_rn(half_of(a), half_of(b))); }
HD u16 h_sub(u16 a, u16 b) { return half_bits(__hsub_rn(half_of(a), half_of(b))); }
HD u16 h_mul(u16 a, u16 b) { return half_bits(__hmul_rn(half_of(a), half_of(b))); }
HD u16 h_fma(u16 a, u16 b, u16 c) { return half_bits(__hfma(half_of(a), half_of(b), half_of(c))); }
HD bool h_less(u16 a, u16 b) { return __hlt(half_of(a), half_of(b)); }
HD float f_of_h(u16 a) { return __half2float(half_of(a)); }
HD u16 h_of_f(float a) { return half_bits(__float2half_rn(a)); }
HD u16 h_of_f_rz(float a) { return half_bits(__float2half_rz(a)); }
HD u16 h_of_f_ru(float a) { return half_bits(__float2half_ru(a)); }
HD u16 h_of_s(s32 a) { return half_bits(__int2half_rn(a)); }
HD s32 s_of_h(u16 a) { return __half2int_rz(half_of(a)); }
HD u32 h2_fma(u32 a, u32 b, u32 c) {
    __half2 x, y, z, r;
    u32 bits;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    memcpy(&z, &c, 4);
    r = __hfma2(x, y, z);
    memcpy(&bits, &r, 4);
    return (u32)one_nan_half((u16)(bits >> 16)) << 16 | one_nan_half((u16)bits);
}
HD float f_of_b(u16 a) { return __bfloat162float(bfloat_of(a)); }
HD u16 b_of_f(float a) { return bfloat_bits(__float2bfloat16_rn(a)); }
HD u16 b_of_f_rz(float a) { return bfloat_bits(__float2bfloat16_rz(a)); }
HD u16 b_add(u16 a, u16 b) { return bfloat_bits(__hadd_rn(bfloat_of(a), bfloat_of(b))); }
HD u16 b_mul(u16 a, u16 b) { return bfloat_bits(__hmul_rn(bfloat_of(a), bfloat_of(b))); }

#else

HD u32 popcll(u64 a) {
    u32 count = 0;
    for (; a; a &= a - 1)
        count++;
    return count;
}
HD u32 popc(u32 a) { return popcll(a); }
HD u32 clzll(u64 a) {
    u32 count = 64;
    for (; a; a >>= 1)
        count--;
    return count;
}
HD u32 clz(u32 a) { return clzll(a) - 32; }
HD u64 brevll(u64 a) {
    u64 result = 0;
    for (int i = 0; i < 64; i++)
        result |= (a >> i & 1) << (63 - i);
    return result;
}
HD u32 brev(u32 a) { return (u32)(brevll(a) >> 32); }
HD u32 first_set(u32 a) { return a ? 32 - clz(a & (0 - a)) : 0; }
HD u32 byte_perm(u32 a, u32 b, u32 s) {
    u64 both = (u64)b << 32 | a;
    u32 result = 0;
    for (int i = 0; i < 4; i++)
        result |= (u32)(both >> (8 * (s >> (4 * i) & 7)) & 0xff) << (8 * i);
    return result;
}
HD u32 shift_left_clamp(u32 a, u32 b, u32 n) {
    return (u32)((((u64)b << 32) | a) << (n < 32 ? n : 32) >> 32);
}
HD u32 shift_right_clamp(u32 a, u32 b, u32 n) {
    return (u32)((((u64)b << 32) | a) >> (n < 32 ? n : 32));
}
HD u32 shift_left(u32 a, u32 b, u32 n) { return shift_left_clamp(a, b, n % 32); }
HD u32 shift_right(u32 a, u32 b, u32 n) { return shift_right_clamp(a, b, n % 32); }
HD u32 mul_high(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
HD s32 mul_high_s(s32 a, s32 b) { return (s32)((s64)a * b >> 32); }
HD u64 mul_high_ll(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
HD s64 mul_high_sll(s64 a, s64 b) { return (s64)((__int128)a * b >> 64); }
HD u32 mul_24(u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); }
HD u32 sad(u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; }
HD u32 average(u32 a, u32 b) { return (u32)(((u64)a + b) >> 1); }
HD u32 dot4(u32 a, u32 b, u32 c) {
    for (int i = 0; i < 4; i++)
        c += (a >> (8 * i) & 0xff) * (b >> (8 * i) & 0xff);
    return c;
}
HD s32 dot4_s(s32 a, s32 b, s32 c) {
    for (int i = 0; i < 4; i++)
        c = s_add(c, (s8)((u32)a >> (8 * i)) * (s8)((u32)b >> (8 * i)));
    return c;
}
HD u32 add_pairs(u32 a, u32 b) {
    return ((a & 0xffff0000) + (b & 0xffff0000)) | ((a + b) & 0xffff);
}
HD u32 differ_bytes(u32 a, u32 b) {
    u32 result = 0;
    for (int i = 0; i < 32; i += 8) {
        u32 x = a >> i & 0xff, y = b >> i & 0xff;
        result |= (x > y ? x - y : y - x) << i;
    }
    return result;
}

// -0 is less than +0, and a NaN is passed over.
template <typename T> static T extreme(T a, T b, bool most) {
    if (a != a)
        return b;
    if (b != b)
        return a;
    if (a == b)
        return std::signbit(a) == most ? b : a;
    return (a < b) == most ? b : a;
}
HD float f_least(float a, float b) { return extreme(a, b, false); }
HD float f_most(float a, float b) { return extreme(a, b, true); }
HD double d_least(double a, double b) { return extreme(a, b, false); }
HD double d_most(double a, double b) { return extreme(a, b, true); }
HD float f_root(float a) { return sqrtf(fabsf(a)); }
HD double d_root(double a) { return sqrt(fabs(a)); }
HD float f_sign(float a, float b) { return copysignf(a, one_nan(b)); }
HD double d_sign(double a, double b) { return copysign(a, one_nan(b)); }

// By the rounding of the host's processor. Volatile, so that nothing is computed under another one.
#define ROUNDED(type, mode, expression)                                                                                \
    volatile type x = a, y = b, z = c, result;                                                                         \
    fesetround(mode);                                                                                                  \
    result = (expression);                                                                                             \
    fesetround(FE_TONEAREST);                                                                                          \
    (void)x, (void)y, (void)z;                                                                                         \
    return result;
#define ROUNDED_1(name, to, from, mode, expression)                                                                    \
    HD to name(from a) {                                                                                               \
        volatile from x = a;                                                                                           \
        volatile to result;                                                                                            \
        fesetround(mode);                                                                                              \
        result = (expression);                                                                                         \
        fesetround(FE_TONEAREST);                                                                                      \
        return result;                                                                                                 \
    }
#define ROUNDED_2(name, type, mode, expression)                                                                        \
    HD type name(type a, type b) {                                                                                     \
        const type c = 0;                                                                                              \
        ROUNDED(type, mode, expression)                                                                                \
    }
#define ROUNDED_3(name, type, mode, expression)                                                                        \
    HD type name(type a, type b, type c) { ROUNDED(type, mode, expression) }
ROUNDED_2(f_add_rz, float, FE_TOWARDZERO, x + y)
ROUNDED_2(f_add_rd, float, FE_DOWNWARD, x + y)
ROUNDED_2(f_mul_ru, float, FE_UPWARD, x *y)
ROUNDED_2(f_mul_rz, float, FE_TOWARDZERO, x *y)
ROUNDED_3(f_fma_rz, float, FE_TOWARDZERO, fmaf(x, y, z))
ROUNDED_3(f_fma_ru, float, FE_UPWARD, fmaf(x, y, z))
ROUNDED_2(f_div_rd, float, FE_DOWNWARD, x / y)
ROUNDED_1(f_root_rz, float, float, FE_TOWARDZERO, sqrtf(fabsf(x)))
ROUNDED_2(d_add_ru, double, FE_UPWARD, x + y)
ROUNDED_2(d_mul_rd, double, FE_DOWNWARD, x *y)
ROUNDED_3(d_fma_rz, double, FE_TOWARDZERO, fma(x, y, z))
ROUNDED_2(d_div_ru, double, FE_UPWARD, x / y)
ROUNDED_1(f_of_s_rz, float, s32, FE_TOWARDZERO, (float)x)
ROUNDED_1(f_of_d_rz, float, double, FE_TOWARDZERO, (float)x)
ROUNDED_1(f_of_d_ru, float, double, FE_UPWARD, (float)x)
// The host may convert these in two steps: the nearest, and one step from it where that is beyond.
HD float f_of_u_ru(u32 a) {
    float near = (float)a;
    return (double)near < (double)a ? nextafterf(near, INFINITY) : near;
}
HD float f_of_ull_rd(u64 a) {
    float near = (float)a;
    return near >= 0x1p64f || (u64)near > a ? nextafterf(near, 0) : near;
}
HD double d_of_sll_rz(s64 a) {
    double near = (double)a;
    if (near >= 0x1p63)
        return nextafter(near, 0);
    return ((s64)near > a) == (a > 0) && (s64)near != a ? nextafter(near, 0) : near;
}

HD s32 to_s32(double a, s32 nan) { return a != a ? nan : a < -0x1p31 ? INT32_MIN : a >= 0x1p31 ? INT32_MAX : (s32)a; }
HD u32 to_u32(double a, u32 nan) { return a != a ? nan : a <= 0 ? 0 : a >= 0x1p32 ? UINT32_MAX : (u32)a; }
HD s64 to_s64(double a) {
    return a != a ? INT64_MIN : a < -0x1p63 ? INT64_MIN : a >= 0x1p63 ? INT64_MAX : (s64)a;
}
HD u64 to_u64(double a) {
    return a != a ? 0x8000000000000000ull : a <= 0 ? 0 : a >= 0x1p64 ? UINT64_MAX : (u64)a;
}
HD s32 s_of_f(float a) { return to_s32(a, 0); }
HD s32 s_of_f_rn(float a) { return to_s32(rint(a), 0); }
HD u32 u_of_f_ru(float a) { return to_u32(ceil(a), 0); }
HD s64 sll_of_f_rd(float a) { return to_s64(floor(a)); }
HD u64 ull_of_f(float a) { return to_u64(a); }
HD s32 s_of_d_rn(double a) { return to_s32(rint(a), INT32_MIN); }
HD u32 u_of_d(double a) { return to_u32(a, 0x80000000); }
HD s64 sll_of_d(double a) { return to_s64(a); }
HD u64 ull_of_d_ru(double a) { return to_u64(ceil(a)); }

// A number of a 16-bit format as a double, and the nearest one of a double.
HD double from_format(u16 bits, int fraction, int least) {
    int exponent = (bits & 0x7fff) >> fraction, most = 0x7fff >> fraction;
    double value = bits & ((1 << fraction) - 1);
    if (exponent == most)
        value = value ? NAN : INFINITY;
    else
        value = ldexp(exponent ? value + (1 << fraction) : value, least - fraction + (exponent ? exponent - 1 : 0));
    return bits & 0x8000 ? -value : value;
}
HD u16 to_format(double a, int fraction, int least, int mode) {
    u16 sign = std::signbit(a) ? 0x8000 : 0, infinity = (u16)(0x7fff >> fraction << fraction);
    int exponent;
    double places, whole;
    if (a != a)
        return 0x7fff;
    if (std::isinf(a))
        return sign | infinity;
    if (a == 0)
        return sign;
    frexp(a, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    places = ldexp(fabs(a), fraction - exponent);
    whole = mode == FE_TONEAREST                ? rint(places)
            : mode == FE_UPWARD && !sign        ? ceil(places)
            : mode == FE_DOWNWARD && sign       ? ceil(places)
                                                : floor(places);
    whole += ldexp(exponent - least, fraction);
    if (whole >= infinity)
        whole = mode == FE_TONEAREST || (mode == FE_UPWARD && !sign) ? infinity : infinity - 1;
    return sign | (u16)whole;
}
HD double half_value(u16 a) { return from_format(a, 10, -14); }
HD double bfloat_value(u16 a) { return from_format(a, 7, -126); }
HD u16 to_half(double a) { return to_format(a, 10, -14, FE_TONEAREST); }
HD u16 to_bfloat(double a) { return to_format(a, 7, -126, FE_TONEAREST); }
HD u16 h_add(u16 a, u16 b) { return to_half(half_value(a) + half_value(b)); }
HD u16 h_sub(u16 a, u16 b) { return to_half(half_value(a) - half_value(b)); }
HD u16 h_mul(u16 a, u16 b) { return to_half(half_value(a) * half_value(b)); }
HD u16 h_fma(u16 a, u16 b, u16 c) { return to_half(fma(half_value(a), half_value(b), half_value(c))); }
HD bool h_less(u16 a, u16 b) { return half_value(a) < half_value(b); }
HD float f_of_h(u16 a) { return (float)half_value(a); }
HD u16 h_of_f(float a) { return to_half(a); }
HD u16 h_of_f_rz(float a) { return to_format(a, 10, -14, FE_TOWARDZERO); }
HD u16 h_of_f_ru(float a) { return to_format(a, 10, -14, FE_UPWARD); }
HD u16 h_of_s(s32 a) { return to_half(a); }
HD s32 s_of_h(u16 a) { return to_s32(half_value(a), 0); }
HD u32 h2_fma(u32 a, u32 b, u32 c) {
    return (u32)h_fma((u16)(a >> 16), (u16)(b >> 16), (u16)(c >> 16)) << 16 | h_fma((u16)a, (u16)b, (u16)c);
}
HD float f_of_b(u16 a) { return (float)bfloat_value(a); }
HD u16 b_of_f(float a) { return to_bfloat(a); }
HD u16 b_of_f_rz(float a) { return to_format(a, 7, -126, FE_TOWARDZERO); }
// A double holds such a sum but for places that decide nothing: both have 8 bits.
HD u16 b_add(u16 a, u16 b) { return to_bfloat(bfloat_value(a) + bfloat_value(b)); }
HD u16 b_mul(u16 a, u16 b) { return to_bfloat(bfloat_value(a) * bfloat_value(b)); }

#endif
