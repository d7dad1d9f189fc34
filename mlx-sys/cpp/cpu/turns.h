// How threads that compute share their cores with the threads that read requests and write answers. These need a core for
// some ten microseconds now and then; where they have to wait until the system takes one from a thread that computes,
// they wait for milliseconds.
#pragma once

#include <chrono>

namespace troupe {

// When a thread lets others go first, between two pieces of work. Somebody who then keeps the core for long is no
// neighbour but a rival, and is let go seldom: what that costs is bounded.
class Courtesy {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr auto kEvery = std::chrono::microseconds(200);
  // Longer than a neighbour's work takes, shorter than a turn that the system gives.
  static constexpr auto kLong = std::chrono::microseconds(1500);
  // After a long wait, so many times that long passes until the next.
  static constexpr int kReserve = 64;

  bool is_due(Clock::time_point now) const { return now >= next_; }

  // The core was given up at `left` and had again at `back`.
  void came_back(Clock::time_point left, Clock::time_point back) {
    auto took = back - left;
    next_ = back + (took > kLong ? took * kReserve : kEvery);
  }

 private:
  Clock::time_point next_{};
};

// Lets others go first, if the calling thread's courtesy is due. From the first call on, a thread that becomes ready takes
// the core from this one (see EEVDF in Linux 6.12 and later, where a thread can ask for a longer slice).
void let_others_go_first();

}  // namespace troupe
