//! The sampling chain on the host: all that [`SamplingParams`] can ask for, in the order that docs/sampling.md gives.
//!
//! A token is a function of a row's logits, the parameters, the sequence's earlier tokens, mirostat's state, and the
//! counter-based draws at the token's position. Nothing here knows a tensor, a clock or a generator with a state, so a
//! replay says the same. Where the device knows the parameters too, it draws the same token from the same logits.
//!
//! NaN counts as minus infinity: it is never chosen unless the row has nothing else, and then token 0 is.

mod adjust;
mod candidates;
mod chain;
mod dry;
mod exp;
mod filters;
mod history;
mod lanes;
mod logprobs;
mod mass;
mod mirostat;
mod temperature;

pub use chain::{Sampler, Scratch};
pub use history::BeyondVocabulary;

#[cfg(doc)]
use troupe_protocol::SamplingParams;
