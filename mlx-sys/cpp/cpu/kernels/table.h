// The functions that one instruction set's files define.
#pragma once

#include "cpu/kernels/kernels.h"

namespace troupe::TROUPE_ISA {

void linear(const Linear& product, int first, int last);
void quantize_row(const float* x, int row, const IntegerRows& out);
void packed_integer(const PackedMatrix& w, const IntegerRows& x, const Panels& panels, const Output& out);
void packed_f32(const PackedMatrix& w, const FloatRows& x, const Panels& panels, const Output& out);
void dense(const DensePanels& w, const FloatRows& x, const Panels& panels, const Output& out);
void attend(const PagedScores& how, int dim, const Tile& tile, int start, int count, QueryState* states);
float total(const QueryState& state);
void rms_norm(int n, const float* x, const float* weight, float eps, float* out);
void layer_norm(int n, const float* x, const float* weight, const float* bias, float eps, float* out);
void silu_times(int n, const float* gate, const float* up, float* out);
void gelu_times(int n, const float* gate, const float* up, float* out);
void rotate(int half, const float* x, const float* cos, const float* sin, float* out);

}  // namespace troupe::TROUPE_ISA
