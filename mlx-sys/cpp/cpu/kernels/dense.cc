// Products with a repacked dense matrix. A lane is a row of the matrix, so nothing is added across lanes, and an
// element is one sum in the order of the columns whatever the shape of the tile: rows cannot depend on each other.
#include "cpu/kernels/dense.h"

#include "cpu/kernels/halves.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

// Tiles of at most kMostRows rows by vectors_of(rows) vectors: what registers hold beside the weights and a copy of
// an activation, and enough sums to keep the adders busy.
#if defined(__AVX512F__)
constexpr int kMostRows = 8;
TROUPE_INLINE constexpr int vectors_of(int) { return 2; }
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int kMostRows = 6;
TROUPE_INLINE constexpr int vectors_of(int rows) { return rows <= 2 ? 2 : 1; }
#else
constexpr int kMostRows = 2;
TROUPE_INLINE constexpr int vectors_of(int) { return 1; }
#endif

constexpr int kLine = 64;          // bytes that memory hands over together
constexpr int kFetchAhead = 4096;  // bytes: far enough for memory, near enough for the first cache

template <Number kNumber>
constexpr int kBytes = kNumber == Number::f32 ? 4 : 2;

// sums[r][v] = the rows of the matrix in vector v, whose first column is at `w`, times row r of x.
template <Number kNumber, int kRows, int kVectors>
TROUPE_INLINE void add_columns(const uint8_t* w, int k, const FloatRows& x, V16 (&sums)[kRows][kVectors]) {
  constexpr int kColumnBytes = kDensePanel * kBytes<kNumber>;
  for (int column = 0; column < k; ++column, w += kColumnBytes) {
    for (int line = 0; line < kColumnBytes; line += kLine) __builtin_prefetch(w + kFetchAhead + line);
    V16 weights[kVectors];
    TROUPE_UNROLL
    for (int v = 0; v < kVectors; ++v) weights[v] = load_as<V16, kNumber>(w + v * kLanes * kBytes<kNumber>);
    TROUPE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      V16 copies = splat(x.data[r * x.stride + column]);
      TROUPE_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = add_product(sums[r][v], weights[v], copies);
    }
  }
}

// The first kRows rows of x times the rows of the matrix in the vectors at `w`.
template <Number kNumber, int kRows>
TROUPE_INLINE void tile(const uint8_t* w, int k, const FloatRows& x, const Output& out) {
  constexpr int kVectors = vectors_of(kRows);
  V16 sums[kRows][kVectors];
  TROUPE_UNROLL
  for (auto& of_row : sums) {
    TROUPE_UNROLL
    for (auto& one : of_row) one = V16{};
  }
  add_columns<kNumber>(w, k, x, sums);
  TROUPE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TROUPE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      int left = out.columns - v * kLanes;
      if (left > 0) store_part(out.data + r * out.stride + v * kLanes, sums[r][v], left);
    }
  }
}

// All rows of x, at most kRows, times a panel.
template <Number kNumber, int kRows>
TROUPE_INLINE void rows_of(const uint8_t* panel, int k, const FloatRows& x, const Output& out) {
  if constexpr (kRows > 0) {
    if (x.m < kRows) return rows_of<kNumber, kRows - 1>(panel, k, x, out);
    constexpr int kWide = vectors_of(kRows) * kLanes;
    for (int lane = 0; lane < kDensePanel && lane < out.columns; lane += kWide) {
      tile<kNumber, kRows>(panel + lane * kBytes<kNumber>, k, x, {out.data + lane, out.stride, out.columns - lane});
    }
  }
}

// The same for any number of rows, in tiles as even as can be.
template <Number kNumber>
TROUPE_INLINE void panel_times(const uint8_t* panel, int k, const FloatRows& x, const Output& out) {
  int tiles = (x.m + kMostRows - 1) / kMostRows;
  for (int row = 0; tiles > 0; --tiles) {
    int rows = (x.m - row) / tiles;
    rows_of<kNumber, kMostRows>(panel, k, {rows, x.data + row * x.stride, x.stride},
                                {out.data + row * out.stride, out.stride, out.columns});
    row += rows;
  }
}

// A block of x stays in the second cache while the panels pass, and a panel while the block passes.
template <Number kNumber>
TROUPE_INLINE void product_of(const DensePanels& w, const FloatRows& x, const Panels& panels, const Output& out) {
  constexpr int64_t kBlockBytes = 1 << 18;
  const auto& s = w.shape;
  int64_t row_bytes = static_cast<int64_t>(s.k) * sizeof(float);
  int block = static_cast<int>(kBlockBytes / (row_bytes + 1)) / kMostRows * kMostRows;
  if (block < 2 * kMostRows) block = 2 * kMostRows;
  for (int first = 0; first < x.m; first += block) {
    FloatRows rows{x.m - first < block ? x.m - first : block, x.data + first * x.stride, x.stride};
    for (int panel = panels.first; panel < panels.last; ++panel) {
      int column = panel * kDensePanel;
      panel_times<kNumber>(w.data + panel * dense_panel_bytes(s), s.k, rows,
                           {out.data + first * out.stride + column, out.stride, s.n - column});
    }
  }
}

}  // namespace

void dense(const DensePanels& w, const FloatRows& x, const Panels& panels, const Output& out) {
  switch (w.shape.number) {
    case Number::f32: return product_of<Number::f32>(w, x, panels, out);
    case Number::f16: return product_of<Number::f16>(w, x, panels, out);
    case Number::bf16: return product_of<Number::bf16>(w, x, panels, out);
  }
}

}  // namespace troupe::TROUPE_ISA
