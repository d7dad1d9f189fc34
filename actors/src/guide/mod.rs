//! Structured output: an answer is held to a grammar, token by token.
//!
//! A [`Grammar`] is what a client asked for, within stated limits. It is compiled against the model's [`Vocabulary`] on the
//! tokenizer's threads, before anything is generated; what cannot be compiled, or only in part, is refused. The [`Guide`]
//! of a sequence then says which tokens may come next. Grammars, lexers and token tries are llguidance's; nothing of it is
//! known outside this module. Which field of a request a grammar came in is not known here.

mod compile;
mod error;
mod grammar;
mod schema;
mod sequence;
mod vocabulary;

pub use compile::CompileGrammar;
pub use error::{GrammarError, GuideError};
pub use grammar::{Grammar, MAX_CHOICES, MAX_GRAMMAR_BYTES};
pub(crate) use schema::compact;
pub use schema::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_REFERENCES};
pub use sequence::{Guide, Progress};
pub use vocabulary::Vocabulary;

#[cfg(test)]
mod tests;
