#include "cpu/turns.h"

#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace troupe {
namespace {

// Nobody who becomes ready waits for the end of so long a turn; it only tells the system who is in no hurry.
constexpr uint64_t kTurnNanoseconds = 10'000'000;

#if defined(__linux__)
// As in linux/sched/types.h, whose first version has no utilisation hints.
struct SchedAttr {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

// Leaves policy and nice value as they are. Where the system knows no such wish, or refuses it, nothing changes.
void ask_for_long_turns() {
  SchedAttr attr{};
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) return;
  attr.size = sizeof(attr);
  attr.runtime = kTurnNanoseconds;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attr, 0));
}
#else
void ask_for_long_turns() {}
#endif

struct Turns {
  Courtesy courtesy;

  Turns() { ask_for_long_turns(); }
};

}  // namespace

void let_others_go_first() {
  thread_local Turns turns;
  auto left = Courtesy::Clock::now();
  if (!turns.courtesy.is_due(left)) return;
  std::this_thread::yield();
  turns.courtesy.came_back(left, Courtesy::Clock::now());
}

}  // namespace troupe
