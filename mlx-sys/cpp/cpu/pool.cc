#include "cpu/pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/cores.h"
#include "cpu/turns.h"

namespace troupe {
namespace {

// More threads than this do not help a memory-bound decode on one socket: the default goes no further.
constexpr size_t kDefaultThreads = 16;
// The most that can be asked for.
constexpr size_t kMostThreads = 256;
// How long a worker polls for the next piece of work before it sleeps: about the time of a small graph operation, so
// that the pieces of one step do not pay a wake-up each, and an idle server uses no CPU.
constexpr int kPolls = 2000;

thread_local bool inside_task = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Pool {
 public:
  static Pool& get() {
    // Never destroyed: workers may still sleep in it when the process ends.
    static Pool* pool = new Pool;
    return *pool;
  }

  size_t threads() const { return wanted_.load(std::memory_order_relaxed) + 1; }

  void resize(size_t threads) {
    std::lock_guard<std::mutex> turn(turn_);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      wanted_.store(std::clamp<size_t>(threads, 1, kMostThreads) - 1, std::memory_order_relaxed);
    }
    wake_.notify_all();
    for (; workers_.size() > wanted_; workers_.pop_back()) workers_.back().join();
    if (on_resize_) on_resize_(wanted_ + 1);
  }

  void bind(Affinity affinity) { affinity_.store(affinity, std::memory_order_relaxed); }

  void on_resize(void (*call)(size_t)) {
    std::lock_guard<std::mutex> turn(turn_);
    on_resize_ = call;
    call(wanted_ + 1);
  }

  void run(size_t count, Work work, void* context) {
    if (count <= 1 || threads() == 1 || inside_task) {
      for (size_t i = 0; i < count; ++i) work(context, i);
      return;
    }
    std::lock_guard<std::mutex> turn(turn_);
    hire();
    caller_core_.store(current_core(cores_), std::memory_order_relaxed);
    work_ = work;
    context_ = context;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    {
      // Under the lock, so that no worker goes to sleep between its look at the round and this change.
      std::lock_guard<std::mutex> lock(mutex_);
      uint64_t round = state_.load(std::memory_order_relaxed) / kRound + 1;
      state_.store(round * kRound + kOpen, std::memory_order_release);
    }
    wake_.notify_all();
    take_all();
    leave_no_worker_inside();
    let_others_go_first();
  }

 private:
  Pool() : cores_(usable_cores()), wanted_(std::min(cores_.count, kDefaultThreads) - 1) {}

  // Workers start with the first work for them. Their cores are those that follow the caller's, so that several
  // processes on a large machine do not all choose the same.
  void hire() {
    if (workers_.size() < wanted_ && first_core_ < 0) first_core_ = std::max(0, current_core(cores_));
    while (workers_.size() < wanted_) {
      size_t index = workers_.size();
      workers_.emplace_back([this, index] { serve(index); });
    }
  }

  void take_all() {
    inside_task = true;
    for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) work_(context_, i);
    inside_task = false;
  }

  // Closes the round: a worker that has not come yet need not be waited for.
  void leave_no_worker_inside() {
    uint64_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    for (int poll = 0; state % kOpen != 0; ++poll) {
      if (poll < kPolls) {
        pause();
      } else {
        state_.wait(state, std::memory_order_acquire);
      }
      state = state_.load(std::memory_order_acquire);
    }
  }

  bool is_news(uint64_t state, uint64_t seen) const { return (state & kOpen) != 0 && state / kRound != seen; }

  bool dismissed(size_t index) const { return index >= wanted_.load(std::memory_order_relaxed); }

  // The state when there is news, or when worker `index` is no longer wanted.
  uint64_t next_round(uint64_t seen, size_t index) {
    for (int poll = 0; poll < kPolls; ++poll, pause()) {
      uint64_t state = state_.load(std::memory_order_acquire);
      if (is_news(state, seen) || dismissed(index)) return state;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [&] { return is_news(state_.load(std::memory_order_acquire), seen) || dismissed(index); });
    return state_.load(std::memory_order_acquire);
  }

  // The core that worker `index` calls its own. With more workers than cores some share one.
  int home_of(size_t index) const {
    return static_cast<int>((static_cast<size_t>(first_core_) + 1 + index) % cores_.count);
  }

  // A worker on the caller's core waits for it, or halves it. On a busy machine the system may leave both there for
  // seconds. `bound` is the core that the worker was bound to last.
  void take_place(size_t index, int& bound) {
    int caller = caller_core_.load(std::memory_order_relaxed);
    if (caller < 0) return;
    if (affinity_.load(std::memory_order_relaxed) == Affinity::free) {
      bound = -1;
      if (caller == current_core(cores_)) leave_core(cores_, caller);
      return;
    }
    int home = home_of(index), core = caller == home ? first_core_ : home;
    if (core != bound) stay_on_core(cores_, bound = core);
  }

  void serve(size_t index) {
    int bound = -1;
    for (uint64_t seen = 0; !dismissed(index);) {
      uint64_t state = next_round(seen, index);
      take_place(index, bound);
      while (is_news(state, seen)) {
        if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
        seen = state / kRound;
        take_all();
        state = state_.fetch_sub(1, std::memory_order_acq_rel);
        state_.notify_all();
        let_others_go_first();
      }
    }
  }

  // state_: the number of the round, whether it is open, and how many workers are inside.
  static constexpr uint64_t kOpen = 1 << 16;
  static constexpr uint64_t kRound = kOpen * 2;

  const Cores cores_;
  std::atomic<size_t> wanted_;
  std::atomic<int> caller_core_{-1};
  std::atomic<Affinity> affinity_{Affinity::pinned};
  int first_core_ = -1;  // where the caller was when the first worker started
  std::vector<std::thread> workers_;
  void (*on_resize_)(size_t) = nullptr;
  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> state_{0};
  std::atomic<size_t> next_{0};
  Work work_ = nullptr;
  void* context_ = nullptr;
  size_t count_ = 0;
};

}  // namespace

size_t pool_threads() { return Pool::get().threads(); }

void set_pool_threads(size_t threads) { Pool::get().resize(threads); }

void set_pool_affinity(Affinity affinity) { Pool::get().bind(affinity); }

void on_pool_resize(void (*call)(size_t threads)) { Pool::get().on_resize(call); }

void pool_run(size_t count, Work work, void* context) { Pool::get().run(count, work, context); }

}  // namespace troupe
