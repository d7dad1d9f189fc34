// Vectors of floats in the compiler's own vector types: the same source gives AVX-512, AVX2, NEON or plain code.
// Files that use it are compiled with contraction on, and every a * b + c here stands alone, so that it becomes the
// same fused operation in every function that inlines it. Nothing depends on how many rows a call works on.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
// One body compiled for several machines; the dynamic linker picks.
#define TROUPE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define TROUPE_CLONES_NARROW __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define TROUPE_CLONES
#define TROUPE_CLONES_NARROW
#endif
#define TROUPE_INLINE inline __attribute__((always_inline))

namespace troupe {

constexpr int kLanes = 16;
typedef float V16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t I16 __attribute__((vector_size(64)));
typedef float V8 __attribute__((vector_size(32)));
typedef float V4 __attribute__((vector_size(16)));

TROUPE_INLINE V16 splat(float x) { return V16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
TROUPE_INLINE V16 load(const float* p) { return *reinterpret_cast<const V16*>(p); }
TROUPE_INLINE void store(float* p, V16 v) { *reinterpret_cast<V16*>(p) = v; }

// The first n floats, the other lanes zero.
TROUPE_INLINE V16 load_part(const float* p, int n) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return load(lanes);
}

TROUPE_INLINE V8 low(V16 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7); }
TROUPE_INLINE V8 high(V16 v) { return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15); }

// [a0+a1, b0+b1, a2+a3, b2+b3 | the same of the upper half]: one level of eight parallel sums.
TROUPE_INLINE V8 pair_sums(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
         __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}

TROUPE_INLINE V8 quad_sums(V8 a, V8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
         __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}

// Lane i is the sum of the lanes of v[i]. Each sum is the same tree, whatever the other seven hold.
TROUPE_INLINE V8 sums_of_eight(const V16* v) {
  V8 f[8];
  for (int i = 0; i < 8; ++i) f[i] = low(v[i]) + high(v[i]);
  V8 a = quad_sums(pair_sums(f[0], f[1]), pair_sums(f[2], f[3]));
  V8 b = quad_sums(pair_sums(f[4], f[5]), pair_sums(f[6], f[7]));
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

TROUPE_INLINE float sum(V16 v) {
  V8 f = low(v) + high(v);
  float a = (f[0] + f[1]) + (f[2] + f[3]);
  float b = (f[4] + f[5]) + (f[6] + f[7]);
  return a + b;
}

TROUPE_INLINE V16 max(V16 a, V16 b) { return a > b ? a : b; }

TROUPE_INLINE float max(V16 v) {
  float best = v[0];
  for (int i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
  return best;
}

// e to the x, within 2 ulp for normal results; 0 below -87.
TROUPE_INLINE V16 exp(V16 x) {
  const V16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  V16 in = max(x, splat(-87.0f));
  in = in < splat(88.0f) ? in : splat(88.0f);
  V16 shifted = in * splat(1.44269504f) + magic;
  V16 n = shifted - magic;
  V16 r = in - n * splat(0.693359375f);
  r = r - n * splat(-2.12194440e-4f);
  V16 p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * (r * r) + r;
  p = p + splat(1.0f);
  I16 bits = (reinterpret_cast<I16>(shifted) << 23) + reinterpret_cast<I16>(p);
  return x < splat(-87.0f) ? splat(0.0f) : reinterpret_cast<V16>(bits);
}

}  // namespace troupe
