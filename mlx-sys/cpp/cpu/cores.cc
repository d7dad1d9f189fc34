#include "cpu/cores.h"

#include <algorithm>
#include <fstream>
#include <set>
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
  Cores cores{{}, 1};
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    cores.count = std::max(1u, std::thread::hardware_concurrency());
    return cores;
  }
  std::vector<int> siblings;
  std::set<int> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) (seen.insert(core_of(cpu)).second ? cores.cpus : siblings).push_back(cpu);
  }
  cores.count = std::max<size_t>(1, cores.cpus.size());
  cores.cpus.insert(cores.cpus.end(), siblings.begin(), siblings.end());
  return cores;
}

int current_cpu() { return sched_getcpu(); }

void leave_cpu(const Cores& cores, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int other : cores.cpus) {
    if (other != cpu) CPU_SET(other, &set);
  }
  if (CPU_COUNT(&set) > 0) static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof(set), &set));
}
#else
Cores usable_cores() { return {{}, std::max(1u, std::thread::hardware_concurrency())}; }

int current_cpu() { return -1; }

void leave_cpu(const Cores&, int) {}
#endif

}  // namespace troupe
