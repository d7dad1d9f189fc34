//! Calls as `call:name{key:value}`.

use super::Flow;
use crate::literal::{Literal, Progress, Style};
use crate::matcher::{Expect, Expected, Symbol};
use crate::sink::Sink;
use crate::syntax::CallSyntax;

/// The longest name, in bytes.
const MAX_NAME: usize = 256;

#[derive(Debug)]
pub(crate) struct Braced {
    syntax: CallSyntax,
    style: Style,
    state: State,
    expect: Expect,
    name: String,
}

#[derive(Debug)]
enum State {
    /// Expects `call:`.
    Begin,
    Name,
    Arguments(Literal),
    Closing,
}

impl Braced {
    pub(crate) fn new(syntax: CallSyntax, quote: &'static str) -> Self {
        Self {
            syntax,
            style: Style::Braced { quote },
            state: State::Begin,
            expect: Expect::default(),
            name: String::new(),
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Closing)
    }

    pub(crate) fn feed(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match &mut self.state {
            State::Begin => match self.expect.feed(symbol, &["call:"], &sink.strict) {
                Expected::More => Flow::More,
                Expected::Found(_) => self.go(State::Name),
                Expected::Mismatch => Flow::Leave,
            },
            State::Name if symbol == Symbol::Char('{') => {
                if !sink.is_offered(self.name.trim()) {
                    return Flow::Leave;
                }
                sink.start_call(None, self.name.trim());
                self.state = State::Arguments(Literal::new(self.style));
                self.arguments(symbol, sink)
            }
            State::Name => {
                symbol.append_to(&mut self.name);
                if self.name.len() > MAX_NAME { Flow::Leave } else { Flow::More }
            }
            State::Arguments(_) => self.arguments(symbol, sink),
            State::Closing => match self.expect.feed(symbol, &[self.syntax.call.end.trim()], &sink.strict) {
                Expected::More => Flow::More,
                Expected::Found(_) => Flow::Done,
                Expected::Mismatch => Flow::Leave,
            },
        }
    }

    fn go(&mut self, state: State) -> Flow {
        self.state = state;
        Flow::More
    }

    fn arguments(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let State::Arguments(literal) = &mut self.state else { return Flow::Leave };
        let mut out = String::new();
        let progress = literal.feed(symbol, &sink.strict, &mut out);
        sink.arguments(&out);
        match progress {
            Ok(Progress::More) => Flow::More,
            Ok(Progress::Done) => {
                sink.finish_call();
                self.go(State::Closing)
            }
            Ok(Progress::DoneBefore) | Err(_) => Flow::Leave,
        }
    }
}
