// The instruction sets that the kernels are compiled for.
#pragma once

#include <vector>

#include "cpu/kernels/kernels.h"

namespace troupe {

struct InstructionSet {
  const char* name;
  const Kernels* kernels;
};

// The sets that this machine runs, best first; `kernels()` is the first. For tests.
std::vector<InstructionSet> instruction_sets();

}  // namespace troupe
