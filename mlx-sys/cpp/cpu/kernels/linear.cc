// Dot products of rows of `a` with rows of `w`, sixteen lanes each, in tiles that stay in registers. Nothing is
// packed, so one row costs one pass over the weights, and many rows reuse a tile of weights from the nearest cache.
#include "cpu/kernels/halves.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

// The sums of kRows rows of a with `columns` rows of w (at most kColumns), starting at (row, column). The shape of a
// tile does not change a sum: each has its own lanes, and both ways of adding them up are the same tree.
template <Number kNumber, int kRows, int kColumns>
TROUPE_INLINE void tile(const Linear& p, int row, int column, int columns) {
  const float* a[kRows];
  const char* w[kColumns];
  for (int r = 0; r < kRows; ++r) a[r] = p.a + (row + r) * p.lda;
  // Columns past the end repeat the last one; their sums are not stored.
  constexpr int kBytes = kNumber == Number::f32 ? 4 : 2;
  for (int c = 0; c < kColumns; ++c) {
    w[c] = static_cast<const char*>(p.w) + (column + (c < columns ? c : columns - 1)) * p.ldw * kBytes;
  }

  V16 sums[kRows][kColumns];
  for (auto& row_sums : sums) {
    for (auto& one : row_sums) one = splat(0.0f);
  }
  int whole = p.k / kLanes * kLanes;
  for (int k = 0; k < whole; k += kLanes) {
    V16 x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = load(a[r] + k);
    for (int c = 0; c < kColumns; ++c) {
      V16 y = load_as<V16, kNumber>(w[c] + k * kBytes);
      for (int r = 0; r < kRows; ++r) sums[r][c] = add_product(sums[r][c], x[r], y);
    }
  }
  if (whole < p.k) {
    for (int c = 0; c < kColumns; ++c) {
      V16 y = load_part_as<V16, kNumber>(w[c] + whole * kBytes, p.k - whole);
      for (int r = 0; r < kRows; ++r) {
        sums[r][c] = add_product(sums[r][c], load_part(a[r] + whole, p.k - whole), y);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float totals[kColumns];
    if constexpr (kColumns == 8) {
      sums_of_eight(sums[r], totals);
    } else {
      for (int c = 0; c < kColumns; ++c) totals[c] = sum(sums[r][c]);
    }
    float* out = p.c + (row + r) * p.ldc + column;
    for (int c = 0; c < columns; ++c) {
      float scaled = p.alpha * totals[c];
      out[c] = p.beta == 0 ? scaled : scaled + p.beta * out[c];
    }
  }
}

// Tiles of kRows x kColumns, and of fewer rows for what is left over.
template <Number kNumber, int kRows, int kColumns, int kColumnsOfOne>
TROUPE_INLINE void columns_of(const Linear& p, int first, int last) {
  for (int block = 0; block < p.m; block += kRowBlock) {
    int end = block + kRowBlock < p.m ? block + kRowBlock : p.m;
    int tiled = block + (end - block) / kRows * kRows;
    for (int column = first; column < last; column += kColumns) {
      int columns = kColumns < last - column ? kColumns : last - column;
      for (int row = block; row < tiled; row += kRows) tile<kNumber, kRows, kColumns>(p, row, column, columns);
      if (kRows > 2 && end - tiled == 2) tile<kNumber, 2, kColumns>(p, tiled, column, columns);
    }
    if (end - tiled != 1) continue;
    for (int column = first; column < last; column += kColumnsOfOne) {
      int columns = kColumnsOfOne < last - column ? kColumnsOfOne : last - column;
      tile<kNumber, 1, kColumnsOfOne>(p, tiled, column, columns);
    }
  }
}

template <Number kNumber>
TROUPE_INLINE void columns_as(const Linear& p, int first, int last) {
#if defined(__AVX512F__)
  columns_of<kNumber, 3, 8, 8>(p, first, last);  // 32 registers of 16 lanes hold 24 sums
#else
  columns_of<kNumber, 2, 2, 4>(p, first, last);  // 16 registers of 8 lanes, or 32 of 4, hold four
#endif
}

}  // namespace

void linear(const Linear& p, int first, int last) {
  switch (p.number) {
    case Number::f32: return columns_as<Number::f32>(p, first, last);
    case Number::f16: return columns_as<Number::f16>(p, first, last);
    case Number::bf16: return columns_as<Number::bf16>(p, first, last);
  }
}

}  // namespace troupe::TROUPE_ISA
