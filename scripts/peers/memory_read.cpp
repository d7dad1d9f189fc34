// Memory read speed: `memory_read THREADS` prints GB/s. Each thread sums a slice of its own, far larger than the
// caches; the fastest of several passes counts.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

constexpr std::size_t kBytes = std::size_t{1} << 30;
constexpr int kPasses = 8;

// Four sums at a time keep enough loads in flight.
static std::uint64_t sum(const std::uint64_t* at, std::size_t count) {
  std::uint64_t sums[4] = {};
  for (std::size_t i = 0; i + 32 <= count; i += 32)
    for (std::size_t lane = 0; lane < 4; ++lane)
      sums[lane] += std::accumulate(at + i + 8 * lane, at + i + 8 * lane + 8, std::uint64_t{0});
  return sums[0] + sums[1] + sums[2] + sums[3];
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  const std::size_t slice = kBytes / sizeof(std::uint64_t) / threads;
  const std::vector<std::uint64_t> memory(slice * threads, 1);
  std::vector<std::uint64_t> sums(threads);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> team;
    for (int i = 0; i < threads; ++i) team.emplace_back([&, i] { sums[i] = sum(memory.data() + i * slice, slice); });
    for (auto& member : team) member.join();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, memory.size() * sizeof(std::uint64_t) / seconds.count() / 1e9);
  }
  // The sums are used, so that no compiler drops the reads.
  if (std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) == 0) return 1;
  std::printf("%.2f\n", best);
}
