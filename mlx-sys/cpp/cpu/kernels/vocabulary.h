// What sampling asks of a row of logits, part by part. NaN counts as -infinity in all of it.
#pragma once

#include <cstdint>

namespace troupe {

// Logits of a row that are worked on together, starting at a multiple of it.
constexpr int kLogits = 1024;

// A logit's weight is e^((logit - max) / temperature): at most 1, and 0 once it would be less than e^-87.
struct Weighting {
  float max;
  float inverse_temperature;
};

// Logits of at least `least` that are less than `below`; a NaN bounds nothing.
struct Range {
  float least, below;
};

constexpr int kBounds = 8;  // bounds whose masses are computed together

// Divides the positive and multiplies the negative logits of tokens in `prompt` or `generated` (counts for each token)
// by `repetition`; then takes `presence` from those that were generated, and `frequency` for each time.
struct Penalty {
  const float* prompt;
  const float* generated;
  float repetition, presence, frequency;
};

}  // namespace troupe
