#include "cpu_node.h"

#include <chrono>
#include <stdexcept>

#include "cpu_primitive.h"
#include "mlx/backend/cpu/encoder.h"
#include "profile.h"

namespace troupe {
namespace mx = mlx::core;

void CpuPrimitive::run(std::vector<mx::array>& in, std::vector<mx::array>& outs) const {
  auto& profile = Profile::get();
  if (!profile.on() || name_.empty()) return body_(in, outs);
  auto start = std::chrono::steady_clock::now();
  body_(in, outs);
  profile.add(name_, std::chrono::steady_clock::now() - start);
}

void CpuPrimitive::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  auto& encoder = mx::cpu::get_command_encoder(stream());
  std::vector<mx::array> in, outs;
  for (const auto& input : inputs) {
    encoder.set_input_array(input);
    in.push_back(mx::array::unsafe_weak_copy(input));
  }
  for (auto& out : outputs) {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    encoder.set_output_array(out);
    outs.push_back(mx::array::unsafe_weak_copy(out));
  }
  // MLX keeps the buffers alive until the task has run, but not this node: it travels with the task.
  encoder.dispatch([in = std::move(in), outs = std::move(outs), self = shared_from_this()]() mutable {
    self->run(in, outs);
  });
}

void CpuPrimitive::eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) {
  throw std::runtime_error("[" + name_ + "] has no GPU body");
}

bool on_cpu() { return mx::default_device() == mx::Device::cpu; }

std::vector<mx::array> cpu_node(std::string name, std::vector<NodeOutput> outputs, std::vector<mx::array> inputs,
                                CpuBodies body) {
  auto stream = mx::default_stream(mx::default_device());
  auto node = std::make_shared<CpuPrimitive>(stream, std::move(name), std::move(body));
  std::vector<mx::Shape> shapes;
  std::vector<mx::Dtype> dtypes;
  for (auto& output : outputs) {
    shapes.push_back(std::move(output.shape));
    dtypes.push_back(output.dtype);
  }
  return mx::array::make_arrays(std::move(shapes), dtypes, node, inputs);
}

mx::array cpu_node(std::string name, mx::Shape shape, std::vector<mx::array> inputs, CpuBody body) {
  auto one = [body = std::move(body)](std::vector<mx::array>& in, std::vector<mx::array>& outs) { body(in, outs[0]); };
  return cpu_node(std::move(name), {NodeOutput{std::move(shape), mx::float32}}, std::move(inputs), std::move(one))[0];
}

}  // namespace troupe
