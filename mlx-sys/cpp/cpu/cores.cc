#include "cpu/cores.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace troupe {

#if defined(__linux__)
namespace {

// The lowest-numbered CPU of the core that `cpu` belongs to; where nothing is said of it, a core of its own.
int core_of(int cpu) {
  std::ifstream list("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first;
  return list >> first ? first : cpu;
}

}  // namespace

Cores usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {{}, {}, std::max(1u, std::thread::hardware_concurrency())};
  Cores cores{{}, std::vector<int>(CPU_SETSIZE, -1), 1};
  std::map<int, int> places;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    auto [place, is_new] = places.try_emplace(core_of(cpu), static_cast<int>(cores.cpus.size()));
    if (is_new) cores.cpus.push_back(cpu);
    cores.core_of[cpu] = place->second;
  }
  cores.count = std::max<size_t>(1, cores.cpus.size());
  return cores;
}

int current_core(const Cores& cores) {
  int cpu = sched_getcpu();
  return cpu >= 0 && static_cast<size_t>(cpu) < cores.core_of.size() ? cores.core_of[cpu] : -1;
}

namespace {

template <typename F>
void run_where(const Cores& cores, F&& allowed) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t cpu = 0; cpu < cores.core_of.size(); ++cpu) {
    if (cores.core_of[cpu] >= 0 && allowed(cores.core_of[cpu])) CPU_SET(cpu, &set);
  }
  if (CPU_COUNT(&set) > 0) static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof(set), &set));
}

}  // namespace

void stay_on_core(const Cores& cores, int core) {
  run_where(cores, [core](int other) { return other == core; });
}

void leave_core(const Cores& cores, int core) {
  run_where(cores, [core](int other) { return other != core; });
}
#else
Cores usable_cores() { return {{}, {}, std::max(1u, std::thread::hardware_concurrency())}; }

int current_core(const Cores&) { return -1; }

void stay_on_core(const Cores&, int) {}

void leave_core(const Cores&, int) {}
#endif

}  // namespace troupe
