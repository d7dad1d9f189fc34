//! Calls in Python: `[f(a=1, b="x"), g()]`, and one a line.

use super::Flow;
use crate::literal::{Literal, Progress, Style, append_text};
use crate::matcher::{Expect, Expected, Symbol, is_space};
use crate::sink::Sink;
use crate::syntax::{CallBody, CallSyntax, List};

/// The longest name of a tool or an argument, in bytes.
const MAX_NAME: usize = 256;

#[derive(Debug)]
pub(crate) struct Calls {
    end: &'static str,
    list: List,
    state: State,
    expect: Expect,
    name: String,
    argument: String,
    arguments: usize,
    seen: bool,
}

#[derive(Debug)]
enum State {
    /// Expects the bracket of the list.
    Begin,
    /// Expects a call, or the end of the list after a comma.
    Item,
    Name,
    /// Expects an argument or the end of the call.
    Argument,
    ArgumentName,
    /// Expects the equals sign.
    Equals,
    Value(Literal),
    AfterValue,
    /// Expects a comma or the end of the list.
    AfterCall,
    Closing,
}

impl Calls {
    pub(crate) fn new(syntax: CallSyntax) -> Self {
        let list = match syntax.body {
            CallBody::Pythonic(body) => body.list,
            _ => List::Brackets,
        };
        Self {
            end: syntax.section.end.trim(),
            list,
            state: if list == List::Brackets { State::Begin } else { State::Item },
            expect: Expect::default(),
            name: String::new(),
            argument: String::new(),
            arguments: 0,
            seen: false,
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        match self.state {
            State::AfterCall | State::Closing => true,
            State::Item => self.seen,
            _ => false,
        }
    }

    pub(crate) fn feed(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match &mut self.state {
            State::Value(_) => return self.value(symbol, sink),
            State::Closing => return self.closing(symbol, sink),
            // Without brackets the calls end with the marker, which stands where another call would.
            State::Item | State::AfterCall if self.list == List::None && self.seen => match symbol {
                Symbol::Char(character) if is_name(character) && self.expect.is_idle() => {}
                _ => return self.closing(symbol, sink),
            },
            _ => {}
        }
        match symbol {
            Symbol::Char(character) => self.character(character, sink),
            Symbol::Control(_) => Flow::Leave,
        }
    }

    fn go(&mut self, state: State) -> Flow {
        self.state = state;
        Flow::More
    }

    fn character(&mut self, character: char, sink: &mut Sink) -> Flow {
        match (&self.state, character) {
            (State::Name, '(') => return self.begin_arguments(sink),
            (State::ArgumentName, '=') => return self.begin_value(sink),
            (State::Name | State::ArgumentName, _) if is_name(character) => return self.push_name(character),
            (State::ArgumentName, _) if is_space(character) => return self.go(State::Equals),
            (State::Name | State::ArgumentName, _) => return Flow::Leave,
            _ if is_space(character) => return Flow::More,
            _ => {}
        }
        match (&self.state, character) {
            (State::Begin, '[') => self.go(State::Item),
            (State::Item, ']') if self.seen => self.end_list(sink),
            (State::Item, _) | (State::AfterCall, _) if is_name(character) => {
                if matches!(self.state, State::AfterCall) && self.list == List::Brackets {
                    return Flow::Leave;
                }
                self.name.clear();
                self.state = State::Name;
                self.push_name(character)
            }
            (State::Argument, ')') => self.end_call(sink),
            (State::Argument, _) if is_name(character) => {
                self.argument.clear();
                self.state = State::ArgumentName;
                self.push_name(character)
            }
            (State::Equals, '=') => self.begin_value(sink),
            (State::AfterValue, ',') => self.go(State::Argument),
            (State::AfterValue, ')') => self.end_call(sink),
            (State::AfterCall, ',') => self.go(State::Item),
            (State::AfterCall, ']') => self.end_list(sink),
            _ => Flow::Leave,
        }
    }

    fn push_name(&mut self, character: char) -> Flow {
        let name = if matches!(self.state, State::Name) { &mut self.name } else { &mut self.argument };
        name.push(character);
        if name.len() > MAX_NAME { Flow::Leave } else { Flow::More }
    }

    fn begin_arguments(&mut self, sink: &Sink) -> Flow {
        if !sink.is_offered(&self.name) {
            return Flow::Leave;
        }
        self.arguments = 0;
        self.go(State::Argument)
    }

    /// The call starts with its first named argument, so that `f(x)` in prose is none.
    fn start(&mut self, sink: &mut Sink) {
        if !sink.is_in_call() {
            sink.start_call(None, &self.name);
            sink.arguments("{");
        }
    }

    fn begin_value(&mut self, sink: &mut Sink) -> Flow {
        self.start(sink);
        let mut out = String::new();
        if self.arguments > 0 {
            out.push(',');
        }
        self.arguments += 1;
        append_text(&self.argument, &mut out);
        out.push(':');
        sink.arguments(&out);
        self.go(State::Value(Literal::new(Style::Python)))
    }

    fn value(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let State::Value(literal) = &mut self.state else { return Flow::Leave };
        let mut out = String::new();
        let progress = literal.feed(symbol, &sink.strict, &mut out);
        sink.arguments(&out);
        match progress {
            Ok(Progress::More) => Flow::More,
            Ok(Progress::Done) => self.go(State::AfterValue),
            Ok(Progress::DoneBefore) => {
                self.state = State::AfterValue;
                self.feed(symbol, sink)
            }
            Err(_) => Flow::Leave,
        }
    }

    fn end_call(&mut self, sink: &mut Sink) -> Flow {
        self.start(sink);
        sink.arguments("}");
        sink.finish_call();
        self.seen = true;
        self.go(State::AfterCall)
    }

    fn end_list(&mut self, sink: &mut Sink) -> Flow {
        sink.settle();
        match self.end {
            "" => Flow::Done,
            _ => self.go(State::Closing),
        }
    }

    fn closing(&mut self, symbol: Symbol, sink: &Sink) -> Flow {
        match self.expect.feed(symbol, &[self.end], &sink.strict) {
            Expected::More => Flow::More,
            Expected::Found(_) => Flow::Done,
            Expected::Mismatch => Flow::Leave,
        }
    }
}

/// Names may have dots: of a module, or of a namespace of tools.
fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '-')
}
