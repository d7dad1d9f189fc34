#include "cpu_node.h"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <stdexcept>

#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/primitives.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

// Time by kernel, while somebody wants to know.
class Profile {
 public:
  static Profile& get() {
    static Profile* profile = new Profile;
    return *profile;
  }

  bool on() const { return on_.load(std::memory_order_relaxed); }

  void turn(bool on) {
    std::lock_guard<std::mutex> lock(mutex_);
    on_.store(on, std::memory_order_relaxed);
    times_.clear();
  }

  void add(const std::string& name, std::chrono::nanoseconds time) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& sum = times_[name];
    sum.calls += 1;
    sum.nanoseconds += static_cast<uint64_t>(time.count());
  }

  rust::Vec<KernelTime> times() {
    std::lock_guard<std::mutex> lock(mutex_);
    rust::Vec<KernelTime> all;
    for (const auto& [name, sum] : times_) all.push_back({rust::String(name), sum.calls, sum.nanoseconds});
    return all;
  }

 private:
  struct Sum {
    uint64_t calls = 0, nanoseconds = 0;
  };

  std::atomic<bool> on_{false};
  std::mutex mutex_;
  std::map<std::string, Sum> times_;
};

void run(const std::string& name, const CpuBody& body, std::vector<mx::array>& in, mx::array& out) {
  auto& profile = Profile::get();
  if (!profile.on()) return body(in, out);
  auto start = std::chrono::steady_clock::now();
  body(in, out);
  profile.add(name, std::chrono::steady_clock::now() - start);
}

class CpuNode : public mx::UnaryPrimitive {
 public:
  CpuNode(mx::Stream stream, std::string name, CpuBody body)
      : UnaryPrimitive(stream), name_(std::move(name)), body_(std::move(body)) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    auto& encoder = mx::cpu::get_command_encoder(stream());
    std::vector<mx::array> in;
    for (const auto& input : inputs) {
      encoder.set_input_array(input);
      in.push_back(mx::array::unsafe_weak_copy(input));
    }
    encoder.set_output_array(out);
    // MLX keeps the buffers alive until the task has run, but not this node: the body travels with the task.
    encoder.dispatch([in = std::move(in), out = mx::array::unsafe_weak_copy(out), body = body_, name = name_]() mutable {
      run(name, body, in, out);
    });
  }

  void eval_gpu(const std::vector<mx::array>&, mx::array&) override {
    throw std::runtime_error("[" + name_ + "] has no GPU body");
  }

  const char* name() const override { return name_.c_str(); }

 private:
  std::string name_;
  CpuBody body_;
};

}  // namespace

bool on_cpu() { return mx::default_device() == mx::Device::cpu; }

mx::array cpu_node(std::string name, mx::Shape shape, std::vector<mx::array> inputs, CpuBody body) {
  auto stream = mx::default_stream(mx::default_device());
  auto node = std::make_shared<CpuNode>(stream, std::move(name), std::move(body));
  return mx::array(std::move(shape), mx::float32, std::move(node), std::move(inputs));
}

void profile_kernels(bool on) { Profile::get().turn(on); }

rust::Vec<KernelTime> kernel_times() { return Profile::get().times(); }

}  // namespace troupe
