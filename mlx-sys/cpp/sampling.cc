// Choosing tokens and reading log-probabilities as one node each.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>

#include "cpu/sampling.h"
#include "cpu_node.h"
#include "dense_rows.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

void check_logits(const char* what, const array& logits) {
  if (has_sampling(logits)) return;
  std::ostringstream text;
  text << "[" << what << "] no kernel takes logits of " << logits.dtype() << logits.shape();
  throw std::invalid_argument(text.str());
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument("[choose_tokens] " + what);
}

// What is known before the logits are.
struct Plan {
  std::vector<Drawing> drawings;
  std::vector<RowPenalty> penalties;
  std::vector<Bias> biases;
  std::vector<size_t> bias_ends;  // for each row, where its biases end and the next row's begin
  std::vector<uint32_t> masked;   // rows that have a mask
  std::vector<uint32_t> masks;    // the words of each of these
};

size_t mask_words(int n) { return (static_cast<size_t>(n) + 31) / 32; }

Plan plan_of(rust::Slice<const RowDrawing> drawings, rust::Slice<const RowPenalty> penalties,
             rust::Slice<const TokenBias> biases, const RowMasks& masks, int n) {
  Plan plan;
  for (const auto& d : drawings) {
    auto top_k = static_cast<int>(std::min<uint32_t>(d.top_k, INT32_MAX));
    plan.drawings.push_back({d.greedy, d.temperature, top_k, d.top_p, d.min_p, d.uniform});
  }
  for (const auto& penalty : penalties) {
    expect(penalty.row < drawings.size(), "a penalty of row " + std::to_string(penalty.row));
    plan.penalties.push_back(penalty);
  }
  size_t next = 0;
  for (size_t row = 0; row < drawings.size(); ++row) {
    for (; next < biases.size() && biases[next].row == row; ++next) {
      expect(biases[next].token < static_cast<uint32_t>(n), "a bias of token " + std::to_string(biases[next].token));
      plan.biases.push_back({static_cast<int32_t>(biases[next].token), biases[next].value});
    }
    plan.bias_ends.push_back(next);
  }
  expect(next == biases.size(), "biases are not in the order of the rows");
  for (auto row : masks.rows) expect(row < drawings.size(), "a mask of row " + std::to_string(row));
  expect(masks.words.size() == masks.rows.size() * mask_words(n), "a mask has a bit for each token");
  plan.masked.assign(masks.rows.begin(), masks.rows.end());
  plan.masks.assign(masks.words.begin(), masks.words.end());
  return plan;
}

void run(const Plan& plan, const Arrays& in, array& out) {
  int rows = in[0].shape(0), n = in[0].shape(1);
  std::vector<Penalty> penalties;
  std::vector<Adjustment> adjustments(rows);
  for (size_t row = 0, first = 0; row < adjustments.size(); first = plan.bias_ends[row++]) {
    adjustments[row] = {nullptr, plan.biases.data() + first, static_cast<int>(plan.bias_ends[row] - first)};
  }
  penalties.reserve(plan.penalties.size());
  for (const auto& p : plan.penalties) {
    size_t at = 1 + 2 * penalties.size();
    penalties.push_back(
        {in[at].data<float>(), in[at + 1].data<float>(), p.repetition, p.presence, p.frequency});
    adjustments[p.row].penalty = &penalties.back();
  }
  for (size_t i = 0; i < plan.masked.size(); ++i) {
    adjustments[plan.masked[i]].mask = plan.masks.data() + i * mask_words(n);
  }
  DenseRows logits(in[0]);
  choose_tokens({rows, n, logits.view()}, adjustments.data(), plan.drawings.data(), out.data<uint32_t>());
}

}  // namespace

bool has_sampling(const array& logits) {
  return on_cpu() && logits.dtype() == mx::float32 && logits.ndim() == 2 && logits.shape(1) > 0;
}

Ptr choose_tokens(const Arrays& inputs, rust::Slice<const RowDrawing> drawings,
                  rust::Slice<const RowPenalty> penalties, rust::Slice<const TokenBias> biases,
                  const RowMasks& masks) {
  const auto& logits = inputs.at(0);
  check_logits("choose_tokens", logits);
  int rows = logits.shape(0), n = logits.shape(1);
  expect(drawings.size() == static_cast<size_t>(rows),
         std::to_string(drawings.size()) + " drawings of " + std::to_string(rows) + " rows");
  expect(inputs.size() == 1 + 2 * penalties.size(), "a penalty has two arrays of counts");
  Arrays in{logits};
  for (size_t i = 1; i < inputs.size(); ++i) {
    expect(inputs[i].dtype() == mx::float32 && inputs[i].shape() == mx::Shape{n}, "counts are f32, one a token");
    in.push_back(mx::contiguous(inputs[i]));
  }
  auto plan = plan_of(drawings, penalties, biases, masks, n);
  auto body = [plan = std::move(plan)](Arrays& in, Arrays& outs) { run(plan, in, outs[0]); };
  return ptr(cpu_node("choose_tokens", {NodeOutput{{rows}, mx::uint32}}, std::move(in), std::move(body))[0]);
}

std::unique_ptr<Arrays> token_logprobs(const array& logits, const array& tokens, Ints rows, int32_t count) {
  check_logits("token_logprobs", logits);
  if (tokens.shape() != mx::Shape{logits.shape(0)} || tokens.dtype() != mx::uint32) {
    throw std::invalid_argument("[token_logprobs] there is not one u32 token a row");
  }
  for (auto row : rows) {
    if (row < 0 || row >= logits.shape(0)) throw std::invalid_argument("[token_logprobs] row " + std::to_string(row));
  }
  count = std::clamp(count, 0, static_cast<int32_t>(logits.shape(1)));
  auto asked = static_cast<int>(rows.size());
  std::vector<NodeOutput> outputs{{{asked}, mx::float32}, {{asked, count}, mx::uint32}, {{asked, count}, mx::float32}};
  auto body = [which = to_vector(rows), count](Arrays& in, Arrays& outs) {
    DenseRows logits(in[0]);
    int n = in[0].shape(1);
    const auto* tokens = in[1].data<uint32_t>();
    std::vector<LogitsOfToken> asked;
    for (int row : which) {
      if (tokens[row] >= static_cast<uint32_t>(n)) {
        throw std::out_of_range("[token_logprobs] token " + std::to_string(tokens[row]) + " of " + std::to_string(n));
      }
      asked.push_back({logits.view().at(row), tokens[row]});
    }
    log_probabilities(n, asked, {count, outs[0].data<float>(), outs[1].data<uint32_t>(), outs[2].data<float>()});
  };
  return std::make_unique<Arrays>(
      cpu_node("token_logprobs", std::move(outputs), {logits, mx::contiguous(tokens)}, std::move(body)));
}

}  // namespace troupe
