//! Parsers of what a model generates: reasoning, content and tool calls, as a stream of typed events.
//!
//! A [`Parser`] takes the output with its control tokens kept, in pieces of any size, and says what it holds
//! ([`Event`]). What comes out depends on the text alone, never on how it was cut into pieces: a parser reads one
//! character after the other. What only looks like a call is content, unchanged; whitespace beside a marker of a call or
//! of a reasoning section is syntax and no text, but for one run of it between two parts of the content. No input makes a parser panic. What it holds back is bounded by
//! [`MAX_HELD_HEAD`], [`MAX_HELD_SPACE`], [`MAX_HELD_VALUE`] and the longest marker; what is longer is passed on as text.
//!
//! Which [`Format`] a model writes is told from its chat template. The crate does no input or output, knows no
//! tokenizer and no wire format, and does not check arguments against their schemas.

mod detect;
mod engine;
mod event;
mod format;
mod json;
mod literal;
mod matcher;
mod parser;
mod reasoning;
mod sink;
mod syntax;
mod tools;

pub use engine::MAX_HELD_VALUE;
pub use event::{Broken, Ending, Event, Piece};
pub use format::Format;
pub use parser::{CallPlace, MAX_HELD_HEAD, Parser, Setup, Start};
pub use reasoning::Reasoning;
pub use sink::MAX_HELD_SPACE;
pub use syntax::{
    CallBody, CallSyntax, HeadField, JsonName, JsonObject, List, NameForm, NamedJson, Parameters, Pythonic,
    TypeAttribute, Wrap,
};
pub use tools::Tool;
