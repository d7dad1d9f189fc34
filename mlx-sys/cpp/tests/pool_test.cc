#include <atomic>

#include "check.h"
#include "cpu/pool.h"

namespace troupe::test {

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
  set_pool_threads(0);
  check(pool_threads() == 1, "a pool has one thread at least");
  std::printf("pool: passed\n");
}

}  // namespace troupe::test
