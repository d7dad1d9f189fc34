// The functions that one instruction set's files define.
#pragma once

#include "cpu/kernels/kernels.h"

namespace troupe::TROUPE_ISA {

void linear(const Linear& product, int first, int last);
void quantize_row(const float* x, int row, const IntegerRows& out);
void packed_integer(const PackedMatrix& w, const IntegerRows& x, const Panels& panels, const Output& out);
void packed_f32(const PackedMatrix& w, const FloatRows& x, const Panels& panels, const Output& out);
void dense(const DensePanels& w, const FloatRows& x, const Panels& panels, const Output& out);
void attend(const PagedScores& how, const KvSegment& kv, const Queries& queries);
void merge(int dim, const Softmax& part, Softmax& whole);
void write_kv(const float* x, const KvPlace& place);
void widen_kv(const KvSegment& in, int group, float* keys, float* values);
void rms_norm(int n, const float* x, const float* weight, float eps, float* out);
void layer_norm(int n, const float* x, const float* weight, const float* bias, float eps, float* out);
void silu_times(int n, const float* gate, const float* up, float* out);
void gelu_times(int n, const float* gate, const float* up, float* out);
void rotate(int half, const float* x, const float* cos, const float* sin, float* out);
void lane_maxima(int n, const float* x, float* maxima);
void weights(int n, const float* x, const Weighting& how, float* out);
float mass(int n, const float* x, const Weighting& how, float least);
void masses(int n, const float* x, const Weighting& how, const float* least, float* out);
int places_of(int n, const float* x, const Range& range, int32_t* places);
void penalise(int n, const float* x, const Penalty& how, float* out);
uint64_t read(const uint8_t* bytes, size_t count);
float multiply_add(int64_t rounds, float a, float b, int64_t* operations);

}  // namespace troupe::TROUPE_ISA
