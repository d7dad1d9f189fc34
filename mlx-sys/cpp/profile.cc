#include "profile.h"

#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

namespace troupe {

void profile_kernels(bool on) { Profile::get().turn(on); }

rust::Vec<KernelTime> kernel_times() {
  rust::Vec<KernelTime> all;
  for (const auto& [name, sum] : Profile::get().times()) {
    all.push_back({rust::String(name), sum.calls, sum.nanoseconds});
  }
  return all;
}

}  // namespace troupe
