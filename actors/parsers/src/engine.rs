//! The state machines that read calls, one for each way of writing them.

mod braced;
mod harmony;
mod named;
mod object;
mod parameters;
mod pythonic;
mod value;

pub use value::MAX_HELD_VALUE;

pub(crate) use harmony::{Harmony, TOKENS as HARMONY_TOKENS};

use crate::matcher::Symbol;
use crate::sink::Sink;
use crate::syntax::{CallBody, CallSyntax};

/// What an engine says of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It was taken; there is more to come.
    More,
    /// It was taken, and the calls ended with it.
    Done,
    /// It does not belong to the call. If one has started it is malformed; all since the last call is text.
    Leave,
}

/// The engine of one run of calls.
#[derive(Debug)]
pub(crate) enum Engine {
    Object(Box<object::Object>),
    Named(Box<named::Named>),
    Parameters(Box<parameters::Elements>),
    Pythonic(Box<pythonic::Calls>),
    Braced(Box<braced::Braced>),
}

impl Engine {
    /// An engine that stands behind the marker `begin`, or, if that is empty, at the beginning of a bare call.
    pub(crate) fn new(syntax: CallSyntax, begin: &'static str) -> Self {
        match syntax.body {
            CallBody::JsonObject(body) => Self::Object(Box::new(object::Object::new(syntax, body, begin))),
            CallBody::NamedJson(body) => Self::Named(Box::new(named::Named::new(syntax, body, begin))),
            CallBody::Parameters(body) => {
                Self::Parameters(Box::new(parameters::Elements::new(syntax, body, begin)))
            }
            CallBody::Braced { quote } => Self::Braced(Box::new(braced::Braced::new(syntax, quote))),
            // Channels have a parser of their own.
            CallBody::Pythonic(_) | CallBody::Channels => {
                Self::Pythonic(Box::new(pythonic::Calls::new(syntax)))
            }
        }
    }

    pub(crate) fn feed(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match self {
            Self::Object(engine) => engine.feed(symbol, sink),
            Self::Named(engine) => engine.feed(symbol, sink),
            Self::Parameters(engine) => engine.feed(symbol, sink),
            Self::Pythonic(engine) => engine.feed(symbol, sink),
            Self::Braced(engine) => engine.feed(symbol, sink),
        }
    }

    /// Is a call finished and no other begun, so that the output may end here?
    pub(crate) fn is_at_rest(&self) -> bool {
        match self {
            Self::Object(engine) => engine.is_at_rest(),
            Self::Named(engine) => engine.is_at_rest(),
            Self::Parameters(engine) => engine.is_at_rest(),
            Self::Pythonic(engine) => engine.is_at_rest(),
            Self::Braced(engine) => engine.is_at_rest(),
        }
    }
}
