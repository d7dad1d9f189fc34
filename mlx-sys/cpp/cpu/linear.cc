// Dot products of rows of `a` with rows of `w`, sixteen lanes each, in tiles that stay in registers. Nothing is
// packed, so one row costs one pass over the weights, and many rows reuse a tile of weights from the nearest cache.
#include "cpu/linear.h"

#include <algorithm>

#include "cpu/pool.h"
#include "cpu/simd.h"

namespace troupe {
namespace {

constexpr int kColumns = 8;  // rows of w in one tile
// Rows of a that are worked through before the next tile of weights: they stay in the second cache.
constexpr int kRowBlock = 96;
// Below this many multiplications a wake-up costs more than a second thread brings.
constexpr int64_t kAlone = 1 << 15;
// An item has about this many weights, so that threads can share the work evenly.
constexpr int64_t kItemWeights = 1 << 15;

// The sums of kRows rows of a with `columns` rows of w, starting at (row, column).
template <int kRows>
TROUPE_INLINE void tile(const Linear& p, int row, int column, int columns) {
  const float* a[kRows];
  const float* w[kColumns];
  for (int r = 0; r < kRows; ++r) a[r] = p.a + (row + r) * p.lda;
  // Columns past the end repeat the last one; their sums are not stored.
  for (int c = 0; c < kColumns; ++c) w[c] = p.w + (column + std::min(c, columns - 1)) * p.ldw;

  V16 sums[kRows][kColumns] = {};
  int whole = p.k / kLanes * kLanes;
  for (int k = 0; k < whole; k += kLanes) {
    V16 x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = load(a[r] + k);
    for (int c = 0; c < kColumns; ++c) {
      V16 y = load(w[c] + k);
      for (int r = 0; r < kRows; ++r) sums[r][c] += x[r] * y;
    }
  }
  if (whole < p.k) {
    for (int c = 0; c < kColumns; ++c) {
      V16 y = load_part(w[c] + whole, p.k - whole);
      for (int r = 0; r < kRows; ++r) sums[r][c] += load_part(a[r] + whole, p.k - whole) * y;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    V8 totals = sums_of_eight(sums[r]);
    float* out = p.c + (row + r) * p.ldc + column;
    for (int c = 0; c < columns; ++c) {
      float scaled = p.alpha * totals[c];
      out[c] = p.beta == 0 ? scaled : scaled + p.beta * out[c];
    }
  }
}

template <int kRows>
TROUPE_INLINE void columns_of(const Linear& p, int first, int last) {
  for (int block = 0; block < p.m; block += kRowBlock) {
    int end = std::min(block + kRowBlock, p.m);
    for (int column = first; column < last; column += kColumns) {
      int columns = std::min(kColumns, last - column);
      int row = block;
      for (; row + kRows <= end; row += kRows) tile<kRows>(p, row, column, columns);
      if (kRows > 2 && end - row == 2) {
        tile<2>(p, row, column, columns);
      } else {
        for (; row < end; ++row) tile<1>(p, row, column, columns);
      }
    }
  }
}

#if defined(__x86_64__)
// 32 vector registers of 16 lanes hold three rows of sums.
__attribute__((target("arch=x86-64-v4"))) void wide(const Linear& p, int first, int last) {
  columns_of<3>(p, first, last);
}
bool has_wide() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return has;
}
#else
void wide(const Linear& p, int first, int last) { columns_of<1>(p, first, last); }
bool has_wide() { return false; }
#endif

TROUPE_CLONES_NARROW void narrow(const Linear& p, int first, int last) { columns_of<1>(p, first, last); }

}  // namespace

void linear(const Linear& p) {
  auto body = has_wide() ? wide : narrow;
  if (static_cast<int64_t>(p.m) * p.n * p.k < kAlone) return body(p, 0, p.n);
  int64_t width = std::max<int64_t>(1, kItemWeights / std::max(p.k, 1) / kColumns) * kColumns;
  int64_t items = (p.n + width - 1) / width;
  parallel_for(static_cast<size_t>(items), [&](size_t i) {
    int first = static_cast<int>(static_cast<int64_t>(i) * width);
    body(p, first, static_cast<int>(std::min<int64_t>(first + width, p.n)));
  });
}

}  // namespace troupe
