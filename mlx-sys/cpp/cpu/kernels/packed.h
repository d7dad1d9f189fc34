// Where the parts of a repacked quantised matrix lie, and of the activations that it is multiplied with.
//
// A panel is kPanel rows of the matrix, side by side. It is a run of groups along its columns; a group is kPanel
// scales, kPanel biases, and for each chunk of kChunk columns the elements as bit planes. An element of b bits is cut
// into planes whose widths are powers of two, lowest bits first: 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2, the others are whole.
// A plane of width p holds p vectors of kVector bytes a chunk. Byte 4r + i of a vector belongs to row r and to column
// 4q + i of 8 / p consecutive quads q, the first of them in its lowest bits. So nothing is larger than it was, every
// part starts at a cache line, and unpacking is a shift and a mask.
//
// The functions are always inlined: a copy that the linker shared would be of some instruction set's making.
#pragma once

#include <cstddef>
#include <cstdint>

#define TROUPE_INLINE inline __attribute__((always_inline))
// Before a loop over registers, which an array cannot be kept in unless the loop is gone.
#define TROUPE_UNROLL _Pragma("GCC unroll 8")

namespace troupe {

constexpr int kPanel = 16;              // rows of the matrix that lie side by side
constexpr int kChunk = 32;              // columns whose integer activations share a scale
constexpr int kQuad = 4;                // columns whose bytes one dot instruction takes together
constexpr int kVector = kPanel * kQuad;  // bytes
constexpr int kTileRows = 8;            // rows of activations that lie side by side

// What a stored number is.
enum class Number : uint8_t { f32, f16, bf16 };

struct PackedShape {
  int n, k;   // rows and columns; k is a multiple of group
  int group;  // columns that share a scale and a bias: a multiple of kChunk
  int bits;   // 2, 3, 4, 5, 6 or 8
  Number scales;
};

struct PackedMatrix {
  PackedShape shape;
  const uint8_t* panels;  // aligned to kVector
};

TROUPE_INLINE size_t number_bytes(Number number) { return number == Number::f32 ? 4 : 2; }
TROUPE_INLINE size_t chunk_bytes(int bits) { return static_cast<size_t>(kPanel * kChunk / 8) * bits; }
TROUPE_INLINE size_t scales_bytes(const PackedShape& s) { return kPanel * number_bytes(s.scales); }
TROUPE_INLINE size_t group_bytes(const PackedShape& s) {
  return 2 * scales_bytes(s) + static_cast<size_t>(s.group / kChunk) * chunk_bytes(s.bits);
}
TROUPE_INLINE size_t panel_bytes(const PackedShape& s) { return static_cast<size_t>(s.k / s.group) * group_bytes(s); }
TROUPE_INLINE int panel_count(const PackedShape& s) { return s.n / kPanel + (s.n % kPanel != 0); }

// The width of the plane that holds an element's lowest bits; the rest is the second plane, or nothing.
TROUPE_INLINE constexpr int first_plane(int bits) { return bits == 8 ? 8 : bits >= 4 ? 4 : 2; }

// Rows of activations as integers: x is about scale * q. In one plane, q is a byte. In two, q is 256 times the first
// byte plus the second, which is what the first one's rounding left. No byte is -128. kTileRows rows lie side by side,
// chunk after chunk.
struct IntegerRows {
  int m, k, group;
  int planes;       // 1 or 2
  int8_t* q;        // [tiles, k / kChunk, kTileRows, planes, kChunk]
  float* scales;    // [tiles, k / kChunk, kTileRows]; NaN where a chunk has a number that is not finite (q is 0 there)
  int32_t* counts;  // the same shape: the sum of a chunk's q
  float* sums;      // [tiles, k / group, kTileRows]: the sum of what the q stand for
};

// Rows of floats, `stride` apart.
struct FloatRows {
  int m;
  const float* data;
  int64_t stride;
};

// Which panels of a matrix a call works on.
struct Panels {
  int first, last;
};

// Where a product goes: rows `stride` floats apart, of which `columns` are there.
struct Output {
  float* data;
  int64_t stride;
  int columns;
};

}  // namespace troupe
