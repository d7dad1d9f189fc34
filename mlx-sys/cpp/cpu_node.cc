#include "cpu_node.h"

#include <stdexcept>

#include "mlx/backend/cpu/encoder.h"
#include "mlx/primitives.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

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
    encoder.dispatch([in = std::move(in), out = mx::array::unsafe_weak_copy(out), body = body_]() mutable {
      body(in, out);
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

}  // namespace troupe
