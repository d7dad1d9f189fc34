// The MLX primitive behind cpu_node().
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu_node.h"
#include "mlx/primitives.h"

namespace troupe {

class CpuPrimitive : public mlx::core::Primitive, public std::enable_shared_from_this<CpuPrimitive> {
 public:
  CpuPrimitive(mlx::core::Stream stream, std::string name, CpuBodies body)
      : Primitive(stream), name_(std::move(name)), body_(std::move(body)) {}

  // Computes on the calling thread; counts in the profile.
  void run(std::vector<mlx::core::array>& in, std::vector<mlx::core::array>& outs) const;

  void eval_cpu(const std::vector<mlx::core::array>& inputs, std::vector<mlx::core::array>& outputs) override;
  void eval_gpu(const std::vector<mlx::core::array>&, std::vector<mlx::core::array>&) override;
  const char* name() const override { return name_.c_str(); }

 private:
  std::string name_;
  CpuBodies body_;
};

}  // namespace troupe
