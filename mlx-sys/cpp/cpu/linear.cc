#include "cpu/linear.h"

#include <algorithm>

#include "cpu/pool.h"

namespace troupe {
namespace {

// Below this many multiplications a wake-up costs more than a second thread brings.
constexpr int64_t kAlone = 1 << 15;
// A part has about this many weights, so that threads can share the work evenly.
constexpr int64_t kPartWeights = 1 << 15;

}  // namespace

void linear(const Linear& p) {
  auto body = kernels().linear;
  if (static_cast<int64_t>(p.m) * p.n * p.k < kAlone) return body(p, 0, p.n);
  int64_t width = std::max<int64_t>(1, kPartWeights / std::max(p.k, 1) / kStep) * kStep;
  int64_t parts = (p.n + width - 1) / width;
  parallel_for(static_cast<size_t>(parts), [&](size_t i) {
    int64_t first = static_cast<int64_t>(i) * width;
    body(p, static_cast<int>(first), static_cast<int>(std::min<int64_t>(first + width, p.n)));
  });
}

}  // namespace troupe
