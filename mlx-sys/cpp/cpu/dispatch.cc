// Which instruction sets' kernels this machine runs, and which of them are in use.
#include "cpu/dispatch.h"

#include <algorithm>
#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define DECLARE_TABLE(isa) \
  namespace troupe::isa {  \
  extern const Kernels kTable; \
  }

DECLARE_TABLE(base)
#if defined(__x86_64__)
DECLARE_TABLE(v3)
DECLARE_TABLE(v3vnni)
DECLARE_TABLE(v4)
DECLARE_TABLE(v4vnni)
#elif defined(__aarch64__) && defined(__linux__)
DECLARE_TABLE(dotprod)
#endif

namespace troupe {
namespace {

#if defined(__x86_64__)
// These two have names for __builtin_cpu_supports in some compilers only. What the system saves of the registers is
// that of AVX2.
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool has_avx_vnni() {
  constexpr unsigned kAvxVnni = 1 << 4;
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & kAvxVnni);
}

// The levels of the x86-64 ABI, by the features of each that our kernels' compilers use, and the byte dot products.
std::vector<InstructionSet> find_sets() {
  __builtin_cpu_init();
  bool v3_runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                 __builtin_cpu_supports("bmi2") && has_f16c();
  bool v4_runs = v3_runs && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
  std::vector<InstructionSet> sets;
  if (v4_runs && __builtin_cpu_supports("avx512vnni")) sets.push_back({"v4vnni", &v4vnni::kTable});
  if (v4_runs) sets.push_back({"v4", &v4::kTable});
  if (v3_runs && has_avx_vnni()) sets.push_back({"v3vnni", &v3vnni::kTable});
  if (v3_runs) sets.push_back({"v3", &v3::kTable});
  sets.push_back({"base", &base::kTable});
  return sets;
}
#elif defined(__aarch64__) && defined(__linux__)
std::vector<InstructionSet> find_sets() {
  std::vector<InstructionSet> sets;
  if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) sets.push_back({"dotprod", &dotprod::kTable});
  sets.push_back({"base", &base::kTable});
  return sets;
}
#else
// Where the compiler's default is what every machine of the platform has.
std::vector<InstructionSet> find_sets() { return {{"base", &base::kTable}}; }
#endif

std::atomic<const InstructionSet*>& chosen() {
  static std::atomic<const InstructionSet*> set{&instruction_sets().front()};
  return set;
}

}  // namespace

const std::vector<InstructionSet>& instruction_sets() {
  // Never destroyed: MLX's thread may still compute when the process ends.
  static const auto* sets = new std::vector<InstructionSet>(find_sets());
  return *sets;
}

const InstructionSet& instruction_set() { return *chosen().load(std::memory_order_acquire); }

bool use_instruction_set(std::string_view name) {
  const auto& sets = instruction_sets();
  auto found = std::find_if(sets.begin(), sets.end(), [&](const auto& set) { return name == set.name; });
  if (found == sets.end()) return false;
  chosen().store(&*found, std::memory_order_release);
  return true;
}

const Kernels& kernels() { return *instruction_set().kernels; }

}  // namespace troupe
