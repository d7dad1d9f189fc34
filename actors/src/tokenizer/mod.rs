//! Tokenizers: text to ids, ids to bytes, streams of ids to streams of text.
//!
//! [`Tokenizer`] is immutable and shared; it wraps the `tokenizers` crate, built from a `tokenizer.json` or from the
//! lists of a GGUF file. [`Detokenizer`] and [`StopMatcher`] hold the state of one stream. Nothing here renders
//! templates or reads weights, and nothing guesses: a pre-tokeniser that is not known is refused by name.

mod alphabet;
mod core;
mod detokenizer;
mod encode;
mod error;
mod fill_in;
mod gguf;
mod load;
mod pre_tokenizer;
mod sentencepiece;
mod stop;

pub use self::core::{AddSpecial, ParseSpecial, SpecialText, Tokenizer};
pub use detokenizer::Detokenizer;
pub use error::TokenizerError;
pub use fill_in::FillIn;
pub use stop::{StopMatcher, StopOutcome};
