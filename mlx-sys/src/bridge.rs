//! The declarations that cxx checks on both sides. Everything that can throw returns `Result`.
#![allow(missing_docs, reason = "private to the crate; the safe wrappers are documented")]
#![allow(unsafe_code, reason = "the foreign boundary")]
#![allow(unreachable_pub, reason = "the macro makes the items public inside a private module")]

#[cxx::bridge(namespace = "troupe")]
pub(crate) mod ffi {
    /// Operations of one array and no parameter.
    enum Unary {
        Abs,
        Contiguous,
        Copy,
        Cos,
        Erf,
        Exp,
        Floor,
        IsNan,
        Log,
        Log1p,
        LogicalNot,
        Negative,
        Reciprocal,
        Rsqrt,
        Sigmoid,
        Sin,
        Sqrt,
        Square,
        StopGradient,
        Tanh,
    }

    /// Operations of two arrays that broadcast against each other.
    enum Binary {
        Add,
        BitwiseAnd,
        BitwiseXor,
        Divide,
        Equal,
        FloorDivide,
        Greater,
        GreaterEqual,
        LeftShift,
        Less,
        LessEqual,
        LogAddExp,
        LogicalAnd,
        LogicalOr,
        Matmul,
        Maximum,
        Minimum,
        Multiply,
        NotEqual,
        Power,
        Remainder,
        RightShift,
        Subtract,
    }

    /// Operations that fold one axis.
    enum Fold {
        All,
        Any,
        ArgMax,
        ArgMin,
        LogSumExp,
        Max,
        Mean,
        Min,
        Sum,
    }

    /// Operations along one axis that keep the shape.
    enum Along {
        ArgSort,
        Softmax,
        Sort,
    }

    /// Operations of one array and a list of integers (a shape or axes).
    enum Layout {
        BroadcastTo,
        ExpandDims,
        Reshape,
        Squeeze,
        Transpose,
    }

    /// How a quantised matrix is packed.
    struct Packing {
        group_size: i32,
        bits: i32,
    }

    /// A quantised matrix in our own form.
    struct PackedLayout {
        rows: i32,
        columns: i32,
        group_size: i32,
        bits: i32,
        /// Code of the type of scales and biases.
        scales: u8,
    }

    /// A dense matrix in our own form.
    struct DenseLayout {
        rows: i32,
        columns: i32,
        /// Code of its type.
        dtype: u8,
    }

    /// What becomes of activations before a product.
    enum Activations {
        Int8,
        Int16,
        F32,
    }

    /// What normalises the rows before a product.
    enum NormType {
        Absent,
        Rms,
        Layer,
    }

    /// What makes one of two halves of a product's outputs.
    enum GateType {
        Absent,
        Silu,
        GeluTanh,
    }

    /// What stands around a product. The flags say which arrays are given.
    struct Fusion {
        norm: NormType,
        eps: f32,
        norm_weight: bool,
        norm_bias: bool,
        bias: bool,
        gate: GateType,
        residual: bool,
    }

    /// Time that a kernel took.
    struct KernelTime {
        name: String,
        calls: u64,
        nanoseconds: u64,
    }

    struct RopeOptions {
        dims: i32,
        traditional: bool,
        has_base: bool,
        base: f32,
        scale: f32,
    }

    struct AttentionOptions {
        heads: i32,
        /// The first columns of q, k and v in their arrays.
        q_first: i32,
        k_first: i32,
        v_first: i32,
        scale: f32,
        /// 0: no cap
        softcap: f32,
        /// 0: no window
        window: i32,
        bidirectional: bool,
        /// Which of the optional inputs are there.
        scaled: bool,
        rotated: bool,
        sinks: bool,
    }

    /// How a row's token is chosen.
    struct RowDrawing {
        greedy: bool,
        temperature: f32,
        /// 0: all
        top_k: u32,
        top_p: f32,
        min_p: f32,
        uniform: f32,
    }

    /// The penalties of a row; its counts are among the arrays.
    struct RowPenalty {
        row: u32,
        repetition: f32,
        presence: f32,
        frequency: f32,
    }

    struct TokenBias {
        row: u32,
        token: u32,
        value: f32,
    }

    /// Tokens that rows may choose: one bit each, the least significant of a word first.
    struct RowMasks {
        rows: Vec<u32>,
        /// Of each of the rows, as many words as the vocabulary fills.
        words: Vec<u32>,
    }

    extern "Rust" {
        type HostBuffer;
        fn address(&self) -> usize;
    }

    unsafe extern "C++" {
        include!("mlx-sys/cpp/bridge.h");
        include!("mlx-sys/cpp/pages_ahead.h");

        #[namespace = "mlx::core"]
        #[cxx_name = "array"]
        type MlxArray;

        // arrays.cc
        fn from_bytes(bytes: &[u8], shape: &[i32], dtype: u8) -> Result<UniquePtr<MlxArray>>;
        fn from_host(owner: Box<HostBuffer>, shape: &[i32], dtype: u8) -> Result<UniquePtr<MlxArray>>;
        fn uninit(shape: &[i32], dtype: u8) -> Result<UniquePtr<MlxArray>>;
        fn full(shape: &[i32], value: &MlxArray, dtype: u8) -> Result<UniquePtr<MlxArray>>;
        fn arange(start: f64, stop: f64, step: f64, dtype: u8) -> Result<UniquePtr<MlxArray>>;
        fn clone_handle(a: &MlxArray) -> UniquePtr<MlxArray>;
        fn shape_of(a: &MlxArray) -> &[i32];
        fn dtype_of(a: &MlxArray) -> u8;
        fn size_of(a: &MlxArray) -> usize;
        fn available(a: &MlxArray) -> bool;
        fn wait(a: &MlxArray) -> Result<()>;
        fn read_bytes(a: &MlxArray, out: &mut [u8]) -> Result<()>;
        fn push(list: Pin<&mut CxxVector<MlxArray>>, a: &MlxArray);
        fn eval(list: &CxxVector<MlxArray>) -> Result<()>;
        fn async_eval(list: &CxxVector<MlxArray>) -> Result<()>;

        // ops.cc
        fn unary(op: Unary, a: &MlxArray) -> Result<UniquePtr<MlxArray>>;
        fn binary(op: Binary, a: &MlxArray, b: &MlxArray) -> Result<UniquePtr<MlxArray>>;
        fn fold(op: Fold, a: &MlxArray, axis: i32, keep: bool) -> Result<UniquePtr<MlxArray>>;
        fn along(op: Along, a: &MlxArray, axis: i32) -> Result<UniquePtr<MlxArray>>;
        fn cumsum(a: &MlxArray, axis: i32, reverse: bool, inclusive: bool) -> Result<UniquePtr<MlxArray>>;
        fn argpartition(a: &MlxArray, kth: i32, axis: i32) -> Result<UniquePtr<MlxArray>>;
        fn topk(a: &MlxArray, k: i32, axis: i32) -> Result<UniquePtr<MlxArray>>;
        fn astype(a: &MlxArray, dtype: u8) -> Result<UniquePtr<MlxArray>>;
        fn view(a: &MlxArray, dtype: u8) -> Result<UniquePtr<MlxArray>>;
        fn addmm(c: &MlxArray, a: &MlxArray, b: &MlxArray) -> Result<UniquePtr<MlxArray>>;
        fn where_(condition: &MlxArray, x: &MlxArray, y: &MlxArray) -> Result<UniquePtr<MlxArray>>;
        fn random_bits(shape: &[i32], width: i32, key: &MlxArray) -> Result<UniquePtr<MlxArray>>;

        // shapes.cc
        fn layout(op: Layout, a: &MlxArray, numbers: &[i32]) -> Result<UniquePtr<MlxArray>>;
        fn swapaxes(a: &MlxArray, first: i32, second: i32) -> Result<UniquePtr<MlxArray>>;
        fn flatten(a: &MlxArray, start: i32, end: i32) -> Result<UniquePtr<MlxArray>>;
        fn concatenate(list: &CxxVector<MlxArray>, axis: i32) -> Result<UniquePtr<MlxArray>>;
        fn stack(list: &CxxVector<MlxArray>, axis: i32) -> Result<UniquePtr<MlxArray>>;
        fn split(a: &MlxArray, at: &[i32], axis: i32) -> Result<UniquePtr<CxxVector<MlxArray>>>;
        fn slice(a: &MlxArray, start: &[i32], stop: &[i32], strides: &[i32]) -> Result<UniquePtr<MlxArray>>;
        fn slice_update(
            a: &MlxArray,
            update: &MlxArray,
            start: &[i32],
            stop: &[i32],
        ) -> Result<UniquePtr<MlxArray>>;
        fn take(a: &MlxArray, indices: &MlxArray, axis: i32) -> Result<UniquePtr<MlxArray>>;
        fn take_along_axis(a: &MlxArray, indices: &MlxArray, axis: i32) -> Result<UniquePtr<MlxArray>>;
        fn put_along_axis(
            a: &MlxArray,
            indices: &MlxArray,
            values: &MlxArray,
            axis: i32,
        ) -> Result<UniquePtr<MlxArray>>;
        fn scatter_rows(
            a: &MlxArray,
            indices: &MlxArray,
            updates: &MlxArray,
            add: bool,
        ) -> Result<UniquePtr<MlxArray>>;

        // fast.cc: a null pointer is an absent array.
        unsafe fn quantized_matmul(
            x: &MlxArray,
            w: &MlxArray,
            scales: &MlxArray,
            biases: *const MlxArray,
            transpose: bool,
            packing: &Packing,
        ) -> Result<UniquePtr<MlxArray>>;
        fn quantize(w: &MlxArray, packing: &Packing) -> Result<UniquePtr<CxxVector<MlxArray>>>;
        unsafe fn dequantize(
            w: &MlxArray,
            scales: &MlxArray,
            biases: *const MlxArray,
            packing: &Packing,
            dtype: u8,
        ) -> Result<UniquePtr<MlxArray>>;
        unsafe fn layer_norm(
            x: &MlxArray,
            weight: *const MlxArray,
            bias: *const MlxArray,
            eps: f32,
        ) -> Result<UniquePtr<MlxArray>>;
        unsafe fn rope(
            x: &MlxArray,
            options: &RopeOptions,
            offset: i32,
            freqs: *const MlxArray,
        ) -> Result<UniquePtr<MlxArray>>;
        unsafe fn attention(
            q: &MlxArray,
            k: &MlxArray,
            v: &MlxArray,
            scale: f32,
            mask_mode: &str,
            mask: *const MlxArray,
        ) -> Result<UniquePtr<MlxArray>>;

        // fused.cc
        unsafe fn rms_norm(x: &MlxArray, weight: *const MlxArray, eps: f32) -> Result<UniquePtr<MlxArray>>;
        fn swiglu(gate: &MlxArray, up: &MlxArray) -> Result<UniquePtr<MlxArray>>;
        fn rotate_half(x: &MlxArray, cos: &MlxArray, sin: &MlxArray) -> Result<UniquePtr<MlxArray>>;

        // packed.cc
        fn can_pack(layout: &PackedLayout) -> Result<bool>;
        fn pack_affine(
            packed: &MlxArray,
            scales: &MlxArray,
            biases: &MlxArray,
            layout: &PackedLayout,
        ) -> Result<UniquePtr<MlxArray>>;
        fn packed_rows(ids: &MlxArray, data: &MlxArray, layout: &PackedLayout)
        -> Result<UniquePtr<MlxArray>>;

        // projection.cc: the arrays that `fusion` names, in the order of its flags.
        fn packed_projection(
            x: &MlxArray,
            data: &MlxArray,
            layout: &PackedLayout,
            activations: Activations,
            fusion: &Fusion,
            rest: &CxxVector<MlxArray>,
        ) -> Result<UniquePtr<MlxArray>>;
        fn dense_projection(
            x: &MlxArray,
            data: &MlxArray,
            layout: &DenseLayout,
            fusion: &Fusion,
            rest: &CxxVector<MlxArray>,
        ) -> Result<UniquePtr<MlxArray>>;
        fn has_linear(x: &MlxArray, w: &MlxArray) -> bool;
        fn linear_projection(
            x: &MlxArray,
            w: &MlxArray,
            fusion: &Fusion,
            rest: &CxxVector<MlxArray>,
        ) -> Result<UniquePtr<MlxArray>>;

        // dense.cc
        fn has_dense_panels(dtype: u8) -> bool;
        fn pack_dense(rows: &MlxArray) -> Result<UniquePtr<MlxArray>>;
        fn dense_rows(ids: &MlxArray, data: &MlxArray, layout: &DenseLayout) -> Result<UniquePtr<MlxArray>>;

        // paged_attention.cc: q, k, v, keys, values, row_offsets, context_lens, slot_mapping, block_tables, and
        // where options say so: key scales and value scales, cos and sin, sinks.
        fn paged_attention(
            inputs: &CxxVector<MlxArray>,
            options: &AttentionOptions,
        ) -> Result<UniquePtr<MlxArray>>;

        // block_copy.cc
        fn read_blocks(slab: &MlxArray, ids: &[i32]) -> Result<UniquePtr<MlxArray>>;
        fn write_blocks(slab: &MlxArray, ids: &[i32], contents: &MlxArray) -> Result<UniquePtr<MlxArray>>;

        // pages_ahead.cc
        type PagesAhead;
        fn pages_ahead(slabs: &CxxVector<MlxArray>) -> Result<UniquePtr<PagesAhead>>;
        fn used(self: &PagesAhead, blocks: usize);
        fn settle(self: &PagesAhead) -> usize;

        // sampling.cc: the logits, then for each penalty the counts of the prompt and of what was generated.
        fn has_sampling(logits: &MlxArray) -> bool;
        fn choose_tokens(
            inputs: &CxxVector<MlxArray>,
            drawings: &[RowDrawing],
            penalties: &[RowPenalty],
            biases: &[TokenBias],
            masks: &RowMasks,
        ) -> Result<UniquePtr<MlxArray>>;
        fn token_logprobs(
            logits: &MlxArray,
            tokens: &MlxArray,
            rows: &[i32],
            count: i32,
        ) -> Result<UniquePtr<CxxVector<MlxArray>>>;

        // device.cc
        fn set_default_device(gpu: bool) -> Result<()>;
        fn default_is_gpu() -> bool;
        fn device_available(gpu: bool) -> bool;
        fn device_info(gpu: bool) -> Result<String>;
        fn device_name(gpu: bool) -> Result<String>;
        fn device_memory(gpu: bool) -> Result<u64>;
        fn synchronize() -> Result<()>;
        fn active_memory() -> usize;
        fn peak_memory() -> usize;
        fn reset_peak_memory();
        fn cache_memory() -> usize;
        fn set_memory_limit(bytes: usize) -> Result<usize>;
        fn set_cache_limit(bytes: usize) -> Result<usize>;
        fn set_wired_limit(bytes: usize) -> Result<usize>;
        fn clear_cache();
        fn version() -> String;
        fn cpu_threads() -> usize;
        fn set_cpu_threads(threads: usize) -> Result<()>;
        fn pin_cpu_threads(pinned: bool);

        // fuse.cc
        fn fuse(last: &MlxArray) -> Result<UniquePtr<MlxArray>>;

        // profile.cc
        fn profile_kernels(on: bool);
        fn kernel_times() -> Vec<KernelTime>;
        fn instruction_set_names() -> Vec<String>;
        fn instruction_set_name() -> String;
        fn set_instruction_set(name: &str) -> bool;
        fn read_once(bytes: &[u8]) -> u64;
        fn multiply_and_add(rounds: i64) -> i64;
    }

    impl CxxVector<MlxArray> {}
}

use crate::array::HostBuffer;
