// Many nodes as one. MLX hands each node to its thread by a lock, lets no more than a hundred or so be under way, and wakes
// the thread that builds the next step again and again meanwhile: on few cores that costs a decode step a fifth of its time.
#include "bridge.h"

#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cpu_primitive.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

// One node of those that become one.
struct Stage {
  std::shared_ptr<CpuPrimitive> node;
  std::vector<size_t> inputs;  // places of values
  mx::Shape shape;
  mx::Dtype dtype;
  std::vector<size_t> ends;  // values that nobody reads after this stage
};

// Nodes in the order in which they run. Values are first the arrays from outside, then what each stage gives.
struct Stages {
  Arrays outside;
  std::vector<Stage> all;
};

std::shared_ptr<CpuPrimitive> node_of(const array& a) {
  if (a.status() != array::Status::unscheduled || !a.has_primitive() || !a.siblings().empty()) return nullptr;
  return std::dynamic_pointer_cast<CpuPrimitive>(a.primitive_ptr());
}

class Collector {
 public:
  Stages collect(const array& last) {
    find_outside(last);
    visit(last);
    mark_ends();
    return std::move(stages_);
  }

 private:
  // Arrays that are no nodes of ours, and so are computed before.
  void find_outside(const array& a) {
    if (!seen_.insert({a.id(), stages_.outside.size()}).second) return;
    if (node_of(a)) {
      seen_.erase(a.id());
      if (!entered_.insert(a.id()).second) return;
      for (const auto& input : a.inputs()) find_outside(input);
      return;
    }
    stages_.outside.push_back(a);
  }

  // The place of the value of `a`.
  size_t visit(const array& a) {
    if (auto found = seen_.find(a.id()); found != seen_.end()) return found->second;
    Stage stage{node_of(a), {}, a.shape(), a.dtype(), {}};
    for (const auto& input : a.inputs()) stage.inputs.push_back(visit(input));
    stages_.all.push_back(std::move(stage));
    return seen_[a.id()] = stages_.outside.size() + stages_.all.size() - 1;
  }

  void mark_ends() {
    std::vector<bool> read(stages_.outside.size() + stages_.all.size(), false);
    for (size_t at = stages_.all.size(); at-- > 0;) {
      auto& stage = stages_.all[at];
      for (size_t value : stage.inputs) {
        if (!read[value]) stage.ends.push_back(value);
        read[value] = true;
      }
    }
  }

  Stages stages_;
  std::unordered_map<uintptr_t, size_t> seen_;
  std::unordered_set<uintptr_t> entered_;
};

void run(const std::vector<Stage>& stages, const Arrays& in, const array& out) {
  std::vector<std::optional<array>> values(in.begin(), in.end());
  for (const auto& stage : stages) {
    Arrays inputs, outputs;
    for (size_t value : stage.inputs) inputs.push_back(*values[value]);
    if (&stage == &stages.back()) {
      outputs.push_back(out);
    } else {
      outputs.emplace_back(stage.shape, stage.dtype, nullptr, Arrays{});
      outputs[0].set_data(mx::allocator::malloc(outputs[0].nbytes()));
    }
    stage.node->run(inputs, outputs);
    values.push_back(outputs[0]);
    for (size_t value : stage.ends) values[value].reset();
  }
}

}  // namespace

Ptr fuse(const array& last) {
  if (!node_of(last)) return ptr(last);
  auto [outside, all] = Collector().collect(last);
  if (all.size() < 2) return ptr(last);
  auto stages = std::make_shared<const std::vector<Stage>>(std::move(all));
  auto body = [stages](Arrays& in, Arrays& outs) { run(*stages, in, outs[0]); };
  return ptr(cpu_node("", {NodeOutput{last.shape(), last.dtype()}}, std::move(outside), std::move(body))[0]);
}

}  // namespace troupe
