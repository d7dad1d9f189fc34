// Which CPUs this process may use.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe {

struct Cores {
  std::vector<int> cpus;  // that this process may run on: one of each core first, then their siblings; may be empty
  size_t count;           // cores among them, at least 1
};

Cores usable_cores();

// The CPU that the calling thread runs on; -1 where the system does not say.
int current_cpu();

// Moves the calling thread to any of these cores but `cpu`, for good. Where the system refuses, or there is no other,
// the thread stays.
void leave_cpu(const Cores& cores, int cpu);

}  // namespace troupe
