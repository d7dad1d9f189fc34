#include "cpu/limits.h"

#include <algorithm>
#include <atomic>

#include "cpu/kernels/kernels.h"
#include "cpu/pool.h"

namespace troupe {

uint64_t read_once(const uint8_t* bytes, size_t count) {
  constexpr size_t kPart = 1 << 20;
  std::atomic<uint64_t> total{0};
  parallel_for((count + kPart - 1) / kPart, [&](size_t part) {
    size_t first = part * kPart;
    total.fetch_add(kernels().read(bytes + first, std::min(kPart, count - first)), std::memory_order_relaxed);
  });
  return total;
}

int64_t multiply_and_add(int64_t rounds) {
  // Parts enough that the threads finish together.
  constexpr int64_t kPartsOfThread = 16;
  std::atomic<int64_t> total{0};
  parallel_for(pool_threads() * kPartsOfThread, [&](size_t part) {
    int64_t operations = 0;
    // The result is kept, or the compiler would leave out the work.
    volatile float kept = kernels().multiply_add(rounds / kPartsOfThread, static_cast<float>(part), 0.5f, &operations);
    static_cast<void>(kept);
    total.fetch_add(operations, std::memory_order_relaxed);
  });
  return total;
}

}  // namespace troupe
