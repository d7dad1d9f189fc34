// Which instruction set's kernels this machine runs.
#include "cpu/kernels/kernels.h"

namespace troupe {

namespace base {
extern const Kernels kTable;
}

#if defined(__x86_64__)
namespace v3 {
extern const Kernels kTable;
}
namespace v4 {
extern const Kernels kTable;
}

namespace {
// The levels of the x86-64 ABI, by the features of each that our kernels' compilers use.
const Kernels& best() {
  __builtin_cpu_init();
  bool v3_runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                 __builtin_cpu_supports("bmi2");
  bool v4_runs = v3_runs && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
  return v4_runs ? v4::kTable : v3_runs ? v3::kTable : base::kTable;
}
}  // namespace
#else
namespace {
const Kernels& best() { return base::kTable; }
}  // namespace
#endif

const Kernels& kernels() {
  static const Kernels& chosen = best();
  return chosen;
}

}  // namespace troupe
