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

// Keeps the calling thread on one CPU. Where the system refuses, the thread stays free.
void pin_thread(int cpu);

}  // namespace troupe
