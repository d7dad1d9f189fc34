// A node of MLX's graph whose values a function of ours computes on the CPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mlx/mlx.h"

namespace troupe {

// Reads the inputs (any strides) and fills the output, which is allocated and row-contiguous. Runs on the stream's
// thread; an exception becomes the error of the evaluation.
using CpuBody = std::function<void(std::vector<mlx::core::array>& inputs, mlx::core::array& out)>;

// An f32 array on the default stream. `name` stands in error messages.
mlx::core::array cpu_node(std::string name, mlx::core::Shape shape, std::vector<mlx::core::array> inputs, CpuBody body);

// What a node's output is.
struct NodeOutput {
  mlx::core::Shape shape;
  mlx::core::Dtype dtype;
};

// The same for outputs of any number and type, in the order in which they were asked for.
using CpuBodies = std::function<void(std::vector<mlx::core::array>& inputs, std::vector<mlx::core::array>& outs)>;
std::vector<mlx::core::array> cpu_node(std::string name, std::vector<NodeOutput> outputs,
                                       std::vector<mlx::core::array> inputs, CpuBodies body);

// True when operations built now run on the CPU.
bool on_cpu();

}  // namespace troupe
