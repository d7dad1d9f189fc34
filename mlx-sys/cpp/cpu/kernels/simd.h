// Sixteen floats in the widest registers of the instruction set that a file is compiled for: one native vector, or
// pairs of narrower ones. Files that use it are compiled with contraction off: a compiler fuses a * b + c in one place
// and not in another, and a row's bits would depend on which; add_product() says it. They call no inline function of the
// standard library: the linker keeps one copy of such a function, and it could be the one for a machine that is not
// this one.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "cpu/kernels/kernels.h"

namespace troupe::TROUPE_ISA {

typedef float V4 __attribute__((vector_size(16)));
typedef int32_t I4 __attribute__((vector_size(16)));

// Two halves; every function works on each.
template <typename Half>
struct Pair {
  Half lo, hi;
};

#if defined(__AVX2__)
typedef float V8 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));
#else
using V8 = Pair<V4>;
#endif
#if defined(__AVX512F__)
typedef float V16 __attribute__((vector_size(64)));
typedef int32_t I16 __attribute__((vector_size(64)));
#else
using V16 = Pair<V8>;
#endif

template <typename H>
TROUPE_INLINE Pair<H> operator+(Pair<H> a, Pair<H> b) { return {a.lo + b.lo, a.hi + b.hi}; }
template <typename H>
TROUPE_INLINE Pair<H> operator-(Pair<H> a, Pair<H> b) { return {a.lo - b.lo, a.hi - b.hi}; }
template <typename H>
TROUPE_INLINE Pair<H> operator*(Pair<H> a, Pair<H> b) { return {a.lo * b.lo, a.hi * b.hi}; }
template <typename H>
TROUPE_INLINE Pair<H> operator/(Pair<H> a, Pair<H> b) { return {a.lo / b.lo, a.hi / b.hi}; }

// Made half by half, so that a pair never goes through memory as a whole.
template <typename V>
struct Make {
  static constexpr int kWidth = sizeof(V) / sizeof(float);
  static TROUPE_INLINE V splat(float x) { return x - V{}; }
  static TROUPE_INLINE V load(const float* p) {
    V v;
    std::memcpy(&v, p, sizeof(v));
    return v;
  }
  static TROUPE_INLINE void store(float* p, V v) { std::memcpy(p, &v, sizeof(v)); }
};
template <typename H>
struct Make<Pair<H>> {
  static constexpr int kWidth = 2 * Make<H>::kWidth;
  static TROUPE_INLINE Pair<H> splat(float x) { return {Make<H>::splat(x), Make<H>::splat(x)}; }
  static TROUPE_INLINE Pair<H> load(const float* p) { return {Make<H>::load(p), Make<H>::load(p + Make<H>::kWidth)}; }
  static TROUPE_INLINE void store(float* p, Pair<H> v) {
    Make<H>::store(p, v.lo);
    Make<H>::store(p + Make<H>::kWidth, v.hi);
  }
};
TROUPE_INLINE V16 splat(float x) { return Make<V16>::splat(x); }

// sum + a * b, fused where the machine can.
#if defined(__AVX512F__)
TROUPE_INLINE V16 add_product(V16 sum, V16 a, V16 b) {
  return reinterpret_cast<V16>(_mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b),
                                               reinterpret_cast<__m512>(sum)));
}
#endif
#if defined(__AVX2__)
TROUPE_INLINE V8 add_product(V8 sum, V8 a, V8 b) {
  return reinterpret_cast<V8>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b),
                                              reinterpret_cast<__m256>(sum)));
}
#elif defined(__aarch64__)
TROUPE_INLINE V4 add_product(V4 sum, V4 a, V4 b) {
  return reinterpret_cast<V4>(vfmaq_f32(reinterpret_cast<float32x4_t>(sum), reinterpret_cast<float32x4_t>(a),
                                        reinterpret_cast<float32x4_t>(b)));
}
#else
TROUPE_INLINE V4 add_product(V4 sum, V4 a, V4 b) { return sum + a * b; }
#endif
template <typename H>
TROUPE_INLINE Pair<H> add_product(Pair<H> sum, Pair<H> a, Pair<H> b) {
  return {add_product(sum.lo, a.lo, b.lo), add_product(sum.hi, a.hi, b.hi)};
}

TROUPE_INLINE V16 load(const float* p) { return Make<V16>::load(p); }
TROUPE_INLINE void store(float* p, V16 v) { Make<V16>::store(p, v); }

// The first n floats (all, if n is more), the other lanes zero.
TROUPE_INLINE V16 load_part(const float* p, int n) {
  if (n >= kLanes) return load(p);
  float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return load(lanes);
}
TROUPE_INLINE void store_part(float* p, V16 v, int n) {
  if (n >= kLanes) return store(p, v);
  float lanes[kLanes];
  store(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}

template <typename V>
TROUPE_INLINE V max(V a, V b) { return a > b ? a : b; }
template <typename H>
TROUPE_INLINE Pair<H> max(Pair<H> a, Pair<H> b) { return {max(a.lo, b.lo), max(a.hi, b.hi)}; }

TROUPE_INLINE float max(V16 v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  }
  return lanes[0];
}

// Sums of lanes are one tree everywhere: i with i + 8, then neighbours, then pairs, then the two fours.
TROUPE_INLINE V8 fold(V16 v) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
         __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  return v.lo + v.hi;
#endif
}

TROUPE_INLINE float sum(V16 v) {
  float f[8];
  V8 folded = fold(v);
  Make<V8>::store(f, folded);
  return ((f[0] + f[1]) + (f[2] + f[3])) + ((f[4] + f[5]) + (f[6] + f[7]));
}

#if defined(__AVX2__)
TROUPE_INLINE V8 neighbours(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
         __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}
TROUPE_INLINE V8 pairs(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
         __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
TROUPE_INLINE V8 fours(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}
#else
TROUPE_INLINE V4 neighbours(V4 a, V4 b) {
  return __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
}
TROUPE_INLINE V4 pairs(V4 a, V4 b) {
  return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
}
TROUPE_INLINE V8 neighbours(V8 a, V8 b) { return {neighbours(a.lo, b.lo), neighbours(a.hi, b.hi)}; }
TROUPE_INLINE V8 pairs(V8 a, V8 b) { return {pairs(a.lo, b.lo), pairs(a.hi, b.hi)}; }
TROUPE_INLINE V8 fours(V8 a, V8 b) { return {a.lo + a.hi, b.lo + b.hi}; }
#endif

// out[i] is the sum of the lanes of v[i], as sum() adds them.
TROUPE_INLINE void sums_of_eight(const V16* v, float* out) {
  V8 f[8];
  for (int i = 0; i < 8; ++i) f[i] = fold(v[i]);
  V8 totals = fours(pairs(neighbours(f[0], f[1]), neighbours(f[2], f[3])),
                    pairs(neighbours(f[4], f[5]), neighbours(f[6], f[7])));
  Make<V8>::store(out, totals);
}

// e to the x, within 2 ulp for normal results; 0 below -87. The coefficients are those of Cephes' expf.
template <typename V, typename I>
TROUPE_INLINE V exp_of(V x) {
  const V low = Make<V>::splat(-87.0f), high = Make<V>::splat(88.0f);
  const V magic = Make<V>::splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  V in = x > low ? x : low;
  in = in < high ? in : high;
  V shifted = add_product(magic, in, Make<V>::splat(1.44269504f));
  V n = shifted - magic;
  V r = add_product(in, n, Make<V>::splat(-0.693359375f));
  r = add_product(r, n, Make<V>::splat(2.12194440e-4f));
  V p = Make<V>::splat(1.9875691500e-4f);
  p = add_product(Make<V>::splat(1.3981999507e-3f), p, r);
  p = add_product(Make<V>::splat(8.3334519073e-3f), p, r);
  p = add_product(Make<V>::splat(4.1665795894e-2f), p, r);
  p = add_product(Make<V>::splat(1.6666665459e-1f), p, r);
  p = add_product(Make<V>::splat(5.0000001201e-1f), p, r);
  V squared = r * r;
  p = add_product(r, p, squared) + Make<V>::splat(1.0f);
  I bits = (reinterpret_cast<I>(shifted) << 23) + reinterpret_cast<I>(p);
  return x < low ? V{} : reinterpret_cast<V>(bits);
}
#if defined(__AVX512F__)
TROUPE_INLINE V16 exp(V16 x) { return exp_of<V16, I16>(x); }
#elif defined(__AVX2__)
TROUPE_INLINE V16 exp(V16 x) { return {exp_of<V8, I8>(x.lo), exp_of<V8, I8>(x.hi)}; }
#else
TROUPE_INLINE V8 exp(V8 x) { return {exp_of<V4, I4>(x.lo), exp_of<V4, I4>(x.hi)}; }
TROUPE_INLINE V16 exp(V16 x) { return {exp(x.lo), exp(x.hi)}; }
#endif

}  // namespace troupe::TROUPE_ISA
