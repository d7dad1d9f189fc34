#include <algorithm>
#include <atomic>
#include <thread>

#include "check.h"
#include "cpu/cores.h"
#include "cpu/pool.h"
#include "cpu/turns.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace troupe::test {

#if defined(__linux__)
namespace {

// How many cores the calling thread may run on.
int allowed_cores(const Cores& cores) {
  cpu_set_t set;
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<bool> seen(cores.cpus.size());
  for (size_t cpu = 0; cpu < cores.core_of.size(); ++cpu) {
    if (CPU_ISSET(cpu, &set) && cores.core_of[cpu] >= 0) seen[cores.core_of[cpu]] = true;
  }
  return static_cast<int>(std::count(seen.begin(), seen.end(), true));
}

// Two threads meet inside their tasks, so that one of them is the worker.
int allowed_cores_of_worker(const Cores& cores) {
  std::atomic<int> inside{0}, allowed{0};
  auto caller = std::this_thread::get_id();
  parallel_for(2, [&](size_t) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
    if (std::this_thread::get_id() != caller) allowed = allowed_cores(cores);
  });
  return allowed;
}

void test_affinity() {
  auto cores = usable_cores();
  set_pool_threads(2);
  int before = allowed_cores(cores);
  check(allowed_cores_of_worker(cores) == 1, "a pinned worker has one core");
  check(allowed_cores(cores) == before, "the caller is not bound");
}

}  // namespace
#endif

namespace {

void test_courtesy() {
  auto now = Courtesy::Clock::now();
  Courtesy courtesy;
  check(courtesy.is_due(now), "a thread begins with a courtesy");
  auto back = now + Courtesy::kLong;
  courtesy.came_back(now, back);
  check(!courtesy.is_due(back), "one courtesy does not follow the other");
  check(courtesy.is_due(back + Courtesy::kEvery), "neighbours are let go first soon again");
  now = back, back = now + 2 * Courtesy::kLong;
  courtesy.came_back(now, back);
  auto given = back - now, kept = Courtesy::kReserve * given;
  check(!courtesy.is_due(back + kept - Courtesy::kEvery), "rivals get a small part of the time");
  check(courtesy.is_due(back + kept), "but some");
}

}  // namespace

// Every index runs once, whatever the number of threads, and after every change of it.
void test_pool() {
  for (size_t threads : {1, 4, 2, 9, 1, 3}) {
    set_pool_threads(threads);
    check(pool_threads() == threads, "the pool has the size that was asked for");
    for (size_t count : {0, 1, 2, 5, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      parallel_for(count, [&](size_t i) {
        ++runs[i];
        // A task's own work runs inside the task.
        if (count == 5) parallel_for(3, [&](size_t) { ++runs[i]; });
      });
      for (auto& run : runs) check(run == (count == 5 ? 4 : 1), "a task runs once");
    }
  }
#if defined(__linux__)
  test_affinity();
#endif
  test_courtesy();
  set_pool_threads(0);
  check(pool_threads() == 1, "a pool has one thread at least");
  std::printf("pool: passed\n");
}

}  // namespace troupe::test
