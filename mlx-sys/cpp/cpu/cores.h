// Which CPUs this process may use, and where its threads run.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe {

struct Cores {
  std::vector<int> cpus;     // one CPU of each core that this process may use; empty where the system does not say
  std::vector<int> core_of;  // for each CPU number the place of its core in `cpus`, or -1
  size_t count;              // cores, at least 1
};

Cores usable_cores();

// The place in `cores.cpus` of the core that the calling thread runs on; -1 where the system does not say.
int current_core(const Cores& cores);

// From now on the calling thread runs on this core, or on any but this one. Where the system refuses, or there is no
// other, it stays.
void stay_on_core(const Cores& cores, int core);
void leave_core(const Cores& cores, int core);

}  // namespace troupe
