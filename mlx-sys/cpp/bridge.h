// The functions that Rust calls, declared once for cxx to check. Each can throw; cxx turns an exception into Err.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mlx/mlx.h"
#include "rust/cxx.h"

namespace troupe {

using mlx::core::array;
using Arrays = std::vector<array>;
using Ptr = std::unique_ptr<array>;
using Ints = rust::Slice<const int32_t>;

enum class Unary : uint8_t;
enum class Binary : uint8_t;
enum class Fold : uint8_t;
enum class Along : uint8_t;
enum class Layout : uint8_t;
enum class Activations : uint8_t;
struct Packing;
struct PackedLayout;
struct DenseLayout;
struct RopeOptions;
struct AttentionOptions;
struct Fusion;
struct KernelTime;
struct RowDrawing;
struct RowMasks;
struct RowPenalty;
struct TokenBias;
struct HostBuffer;

inline Ptr ptr(array a) { return std::make_unique<array>(std::move(a)); }
inline mlx::core::Shape to_shape(Ints ints) { return mlx::core::Shape(ints.begin(), ints.end()); }
inline std::vector<int> to_vector(Ints ints) { return std::vector<int>(ints.begin(), ints.end()); }
inline std::optional<array> maybe(const array* a) { return a ? std::optional<array>(*a) : std::nullopt; }
mlx::core::Dtype to_dtype(uint8_t code);

Ptr from_bytes(rust::Slice<const uint8_t> bytes, Ints shape, uint8_t dtype);
Ptr from_host(rust::Box<HostBuffer> owner, Ints shape, uint8_t dtype);
Ptr uninit(Ints shape, uint8_t dtype);
Ptr full(Ints shape, const array& value, uint8_t dtype);
Ptr arange(double start, double stop, double step, uint8_t dtype);
Ptr clone_handle(const array& a);
Ints shape_of(const array& a);
uint8_t dtype_of(const array& a);
size_t size_of(const array& a);
bool available(const array& a);
void wait(const array& a);
void read_bytes(const array& a, rust::Slice<uint8_t> out);
void push(Arrays& list, const array& a);
void eval(const Arrays& list);
void async_eval(const Arrays& list);

Ptr unary(Unary op, const array& a);
Ptr binary(Binary op, const array& a, const array& b);
Ptr fold(Fold op, const array& a, int32_t axis, bool keep);
Ptr along(Along op, const array& a, int32_t axis);
Ptr cumsum(const array& a, int32_t axis, bool reverse, bool inclusive);
Ptr argpartition(const array& a, int32_t kth, int32_t axis);
Ptr topk(const array& a, int32_t k, int32_t axis);
Ptr astype(const array& a, uint8_t dtype);
Ptr view(const array& a, uint8_t dtype);
Ptr addmm(const array& c, const array& a, const array& b);
Ptr where_(const array& condition, const array& x, const array& y);
Ptr random_bits(Ints shape, int32_t width, const array& key);

Ptr layout(Layout op, const array& a, Ints numbers);
Ptr swapaxes(const array& a, int32_t first, int32_t second);
Ptr flatten(const array& a, int32_t start, int32_t end);
Ptr concatenate(const Arrays& list, int32_t axis);
Ptr stack(const Arrays& list, int32_t axis);
std::unique_ptr<Arrays> split(const array& a, Ints at, int32_t axis);
Ptr slice(const array& a, Ints start, Ints stop, Ints strides);
Ptr slice_update(const array& a, const array& update, Ints start, Ints stop);
Ptr take(const array& a, const array& indices, int32_t axis);
Ptr take_along_axis(const array& a, const array& indices, int32_t axis);
Ptr put_along_axis(const array& a, const array& indices, const array& values, int32_t axis);
Ptr scatter_rows(const array& a, const array& indices, const array& updates, bool add);

Ptr quantized_matmul(const array& x, const array& w, const array& scales, const array* biases, bool transpose,
                     const Packing& packing);
std::unique_ptr<Arrays> quantize(const array& w, const Packing& packing);
Ptr dequantize(const array& w, const array& scales, const array* biases, const Packing& packing, uint8_t dtype);
Ptr layer_norm(const array& x, const array* weight, const array* bias, float eps);
Ptr rope(const array& x, const RopeOptions& options, int32_t offset, const array* freqs);
Ptr attention(const array& q, const array& k, const array& v, float scale, rust::Str mask_mode, const array* mask);

Ptr rms_norm(const array& x, const array* weight, float eps);
Ptr swiglu(const array& gate, const array& up);
Ptr rotate_half(const array& x, const array& cos, const array& sin);

bool can_pack(const PackedLayout& layout);
Ptr pack_affine(const array& packed, const array& scales, const array& biases, const PackedLayout& layout);
Ptr packed_rows(const array& ids, const array& data, const PackedLayout& layout);

bool has_dense_panels(uint8_t dtype);
Ptr pack_dense(const array& rows);
Ptr dense_rows(const array& ids, const array& data, const DenseLayout& layout);

Ptr packed_projection(const array& x, const array& data, const PackedLayout& layout, Activations activations,
                      const Fusion& fusion, const Arrays& rest);
Ptr dense_projection(const array& x, const array& data, const DenseLayout& layout, const Fusion& fusion,
                     const Arrays& rest);
bool has_linear(const array& x, const array& w);
Ptr fuse(const array& last);
Ptr linear_projection(const array& x, const array& w, const Fusion& fusion, const Arrays& rest);

Ptr paged_attention(const Arrays& inputs, const AttentionOptions& options);
Ptr read_blocks(const array& slab, Ints ids);
Ptr write_blocks(const array& slab, Ints ids, const array& contents);

bool has_sampling(const array& logits);
Ptr choose_tokens(const Arrays& inputs, rust::Slice<const RowDrawing> drawings,
                  rust::Slice<const RowPenalty> penalties, rust::Slice<const TokenBias> biases,
                  const RowMasks& masks);
std::unique_ptr<Arrays> token_logprobs(const array& logits, const array& tokens, Ints rows, int32_t count);

void set_default_device(bool gpu);
bool default_is_gpu();
bool device_available(bool gpu);
rust::String device_info(bool gpu);
rust::String device_name(bool gpu);
uint64_t device_memory(bool gpu);
void synchronize();
size_t active_memory();
size_t peak_memory();
void reset_peak_memory();
size_t cache_memory();
size_t set_memory_limit(size_t bytes);
size_t set_cache_limit(size_t bytes);
size_t set_wired_limit(size_t bytes);
void clear_cache();
rust::String version();
size_t cpu_threads();
void set_cpu_threads(size_t threads);
void pin_cpu_threads(bool pinned);
void profile_kernels(bool on);
rust::Vec<KernelTime> kernel_times();
rust::Vec<rust::String> instruction_set_names();
rust::String instruction_set_name();
bool set_instruction_set(rust::Str name);
uint64_t read_once(rust::Slice<const uint8_t> bytes);
int64_t multiply_and_add(int64_t rounds);

}  // namespace troupe
