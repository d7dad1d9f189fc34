// The product of linear layers, c = a * wᵀ, with rows that do not depend on each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

// c [m, n] = alpha * a [m, k] * w [n, k]ᵀ + beta * c, all row-major with rows lda, ldw, ldc floats apart; c is not
// read when beta is 0. An element is one sum in an order that depends on k alone: row i of the result is the same,
// bit for bit, whatever m is and whatever the other rows hold.
struct Linear {
  int m, n, k;
  float alpha, beta;
  const float* a;
  int64_t lda;
  const float* w;
  int64_t ldw;
  float* c;
  int64_t ldc;
};

void linear(const Linear& product);

}  // namespace troupe
