// Where a step's time goes: time by kernel, while somebody wants to know.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace troupe {

class Profile {
 public:
  struct Sum {
    uint64_t calls = 0, nanoseconds = 0;
  };

  static Profile& get() {
    static Profile* profile = new Profile;
    return *profile;
  }

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Forgets all times.
  void turn(bool on) {
    std::lock_guard<std::mutex> lock(mutex_);
    on_.store(on, std::memory_order_relaxed);
    times_.clear();
  }

  void add(const std::string& name, std::chrono::nanoseconds time) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& sum = times_[name];
    sum.calls += 1;
    sum.nanoseconds += static_cast<uint64_t>(time.count());
  }

  std::map<std::string, Sum> times() {
    std::lock_guard<std::mutex> lock(mutex_);
    return times_;
  }

 private:
  std::atomic<bool> on_{false};
  std::mutex mutex_;
  std::map<std::string, Sum> times_;
};

}  // namespace troupe
