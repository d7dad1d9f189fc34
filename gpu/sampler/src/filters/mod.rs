//! Filters that drop candidates. Equal logits are kept or dropped together, and one candidate is always left.

mod min_p;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical_p;
mod xtc;

pub(crate) use min_p::min_p;
pub(crate) use top_k::top_k;
pub(crate) use top_n_sigma::top_n_sigma;
pub(crate) use top_p::top_p;
pub(crate) use typical_p::typical_p;
pub(crate) use xtc::xtc;
