//! Building blocks that families share. Each computes; which are used, and in what order, is the family's affair.

mod attention;
mod embedding;
mod linear;
mod mlp;
mod norm;
mod rope;

pub use attention::attend;
pub use embedding::Embedding;
pub use linear::{Linear, Matrix, Projections};
pub use mlp::GatedMlp;
pub use norm::RmsNorm;
pub use rope::{Angles, Rope, context_limit, length_classes};
