// Stored keys and values as sixteen floats, exactly, and floats as stored numbers, rounded to nearest even.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/halves.h"

namespace troupe::TROUPE_ISA {

template <KvType kType>
struct KvElement;
template <>
struct KvElement<KvType::f32> {
  using Type = float;
};
template <>
struct KvElement<KvType::f16> {
  using Type = uint16_t;
};
template <>
struct KvElement<KvType::bf16> {
  using Type = uint16_t;
};
template <>
struct KvElement<KvType::i8> {
  using Type = int8_t;
};

#if defined(__AVX512F__)
TROUPE_INLINE V16 widen_bytes(const int8_t* p) {
  return reinterpret_cast<V16>(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bits<__m128i>(p))));
}
#elif defined(__AVX2__)
TROUPE_INLINE V8 widen_eight(const int8_t* p) {
  return reinterpret_cast<V8>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(load_bits<int64_t>(p)))));
}
TROUPE_INLINE V16 widen_bytes(const int8_t* p) { return {widen_eight(p), widen_eight(p + 8)}; }
#else
typedef int8_t B4 __attribute__((vector_size(4)));
TROUPE_INLINE V4 widen_four(const int8_t* p) {
  return __builtin_convertvector(__builtin_convertvector(load_bits<B4>(p), I4), V4);
}
TROUPE_INLINE V16 widen_bytes(const int8_t* p) {
  return {{widen_four(p), widen_four(p + 4)}, {widen_four(p + 8), widen_four(p + 12)}};
}
#endif

template <KvType kType>
TROUPE_INLINE V16 load_kv(const typename KvElement<kType>::Type* p) {
  if constexpr (kType == KvType::f32) return load(p);
  if constexpr (kType == KvType::f16) return Widen<V16>::f16(p);
  if constexpr (kType == KvType::bf16) return Widen<V16>::bf16(p);
  if constexpr (kType == KvType::i8) return widen_bytes(p);
}

// The first n elements, the other lanes zero.
template <KvType kType>
TROUPE_INLINE V16 load_kv_part(const typename KvElement<kType>::Type* p, int n) {
  typename KvElement<kType>::Type lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(*p));
  return load_kv<kType>(lanes);
}

TROUPE_INLINE uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Sixteen floats as halves.
#if defined(__AVX512F__)
TROUPE_INLINE void narrow_f16(const float* x, uint16_t* out) {
  __m256i halves = _mm512_cvtps_ph(load_bits<__m512>(x), _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(out, &halves, sizeof(halves));
}
#elif defined(__F16C__)
TROUPE_INLINE void narrow_f16(const float* x, uint16_t* out) {
  for (int i = 0; i < kLanes; i += 8) {
    __m128i halves = _mm256_cvtps_ph(load_bits<__m256>(x + i), _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(out + i, &halves, sizeof(halves));
  }
}
#elif defined(__aarch64__)
TROUPE_INLINE void narrow_f16(const float* x, uint16_t* out) {
  for (int i = 0; i < kLanes; i += 4) {
    float16x4_t halves = vcvt_f16_f32(load_bits<float32x4_t>(x + i));
    std::memcpy(out + i, &halves, sizeof(halves));
  }
}
#else
TROUPE_INLINE uint16_t to_f16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (rest < 0x38800000) {
    // Subnormal halves are multiples of 2^-24: adding 1/2 leaves the multiple in the low bits, rounded.
    float shifted, magnitude;
    std::memcpy(&magnitude, &rest, sizeof(rest));
    shifted = magnitude + 0.5f;
    std::memcpy(&rest, &shifted, sizeof(rest));
    return static_cast<uint16_t>(sign | (rest - 0x3f000000));
  }
  rest += 0xfff + (rest >> 13 & 1);
  return static_cast<uint16_t>(sign | (rest - 0x38000000) >> 13);
}
TROUPE_INLINE void narrow_f16(const float* x, uint16_t* out) {
  for (int i = 0; i < kLanes; ++i) out[i] = to_f16(x[i]);
}
#endif

}  // namespace troupe::TROUPE_ISA
