// Parts of a row of logits: the largest, the weights and their sums, and where logits of a range stand.
#include "cpu/kernels/simd.h"
#include "cpu/kernels/table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace troupe::TROUPE_ISA {
namespace {

constexpr float kNothing = -INFINITY;

// The first n logits, those beyond and NaN as -infinity.
TROUPE_INLINE V16 load_logits(const float* x, int n) {
  const V16 nothing = splat(kNothing);
  if (n >= kLanes) return max(load(x), nothing);
  float lanes[kLanes];
  store(lanes, nothing);
  std::memcpy(lanes, x, static_cast<size_t>(n) * sizeof(float));
  return max(load(lanes), nothing);
}

// Bit i is whether lane i of a is at least that of b.
#if defined(__AVX512F__)
TROUPE_INLINE uint32_t lanes_at_least(V16 a, V16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
#elif defined(__AVX2__)
TROUPE_INLINE uint32_t lanes_at_least(V8 a, V8 b) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
}
#elif defined(__x86_64__)
TROUPE_INLINE uint32_t lanes_at_least(V4 a, V4 b) { return static_cast<uint32_t>(_mm_movemask_ps(_mm_cmpge_ps(a, b))); }
#elif defined(__aarch64__)
TROUPE_INLINE uint32_t lanes_at_least(V4 a, V4 b) {
  const uint32x4_t bits = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(vcgeq_f32(reinterpret_cast<float32x4_t>(a), reinterpret_cast<float32x4_t>(b)), bits));
}
#else
TROUPE_INLINE uint32_t lanes_at_least(V4 a, V4 b) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(a[i] >= b[i]) << i;
  return bits;
}
#endif
template <typename H>
TROUPE_INLINE uint32_t lanes_at_least(Pair<H> a, Pair<H> b) {
  return lanes_at_least(a.lo, b.lo) | lanes_at_least(a.hi, b.hi) << Make<H>::kWidth;
}

TROUPE_INLINE V16 weight(V16 x, const Weighting& how) {
  return exp((x - splat(how.max)) * splat(how.inverse_temperature));
}

template <typename V>
TROUPE_INLINE V choose(V a, V b, V yes, V no) { return a > b ? yes : no; }
template <typename H>
TROUPE_INLINE Pair<H> choose(Pair<H> a, Pair<H> b, Pair<H> yes, Pair<H> no) {
  return {choose(a.lo, b.lo, yes.lo, no.lo), choose(a.hi, b.hi, yes.hi, no.hi)};
}

}  // namespace

void lane_maxima(int n, const float* x, float* maxima) {
  V16 best[4];
  for (auto& lanes : best) lanes = splat(kNothing);
  int i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) best[j] = max(load(x + i + j * kLanes), best[j]);
  }
  for (; i < n; i += kLanes) best[0] = max(load_logits(x + i, n - i), best[0]);
  store(maxima, max(max(best[0], best[1]), max(best[2], best[3])));
}

float mass(int n, const float* x, const Weighting& how, float least) {
  const V16 bound = splat(least);
  V16 total = splat(0.0f);
  for (int i = 0; i < n; i += kLanes) {
    V16 logits = load_logits(x + i, n - i);
    // Few are at least what a small nucleus begins with.
    if (lanes_at_least(logits, bound) == 0) continue;
    total = total + choose(bound, logits, splat(0.0f), weight(logits, how));
  }
  return sum(total);
}

void masses(int n, const float* x, const Weighting& how, const float* least, float* out) {
  V16 totals[kBounds];
  TROUPE_UNROLL
  for (int b = 0; b < kBounds; ++b) totals[b] = splat(0.0f);
  for (int i = 0; i < n; i += kLanes) {
    V16 logits = load_logits(x + i, n - i);
    V16 weights = weight(logits, how);
    TROUPE_UNROLL
    for (int b = 0; b < kBounds; ++b) {
      totals[b] = totals[b] + choose(splat(least[b]), logits, splat(0.0f), weights);
    }
  }
  TROUPE_UNROLL
  for (int b = 0; b < kBounds; ++b) out[b] = sum(totals[b]);
}

void weights(int n, const float* x, const Weighting& how, float* out) {
  for (int i = 0; i < n; i += kLanes) store_part(out + i, weight(load_logits(x + i, n - i), how), n - i);
}

int places_of(int n, const float* x, const Range& range, int32_t* places) {
  int count = 0;
  const V16 least = splat(range.least), below = splat(range.below);
  for (int i = 0; i < n; i += kLanes) {
    // Not through load_logits: a NaN is not at least -infinity.
    V16 logits = load_part(x + i, n - i);
    uint32_t found = lanes_at_least(logits, least) & ~lanes_at_least(logits, below);
    if (i + kLanes > n) found &= (1u << (n - i)) - 1;
    for (; found != 0; found &= found - 1) places[count++] = i + __builtin_ctz(found);
  }
  return count;
}

void penalise(int n, const float* x, const Penalty& how, float* out) {
  const V16 zero = splat(0.0f), repetition = splat(how.repetition);
  const V16 presence = splat(how.presence), frequency = splat(how.frequency);
  for (int i = 0; i < n; i += kLanes) {
    int left = n - i;
    V16 logits = load_part(x + i, left), generated = load_part(how.generated + i, left);
    V16 weakened = choose(logits, zero, logits / repetition, logits * repetition);
    V16 seen = load_part(how.prompt + i, left) + generated;
    V16 result = choose(seen, zero, weakened, logits);
    result = result - choose(generated, zero, presence, zero);
    store_part(out + i, result - generated * frequency, left);
  }
}

}  // namespace troupe::TROUPE_ISA
