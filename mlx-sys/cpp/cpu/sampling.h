// Choosing tokens from rows of logits, without sorting them. What a row gives depends on that row alone, bit for bit.
// NaN counts as -infinity.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/kernels/vocabulary.h"
#include "cpu/row_kernels.h"

namespace troupe {

// Added to the logit of one token.
struct Bias {
  int32_t token;  // in 0..n
  float value;
};

// What a row's logits go through before a token is chosen: the biases, then the penalty; then the tokens that are not in
// the mask become impossible.
struct Adjustment {
  const Penalty* penalty;  // null: none
  const Bias* biases;
  int bias_count;
  const uint32_t* mask = nullptr;  // bit t % 32 of word t / 32 allows token t, at least one; null: all are
};

// How a row's token is chosen. Limits look at the distribution of the logits; the temperature shapes what they keep.
struct Drawing {
  bool greedy;        // the largest logit wins, the lowest id among equals, and nothing below matters
  float temperature;  // positive and finite; greedy too where its inverse is not
  int top_k;          // keeps the k largest logits and those equal to the least of them; 0: all
  float top_p;        // of these, keeps a value if the values above it have less than this share of the mass
  float min_p;        // keeps weights of at least this times the largest
  float uniform;      // in [0, 1): the first kept token at which the cumulative mass exceeds this share of the total
};

// Rows of n logits.
struct LogitRows {
  int rows, n;
  Rows logits;
};

// A token for each row. A row whose largest logit is infinite is greedy, whatever its drawing says; one of NaN alone
// gives token 0, or the first of its mask.
void choose_tokens(const LogitRows& x, const Adjustment* adjustments, const Drawing* drawings, uint32_t* tokens);

// Natural logarithms of the probabilities at temperature 1.
struct TokenLogs {
  int count;         // how many of the most likely tokens, at most n
  float* chosen;     // [rows]
  uint32_t* ids;     // [rows, count], the most likely first, the lowest id among equals
  float* logs;       // [rows, count]
};

// n logits and a token among them.
struct LogitsOfToken {
  const float* logits;
  uint32_t token;
};

// Of each row's token, and of its most likely ones.
void log_probabilities(int n, const std::vector<LogitsOfToken>& rows, const TokenLogs& out);

}  // namespace troupe
