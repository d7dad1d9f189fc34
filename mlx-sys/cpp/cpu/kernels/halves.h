// Halves of both kinds as floats, exactly, in the vectors of simd.h.
#pragma once

#include "cpu/kernels/simd.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace troupe::TROUPE_ISA {

template <typename H>
TROUPE_INLINE H load_bits(const void* p) {
  H bits;
  std::memcpy(&bits, p, sizeof(bits));
  return bits;
}

// From native vector to native vector, and half by half for the others. bf16 is the upper half of an f32.
template <typename V>
struct Widen;

template <typename H>
struct Widen<Pair<H>> {
  static TROUPE_INLINE Pair<H> bf16(const uint16_t* p) {
    return {Widen<H>::bf16(p), Widen<H>::bf16(p + Make<H>::kWidth)};
  }
  static TROUPE_INLINE Pair<H> f16(const uint16_t* p) {
    return {Widen<H>::f16(p), Widen<H>::f16(p + Make<H>::kWidth)};
  }
};

#if defined(__AVX512F__)
template <>
struct Widen<V16> {
  static TROUPE_INLINE V16 bf16(const uint16_t* p) {
    return reinterpret_cast<V16>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_bits<__m256i>(p)), 16));
  }
  static TROUPE_INLINE V16 f16(const uint16_t* p) {
    return reinterpret_cast<V16>(_mm512_cvtph_ps(load_bits<__m256i>(p)));
  }
};
#elif defined(__AVX2__)
template <>
struct Widen<V8> {
  static TROUPE_INLINE V8 bf16(const uint16_t* p) {
    return reinterpret_cast<V8>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_bits<__m128i>(p)), 16));
  }
  static TROUPE_INLINE V8 f16(const uint16_t* p) {
    return reinterpret_cast<V8>(_mm256_cvtph_ps(load_bits<__m128i>(p)));
  }
};
#elif defined(__aarch64__)
template <>
struct Widen<V4> {
  static TROUPE_INLINE V4 bf16(const uint16_t* p) {
    return reinterpret_cast<V4>(vshll_n_u16(load_bits<uint16x4_t>(p), 16));
  }
  static TROUPE_INLINE V4 f16(const uint16_t* p) {
    return reinterpret_cast<V4>(vcvt_f32_f16(load_bits<float16x4_t>(p)));
  }
};
#else
template <>
struct Widen<V4> {
  typedef uint16_t H4 __attribute__((vector_size(8)));
  typedef uint32_t U4 __attribute__((vector_size(16)));

  static TROUPE_INLINE U4 words(const uint16_t* p) { return __builtin_convertvector(load_bits<H4>(p), U4); }
  static TROUPE_INLINE V4 bf16(const uint16_t* p) { return reinterpret_cast<V4>(words(p) << 16); }
  static TROUPE_INLINE V4 f16(const uint16_t* p) {
    U4 bits = words(p), sign = (bits & 0x8000) << 16, rest = (bits & 0x7fff) << 13;
    // A product with 2^112 moves the exponent, and makes normal numbers of subnormal ones too. Infinity and NaN have
    // to be told apart.
    U4 finite = reinterpret_cast<U4>(reinterpret_cast<V4>(rest) * Make<V4>::splat(0x1p112f));
    U4 special = rest | 0x7f800000;
    return reinterpret_cast<V4>(sign | (rest >= 0x0f800000 ? special : finite));
  }
};
#endif

// The vector at p, whose elements are of a type known when compiling.
template <typename V, Number kNumber>
TROUPE_INLINE V load_as(const void* p) {
  if constexpr (kNumber == Number::f32) return Make<V>::load(static_cast<const float*>(p));
  if constexpr (kNumber == Number::f16) return Widen<V>::f16(static_cast<const uint16_t*>(p));
  if constexpr (kNumber == Number::bf16) return Widen<V>::bf16(static_cast<const uint16_t*>(p));
}

// Its first n elements, the other lanes zero.
template <typename V, Number kNumber>
TROUPE_INLINE V load_part_as(const void* p, int n) {
  if (n >= Make<V>::kWidth) return load_as<V, kNumber>(p);
  constexpr size_t kBytes = kNumber == Number::f32 ? 4 : 2;
  unsigned char bytes[Make<V>::kWidth * kBytes] = {};
  std::memcpy(bytes, p, static_cast<size_t>(n) * kBytes);
  return load_as<V, kNumber>(bytes);
}

}  // namespace troupe::TROUPE_ISA
