#include "cpu/dense.h"

#include <algorithm>

#include "cpu/numbers.h"
#include "cpu/pool.h"

namespace troupe {
namespace {

// Below this many multiplications a wake-up costs more than a second thread brings.
constexpr int64_t kAlone = 1 << 15;
// A part of the work has at least this many, and there are about this many parts a thread, so that the threads finish
// together.
constexpr int64_t kPart = 1 << 14;
constexpr int64_t kPartsOfThread = 8;
// More of the matrix than this in one part would leave no room in the second cache for the activations.
constexpr int64_t kPartBytes = 1 << 18;

int64_t panels_of_part(const DenseShape& shape, int m) {
  int64_t bytes = static_cast<int64_t>(dense_panel_bytes(shape));
  int64_t work = static_cast<int64_t>(kDensePanel) * shape.k * std::max(m, 1);
  int64_t even = dense_panel_count(shape) / (kPartsOfThread * static_cast<int64_t>(pool_threads()));
  int64_t most = std::max<int64_t>(kPartBytes / std::max<int64_t>(bytes, 1), 1);
  return std::max(std::clamp<int64_t>(even, 1, most), kPart / std::max<int64_t>(work, 1));
}

// A panel from `count` rows of k elements that follow one another. A cache line of each row at a time, so that the
// lines of the panel that they go to stay near.
template <typename T>
void pack_panel(const uint8_t* rows, int count, int k, uint8_t* panel) {
  constexpr int kLine = 64 / sizeof(T);
  for (int first = 0; first < k; first += kLine) {
    int last = std::min(first + kLine, k);
    for (int r = 0; r < kDensePanel; ++r) {
      const uint8_t* row = rows + static_cast<int64_t>(r) * k * sizeof(T);
      for (int column = first; column < last; ++column) {
        T element{};
        if (r < count) std::memcpy(&element, row + column * sizeof(T), sizeof(T));
        std::memcpy(panel + (static_cast<int64_t>(column) * kDensePanel + r) * sizeof(T), &element, sizeof(T));
      }
    }
  }
}

}  // namespace

size_t dense_bytes(const DenseShape& s) { return static_cast<size_t>(dense_panel_count(s)) * dense_panel_bytes(s); }

void dense_pack(const DenseShape& s, const uint8_t* rows, uint8_t* panels) {
  size_t row_bytes = static_cast<size_t>(s.k) * number_bytes(s.number);
  parallel_for(static_cast<size_t>(dense_panel_count(s)), [&](size_t index) {
    size_t first = index * kDensePanel;
    int count = static_cast<int>(std::min<size_t>(kDensePanel, static_cast<size_t>(s.n) - first));
    auto pack = s.number == Number::f32 ? pack_panel<uint32_t> : pack_panel<uint16_t>;
    pack(rows + first * row_bytes, count, s.k, panels + index * dense_panel_bytes(s));
  });
}

void dense_product(const DensePanels& w, const FloatRows& x, float* out, int64_t stride) {
  const auto& s = w.shape;
  int panels = dense_panel_count(s);
  auto product = [&](int64_t first, int64_t last) {
    kernels().dense(w, x, {static_cast<int>(first), static_cast<int>(last)}, {out, stride, s.n});
  };
  if (static_cast<int64_t>(x.m) * s.n * s.k < kAlone) return product(0, panels);
  int64_t each = panels_of_part(s, x.m);
  parallel_for(static_cast<size_t>((panels + each - 1) / each), [&](size_t part) {
    int64_t first = static_cast<int64_t>(part) * each;
    product(first, std::min<int64_t>(first + each, panels));
  });
}

void dense_row(const DensePanels& w, int64_t row, float* out) {
  const auto& s = w.shape;
  size_t number = number_bytes(s.number);
  const uint8_t* element = w.data + row / kDensePanel * dense_panel_bytes(s) + row % kDensePanel * number;
  for (int column = 0; column < s.k; ++column, element += kDensePanel * number) {
    out[column] = read_number(s.number, element);
  }
}

}  // namespace troupe
