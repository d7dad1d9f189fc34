// Activations to integers: each chunk of a row by itself, so that a large value coarsens its own chunk only.
#include "cpu/kernels/packed.h"

#include "cpu/kernels/simd.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

constexpr int32_t kInfinity = 0x7f800000;

// The bits of the largest magnitude of a chunk. Those of infinity and NaN are the largest of all.
TROUPE_INLINE int32_t largest_magnitude(const float* x) {
  I4 best{};
  for (int i = 0; i < kChunk; i += 4) {
    I4 bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    bits &= 0x7fffffff;
    best = bits > best ? bits : best;
  }
  int32_t a = best[0] > best[1] ? best[0] : best[1], b = best[2] > best[3] ? best[2] : best[3];
  return a > b ? a : b;
}

struct ChunkOf {
  float scale;
  int32_t count;
};

constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits

TROUPE_INLINE int8_t low_byte(float shifted) {
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  return static_cast<int8_t>(bits);
}

// One byte an element.
TROUPE_INLINE int32_t first_bytes(const float* x, float factor, int8_t* q) {
  int32_t count = 0;
  for (int i = 0; i < kChunk; ++i) count += q[i] = low_byte(x[i] * factor + kMagic);
  return count;
}

// Another for what rounding left, in steps of 1/256.
TROUPE_INLINE int32_t second_bytes(const float* x, float factor, int8_t* q) {
  int32_t count = 0;
  for (int i = 0; i < kChunk; ++i) {
    float left = (x[i] * factor - static_cast<float>(q[i])) * 256.0f;
    left = left > 127.0f ? 127.0f : left;
    left = left < -127.0f ? -127.0f : left;
    count += q[kChunk + i] = low_byte(left + kMagic);
  }
  return count;
}

TROUPE_INLINE ChunkOf quantize_chunk(const float* x, int planes, int8_t* q) {
  // Below this, 127 / magnitude is no longer a useful number, and neither is the chunk.
  constexpr float kLeast = 1e-30f;
  int32_t bits = largest_magnitude(x);
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof(bits));
  if (bits >= kInfinity || magnitude < kLeast) {
    std::memset(q, 0, static_cast<size_t>(planes) * kChunk);
    return {bits >= kInfinity ? __builtin_nanf("") : 0.0f, 0};
  }
  float factor = 127.0f / magnitude;
  int32_t count = first_bytes(x, factor, q);
  if (planes == 1) return {magnitude / 127.0f, count};
  return {magnitude / (127.0f * 256.0f), 256 * count + second_bytes(x, factor, q)};
}

}  // namespace

void quantize_row(const float* x, int row, const IntegerRows& out) {
  int64_t chunks = out.k / kChunk, groups = out.k / out.group, in_group = out.group / kChunk;
  int64_t tile = row / kTileRows, within = row % kTileRows;
  for (int64_t group = 0; group < groups; ++group) {
    float sum = 0;
    for (int64_t chunk = group * in_group; chunk < (group + 1) * in_group; ++chunk) {
      int64_t at = (tile * chunks + chunk) * kTileRows + within;
      auto [scale, count] = quantize_chunk(x + chunk * kChunk, out.planes, out.q + at * out.planes * kChunk);
      out.scales[at] = scale;
      out.counts[at] = count;
      sum += scale * static_cast<float>(count);
    }
    out.sums[(tile * groups + group) * kTileRows + within] = sum;
  }
}

}  // namespace troupe::TROUPE_ISA
