// Devices, memory, version.
#include "bridge.h"
#include "cpu/pool.h"
#include "mlx-sys/src/bridge.rs.h"

#include <map>
#include <sstream>

namespace troupe {
namespace mx = mlx::core;

namespace {
mx::Device to_device(bool gpu) { return gpu ? mx::Device::gpu : mx::Device::cpu; }
}  // namespace

void set_default_device(bool gpu) { mx::set_default_device(to_device(gpu)); }
bool default_is_gpu() { return mx::default_device() == mx::Device::gpu; }
bool device_available(bool gpu) { return mx::is_available(to_device(gpu)); }

rust::String device_info(bool gpu) {
  const auto& info = mx::device_info(to_device(gpu));
  std::map<std::string, std::variant<std::string, size_t>> sorted(info.begin(), info.end());
  std::ostringstream text;
  for (const auto& [key, value] : sorted) {
    text << (text.tellp() > 0 ? ", " : "") << key << "=";
    std::visit([&](const auto& v) { text << v; }, value);
  }
  return text.str();
}

rust::String device_name(bool gpu) {
  const auto& info = mx::device_info(to_device(gpu));
  auto found = info.find("device_name");
  const auto* name = found == info.end() ? nullptr : std::get_if<std::string>(&found->second);
  return name ? *name : std::string(gpu ? "GPU" : "CPU");
}

uint64_t device_memory(bool gpu) {
  const auto& info = mx::device_info(to_device(gpu));
  // Metal says how much may be used at best, CUDA how much there is.
  for (const char* key : {"max_recommended_working_set_size", "total_memory", "memory_size"}) {
    auto found = info.find(key);
    if (found == info.end()) continue;
    if (const auto* bytes = std::get_if<size_t>(&found->second)) return *bytes;
  }
  return 0;
}

void synchronize() { mx::synchronize(); }
size_t active_memory() { return mx::get_active_memory(); }
size_t peak_memory() { return mx::get_peak_memory(); }
void reset_peak_memory() { mx::reset_peak_memory(); }
size_t cache_memory() { return mx::get_cache_memory(); }
size_t set_memory_limit(size_t bytes) { return mx::set_memory_limit(bytes); }
size_t set_cache_limit(size_t bytes) { return mx::set_cache_limit(bytes); }
size_t set_wired_limit(size_t bytes) { return mx::set_wired_limit(bytes); }
void clear_cache() { mx::clear_cache(); }
rust::String version() { return mx::version(); }
size_t cpu_threads() { return pool_threads(); }
void set_cpu_threads(size_t threads) { set_pool_threads(threads); }
void pin_cpu_threads(bool pinned) { set_pool_affinity(pinned ? Affinity::pinned : Affinity::free); }

}  // namespace troupe
