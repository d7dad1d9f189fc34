// Dot products of bytes: as many 32-bit sums as the widest register has, each of four bytes at a time. All sums are
// exact, so every instruction set gives the same integers.
#pragma once

#include "cpu/kernels/simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

namespace troupe::TROUPE_ISA {

#if defined(__AVX512F__)
using Floats = V16;
constexpr int kRowsAtOnce = 8, kFloatRowsAtOnce = 4;
#elif defined(__AVX2__)
using Floats = V8;
constexpr int kRowsAtOnce = 4, kFloatRowsAtOnce = 2;
#else
using Floats = V4;
constexpr int kRowsAtOnce = 8, kFloatRowsAtOnce = 4;
#endif
typedef int32_t Sums __attribute__((vector_size(sizeof(Floats))));
typedef uint32_t Words __attribute__((vector_size(sizeof(Floats))));  // four bytes each

constexpr int kWidth = Make<Floats>::kWidth;

TROUPE_INLINE Words load_words(const uint8_t* p) {
  Words words;
  std::memcpy(&words, p, sizeof(words));
  return words;
}

TROUPE_INLINE Sums splat_int(int32_t x) { return x - Sums{}; }

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// Unsigned bytes times signed ones is what the instruction does.
constexpr int kByteOffset = 0;
#else
// Bytes above 127 are multiplied as byte - 128.
constexpr int kByteOffset = 128;
#endif

// w as the second operand of dot(): a matter of bytes that use all eight bits.
template <int kBits>
TROUPE_INLINE Words prepared(Words w) { return kBits == 8 && kByteOffset != 0 ? w ^ 0x80808080u : w; }

// sums + the products of each word's bytes (unsigned, of kBits bits, prepared) with the four signed bytes at x, none
// of which is -128.
template <int kBits>
TROUPE_INLINE Sums dot(Sums sums, Words w, const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
#if defined(__AVX512VNNI__)
  return reinterpret_cast<Sums>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums), reinterpret_cast<__m512i>(w),
                                                    _mm512_set1_epi32(four)));
#elif defined(__AVX512F__)
  __m512i y = _mm512_set1_epi32(four), v = reinterpret_cast<__m512i>(w);
  if constexpr (kBits == 8) {
    y = _mm512_mask_sub_epi8(y, _mm512_movepi8_mask(v), _mm512_setzero_si512(), y);
    v = _mm512_abs_epi8(v);
  }
  // Pairs fit 16 bits: 2 * 128 * 127 at most.
  return sums + reinterpret_cast<Sums>(_mm512_madd_epi16(_mm512_maddubs_epi16(v, y), _mm512_set1_epi16(1)));
#elif defined(__AVXVNNI__)
  return reinterpret_cast<Sums>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sums), reinterpret_cast<__m256i>(w),
                                                        _mm256_set1_epi32(four)));
#elif defined(__AVX2__)
  __m256i y = _mm256_set1_epi32(four), v = reinterpret_cast<__m256i>(w);
  if constexpr (kBits == 8) {
    y = _mm256_sign_epi8(y, v);
    v = _mm256_abs_epi8(v);
  }
  return sums + reinterpret_cast<Sums>(_mm256_madd_epi16(_mm256_maddubs_epi16(v, y), _mm256_set1_epi16(1)));
#elif defined(__ARM_FEATURE_DOTPROD)
  return reinterpret_cast<Sums>(vdotq_s32(reinterpret_cast<int32x4_t>(sums), reinterpret_cast<int8x16_t>(w),
                                          reinterpret_cast<int8x16_t>(vdupq_n_s32(four))));
#else
  for (int i = 0; i < kQuad; ++i) {
    // The byte as a signed one, which it is when prepared, and less than 64 otherwise.
    Sums byte = reinterpret_cast<Sums>(w << (24 - 8 * i)) >> 24;
    sums += byte * static_cast<int32_t>(x[i]);
  }
  return sums;
#endif
}

TROUPE_INLINE Floats to_floats(Sums sums) { return __builtin_convertvector(sums, Floats); }

// Bits [kShift, kShift + kWide) of every byte, moved to start at bit kTo.
template <int kShift, int kWide, int kTo>
TROUPE_INLINE Words field(Words w) {
  constexpr uint32_t kMask = (((1u << kWide) - 1) << kTo) * 0x01010101u;
  if constexpr (kWide == 8) return w;
  if constexpr (kShift > kTo) return (w >> (kShift - kTo)) & kMask;
  return (w << (kTo - kShift)) & kMask;
}

// Quad kAt of a plane of kWide bits.
template <int kWide, int kTo, int kAt>
TROUPE_INLINE Words plane(const uint8_t* vectors) {
  constexpr int kShare = 8 / kWide;
  return field<kWide*(kAt % kShare), kWide, kTo>(load_words(vectors + kAt / kShare * kVector));
}

// The elements of quad kAt of a chunk, one a byte.
template <int kBits, int kAt>
TROUPE_INLINE Words elements(const uint8_t* chunk) {
  constexpr int kFirst = first_plane(kBits);
  Words low = plane<kFirst, 0, kAt>(chunk);
  if constexpr (kFirst == kBits) {
    return low;
  } else {
    return low | plane<kBits - kFirst, kFirst, kAt>(chunk + kFirst * kVector);
  }
}

}  // namespace troupe::TROUPE_ISA
