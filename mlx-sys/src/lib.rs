//! MLX for Rust: a safe handle to its arrays, its operations, and our own primitives.
//!
//! Everything is lazy: an operation builds a graph node, [`eval`] and [`async_eval`] compute. One thread makes, uses
//! and drops all arrays: MLX keeps command encoders and default streams thread-local, and [`Array`] is not `Send`.
//! There is one stream a thread, so operations run in the order in which they were submitted.
//!
//! The crate refuses to differentiate, to name streams, and to convert types silently.

mod array;
mod bridge;
mod dense;
mod device;
mod dtype;
mod error;
mod fast;
mod fused;
mod instruction_set;
pub mod limits;
pub mod memory;
mod ops;
mod packed;
mod paged;
mod pages_ahead;
pub mod profile;
mod projection;
mod sampling;

pub use array::{Array, async_eval, eval};
pub use dense::DensePanels;
pub use device::{
    CpuAffinity, Device, cpu_threads, default_device, set_cpu_affinity, set_cpu_threads, set_default_device,
    synchronize, version,
};
pub use dtype::{Dtype, Element};
pub use error::{Error, Result};
pub use fast::{
    Mask, Orientation, Packing, Quantized, Rope, RopeAngles, RopePairs, random_bits,
    scaled_dot_product_attention,
};
pub use fused::fuse;
pub use instruction_set::{instruction_set, instruction_sets, use_instruction_set};
pub use ops::{Axis, Scan, concatenate, stack};
pub use packed::{Activations, PackedMatrix};
pub use paged::{
    Columns, KvLayout, KvScales, KvSlabs, Projected, RaggedBatch, ScoreOptions, TokenAngles, Visibility,
    paged_attention,
};
pub use pages_ahead::PagesAhead;
pub use projection::{Around, Gate, Norm};
pub use sampling::{Choice, Drawing, Penalty, RowChoice, TokenLogprobs};
