// The instruction sets that the kernels are compiled for.
#pragma once

#include <string_view>
#include <vector>

#include "cpu/kernels/kernels.h"

namespace troupe {

struct InstructionSet {
  const char* name;
  const Kernels* kernels;
};

// The sets that this machine runs, best first.
__attribute__((visibility("default"))) const std::vector<InstructionSet>& instruction_sets();

// The set that kernels() are of: the best, or what was chosen by hand.
__attribute__((visibility("default"))) const InstructionSet& instruction_set();

// kernels() are those of set `name` from now on; false where this machine does not run it. For tests and benches. Work
// under way would be computed partly by the one and partly by the other, whose sums round differently.
__attribute__((visibility("default"))) bool use_instruction_set(std::string_view name);

}  // namespace troupe
