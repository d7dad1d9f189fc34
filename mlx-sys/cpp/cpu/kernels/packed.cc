// Products with a repacked quantised matrix. A lane is a row of the matrix, so nothing is added across lanes, and the
// sum of an element runs in the order of the columns whatever the shape of the tile: rows cannot depend on each other.
#include "cpu/kernels/packed.h"

#include "cpu/kernels/bytes.h"
#include "cpu/kernels/halves.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

// The lanes of a panel that one register holds: from row `lane` of it.
struct Part {
  const PackedMatrix& matrix;
  const uint8_t* panel;
  int lane;

  TROUPE_INLINE const uint8_t* group(int index) const { return panel + index * group_bytes(matrix.shape); }
  TROUPE_INLINE const uint8_t* chunk(const uint8_t* group, int index) const {
    return group + 2 * scales_bytes(matrix.shape) + index * chunk_bytes(matrix.shape.bits) + lane * kQuad;
  }
};

struct Affine {
  Floats scales, biases;
};

TROUPE_INLINE Floats load_scales(Number number, const uint8_t* p, int lane) {
  switch (number) {
    case Number::f32: return load_as<Floats, Number::f32>(p + 4 * lane);
    case Number::f16: return load_as<Floats, Number::f16>(p + 2 * lane);
    case Number::bf16: return load_as<Floats, Number::bf16>(p + 2 * lane);
  }
  __builtin_unreachable();
}

TROUPE_INLINE Affine load_affine(const Part& part, const uint8_t* group) {
  const auto& shape = part.matrix.shape;
  return {load_scales(shape.scales, group, part.lane),
          load_scales(shape.scales, group + scales_bytes(shape), part.lane)};
}

TROUPE_INLINE void store_row(float* out, const Floats& sums, int lanes) {
  if (lanes >= kWidth) return Make<Floats>::store(out, sums);
  float all[kWidth];
  Make<Floats>::store(all, sums);
  for (int i = 0; i < lanes; ++i) out[i] = all[i];
}

// The sums of a chunk for kRows rows of activations, by plane.
template <int kRows, int kPlanes>
struct ChunkSums {
  Sums of[kPlanes][kRows];
};

template <int kBits, int kRows, int kPlanes, int kAt = 0>
TROUPE_INLINE void add_quads(const uint8_t* chunk, const int8_t* q, ChunkSums<kRows, kPlanes>& sums) {
  if constexpr (kAt < kChunk / kQuad) {
    Words w = prepared<kBits>(elements<kBits, kAt>(chunk));
    TROUPE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int8_t* of_row = q + r * kPlanes * kChunk + kAt * kQuad;
      sums.of[0][r] = dot<kBits>(sums.of[0][r], w, of_row);
      if constexpr (kPlanes == 2) sums.of[1][r] = dot<kBits>(sums.of[1][r], w, of_row + kChunk);
    }
    add_quads<kBits, kRows, kPlanes, kAt + 1>(chunk, q, sums);
  }
}

// Where the rows of a tile of activations are, from one of them on.
struct TileRows {
  const int8_t* q;
  const float* scales;
  const int32_t* counts;
  const float* sums;

  TROUPE_INLINE TileRows(const IntegerRows& x, int row) {
    int64_t tile = row / kTileRows, within = row % kTileRows, chunks = x.k / kChunk, groups = x.k / x.group;
    int64_t at = tile * chunks * kTileRows + within;
    q = x.q + at * x.planes * kChunk;
    scales = x.scales + at;
    counts = x.counts + at;
    sums = x.sums + tile * groups * kTileRows + within;
  }
};

// totals += the products of a chunk of the matrix with kRows rows.
template <int kBits, int kRows, int kPlanes>
TROUPE_INLINE void add_chunk(const uint8_t* chunk, const TileRows& x, const Floats& scales, Floats* totals) {
  ChunkSums<kRows, kPlanes> sums;
  TROUPE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    for (auto& plane : sums.of) plane[r] = Sums{};
  }
  add_quads<kBits, kRows, kPlanes>(chunk, x.q, sums);
  TROUPE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    Sums sum = sums.of[0][r];
    if constexpr (kPlanes == 2) sum = (sum << 8) + sums.of[1][r];
    if constexpr (kBits == 8 && kByteOffset != 0) sum += splat_int(x.counts[r] * kByteOffset);
    totals[r] = add_product(totals[r], to_floats(sum) * Make<Floats>::splat(x.scales[r]), scales);
  }
}

// Rows row..row + kRows of x, which lie in one tile of them, times the rows of the matrix in `part`.
template <int kBits, int kRows, int kPlanes>
TROUPE_INLINE void integer_tile(const Part& part, const IntegerRows& x, int row, Floats* out) {
  int groups = x.k / x.group, in_group = x.group / kChunk;
  TileRows rows(x, row);
  Floats totals[kRows];
  TROUPE_UNROLL
  for (int r = 0; r < kRows; ++r) totals[r] = Floats{};
  for (int g = 0; g < groups; ++g) {
    const uint8_t* group = part.group(g);
    Affine affine = load_affine(part, group);
    for (int c = 0; c < in_group; ++c) {
      add_chunk<kBits, kRows, kPlanes>(part.chunk(group, c), rows, affine.scales, totals);
      rows.q += kTileRows * kPlanes * kChunk;
      rows.scales += kTileRows;
      rows.counts += kTileRows;
    }
    TROUPE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      totals[r] = add_product(totals[r], affine.biases, Make<Floats>::splat(rows.sums[r]));
    }
    rows.sums += kTileRows;
  }
  TROUPE_UNROLL
  for (int r = 0; r < kRows; ++r) out[r] = totals[r];
}

template <int kBits, int kRows, int kAt = 0>
TROUPE_INLINE void add_columns(const uint8_t* chunk, const Affine& affine, const FloatRows& x, const float* from,
                               Floats (*sums)[kQuad]) {
  if constexpr (kAt < kChunk / kQuad) {
    Words w = elements<kBits, kAt>(chunk);
    TROUPE_UNROLL
    for (int i = 0; i < kQuad; ++i) {
      Sums element = reinterpret_cast<Sums>((w >> (8 * i)) & 0xff);
      Floats value = add_product(affine.biases, to_floats(element), affine.scales);
      TROUPE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        Floats copies = Make<Floats>::splat(from[r * x.stride + kAt * kQuad + i]);
        sums[r][i] = add_product(sums[r][i], value, copies);
      }
    }
    add_columns<kBits, kRows, kAt + 1>(chunk, affine, x, from, sums);
  }
}

// The same with activations as they are. Four sums an element, one for each column of a quad, keep the adders busy.
template <int kBits, int kRows>
TROUPE_INLINE void float_tile(const Part& part, const FloatRows& x, int row, Floats* out) {
  const auto& shape = part.matrix.shape;
  const float* from = x.data + row * x.stride;
  Floats sums[kRows][kQuad];
  TROUPE_UNROLL
  for (auto& of_row : sums) {
    TROUPE_UNROLL
    for (auto& one : of_row) one = Floats{};
  }
  for (int g = 0; g < shape.k / shape.group; ++g) {
    const uint8_t* group = part.group(g);
    Affine affine = load_affine(part, group);
    for (int c = 0; c < shape.group / kChunk; ++c, from += kChunk) {
      add_columns<kBits, kRows>(part.chunk(group, c), affine, x, from, sums);
    }
  }
  TROUPE_UNROLL
  for (int r = 0; r < kRows; ++r) out[r] = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]);
}

template <int kBits, int kPlanes>
struct IntegerTile {
  static constexpr int kRows = kRowsAtOnce, kBytes = kPlanes;
  template <int kCount>
  static TROUPE_INLINE void run(const Part& part, const IntegerRows& x, int row, Floats* out) {
    integer_tile<kBits, kCount, kPlanes>(part, x, row, out);
  }
};
template <int kBits>
using ByteTile = IntegerTile<kBits, 1>;
template <int kBits>
using WordTile = IntegerTile<kBits, 2>;

template <int kBits>
struct FloatTile {
  static constexpr int kRows = kFloatRowsAtOnce, kBytes = 4;
  template <int kCount>
  static TROUPE_INLINE void run(const Part& part, const FloatRows& x, int row, Floats* out) {
    float_tile<kBits, kCount>(part, x, row, out);
  }
};

// Rows first..last of x in tiles of kCount rows, and what is left over in tiles of half as many. A tile starts at a
// multiple of its size, so it stays within kTileRows.
template <typename Tile, int kCount, typename X>
TROUPE_INLINE void rows_of(const Part& part, const X& x, const Output& out, int first, int last) {
  int row = first;
  for (; row + kCount <= last; row += kCount) {
    Floats sums[kCount];
    Tile::template run<kCount>(part, x, row, sums);
    TROUPE_UNROLL
    for (int r = 0; r < kCount; ++r) store_row(out.data + (row + r) * out.stride, sums[r], out.columns);
  }
  if constexpr (kCount > 1) rows_of<Tile, kCount / 2>(part, x, out, row, last);
}

// All rows of x times the rows of the matrix in `panels`. A block of x stays in the second cache while the panels
// pass, and a panel in the first while the block passes.
template <typename Tile, typename X>
TROUPE_INLINE void product_of(const PackedMatrix& w, const X& x, const Panels& panels, const Output& out) {
  constexpr int64_t kBlockBytes = 1 << 18;
  int64_t row_bytes = static_cast<int64_t>(w.shape.k) * Tile::kBytes;
  int block = static_cast<int>(kBlockBytes / (row_bytes + 1)) / kTileRows * kTileRows;
  if (block < 4 * kTileRows) block = 4 * kTileRows;
  for (int first = 0; first < x.m; first += block) {
    int last = x.m - first < block ? x.m : first + block;
    for (int panel = panels.first; panel < panels.last; ++panel) {
      for (int lane = 0; lane < kPanel && panel * kPanel + lane < w.shape.n; lane += kWidth) {
        int column = panel * kPanel + lane;
        Part part{w, w.panels + panel * panel_bytes(w.shape), lane};
        rows_of<Tile, Tile::kRows>(part, x, {out.data + column, out.stride, w.shape.n - column}, first, last);
      }
    }
  }
}

template <template <int> typename Tile, typename X>
TROUPE_INLINE void product_of_bits(const PackedMatrix& w, const X& x, const Panels& panels, const Output& out) {
  switch (w.shape.bits) {
    case 2: return product_of<Tile<2>>(w, x, panels, out);
    case 3: return product_of<Tile<3>>(w, x, panels, out);
    case 4: return product_of<Tile<4>>(w, x, panels, out);
    case 5: return product_of<Tile<5>>(w, x, panels, out);
    case 6: return product_of<Tile<6>>(w, x, panels, out);
    case 8: return product_of<Tile<8>>(w, x, panels, out);
  }
}

}  // namespace

void packed_integer(const PackedMatrix& w, const IntegerRows& x, const Panels& panels, const Output& out) {
  if (x.planes == 1) return product_of_bits<ByteTile>(w, x, panels, out);
  product_of_bits<WordTile>(w, x, panels, out);
}

void packed_f32(const PackedMatrix& w, const FloatRows& x, const Panels& panels, const Output& out) {
  product_of_bits<FloatTile>(w, x, panels, out);
}

}  // namespace troupe::TROUPE_ISA
