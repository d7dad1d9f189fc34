//! Calls with an element for each argument.

use super::Flow;
use super::value::ValueText;
use crate::literal::append_text;
use crate::matcher::{Expect, Expected, Matcher, Symbol};
use crate::sink::Sink;
use crate::syntax::{CallSyntax, Parameters, Wrap};
use crate::tools::{Kind, Tool, parameter_kind};

/// The longest name, key or attribute, in bytes.
const MAX_NAME: usize = 256;

#[derive(Debug)]
pub(crate) struct Elements {
    syntax: CallSyntax,
    body: Parameters,
    state: State,
    expect: Expect,
    matcher: Matcher,
    text: String,
    tool: Option<Tool>,
    key: String,
    arguments: usize,
    seen: bool,
}

#[derive(Debug)]
enum State {
    /// Expects a call, or the end of the section.
    Between,
    /// Expects what stands ahead of the name.
    BeforeName,
    Name,
    NameAttributes,
    /// Expects the first argument, or the end.
    First,
    Key,
    TypeAttribute,
    /// Expects what stands ahead of a value.
    BeforeValue,
    Value(Value),
    /// All arguments were read; expects the end of the call.
    Closing,
}

#[derive(Debug)]
struct Value {
    text: ValueText,
    matcher: Matcher,
    /// Looks for the padding at the beginning, until there is none or it was read.
    opening: Option<Matcher>,
    ended: Option<Ended>,
}

/// A value seems to have ended. If no argument and no end of the call follows, it has not.
#[derive(Debug)]
struct Ended {
    by: &'static str,
    expect: Expect,
    since: Vec<Symbol>,
}

impl Elements {
    pub(crate) fn new(syntax: CallSyntax, body: Parameters, begin: &'static str) -> Self {
        let mut elements = Self {
            syntax,
            body,
            state: State::Between,
            expect: Expect::default(),
            matcher: Matcher::default(),
            text: String::new(),
            tool: None,
            key: String::new(),
            arguments: 0,
            seen: false,
        };
        if begin == syntax.call.begin.trim() {
            elements.begin_call();
        } else if begin == body.name.begin.trim() {
            elements.go(State::Name);
        }
        elements
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        match self.state {
            State::Between => self.seen,
            State::Closing => true,
            _ => false,
        }
    }

    fn begin_call(&mut self) -> Flow {
        self.arguments = 0;
        self.tool = None;
        self.text.clear();
        self.go(if self.body.name.begin.is_empty() { State::Name } else { State::BeforeName })
    }

    fn go(&mut self, state: State) -> Flow {
        self.state = state;
        Flow::More
    }

    /// What begins an argument, what ends the arguments, and the call's own end, in case a model forgets the former.
    fn argument_or_ends(&self) -> [&'static str; 3] {
        [self.body.key.begin.trim(), self.body.end.trim(), self.syntax.call.end.trim()]
    }

    pub(crate) fn feed(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match &mut self.state {
            State::Between => self.between(symbol, sink),
            State::BeforeName => {
                let begin = self.body.name.begin.trim();
                self.expected(symbol, &[begin], sink, |elements, _| elements.go(State::Name))
            }
            State::Name => self.name(symbol, sink),
            State::NameAttributes => {
                let end = self.body.name_attributes.unwrap_or_default();
                match self.taken(symbol, &[end], sink) {
                    Ok(None) => Flow::More,
                    Ok(Some(_)) => self.go(State::First),
                    Err(flow) => flow,
                }
            }
            State::First => {
                let markers = self.argument_or_ends();
                match self.expect.feed(symbol, &markers, &sink.strict) {
                    Expected::More => Flow::More,
                    Expected::Found(found) => self.start(found, sink),
                    Expected::Mismatch => Flow::Leave,
                }
            }
            State::Key => self.key(symbol, sink),
            State::TypeAttribute => self.type_attribute(symbol, sink),
            State::BeforeValue => {
                let begin = self.body.value.begin.trim();
                match self.expect.feed(symbol, &[begin], &sink.strict) {
                    Expected::More => Flow::More,
                    Expected::Found(_) => self.begin_value(None, sink),
                    Expected::Mismatch => Flow::Leave,
                }
            }
            State::Value(_) => self.value(symbol, sink),
            State::Closing => {
                let end = self.syntax.call.end.trim();
                self.expected(symbol, &[end], sink, |elements, _| elements.closed())
            }
        }
    }

    fn expected(
        &mut self,
        symbol: Symbol,
        markers: &[&'static str],
        sink: &mut Sink,
        found: impl FnOnce(&mut Self, &'static str) -> Flow,
    ) -> Flow {
        match self.expect.feed(symbol, markers, &sink.strict) {
            Expected::More => Flow::More,
            Expected::Found(marker) => {
                if matches!(self.state, State::Closing) {
                    sink.settle();
                }
                found(self, marker)
            }
            Expected::Mismatch => Flow::Leave,
        }
    }

    /// Collects text up to a marker, which is returned.
    fn taken(
        &mut self,
        symbol: Symbol,
        markers: &[&'static str],
        sink: &Sink,
    ) -> Result<Option<&'static str>, Flow> {
        let found = self.matcher.feed(symbol, markers, &sink.strict, &mut self.text);
        if self.text.len() > MAX_NAME { Err(Flow::Leave) } else { Ok(found) }
    }

    fn between(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let markers = [self.syntax.call.begin.trim(), self.syntax.section.end.trim()];
        let seen = self.seen;
        self.expected(symbol, &markers, sink, |elements, found| match found == markers[0] {
            true => elements.begin_call(),
            false if seen => Flow::Done,
            false => Flow::Leave,
        })
    }

    fn name(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let by_argument = self.argument_or_ends();
        let by_end = [self.body.name.end.trim()];
        let markers: &[&'static str] = if by_end[0].is_empty() { &by_argument } else { &by_end };
        let found = match self.taken(symbol, markers, sink) {
            Ok(None) => return Flow::More,
            Ok(Some(found)) => found,
            Err(flow) => return flow,
        };
        let name = std::mem::take(&mut self.text);
        self.tool = sink.tool(name.trim()).cloned();
        if self.tool.is_none() {
            return Flow::Leave;
        }
        match (by_end[0], self.body.name_attributes) {
            ("", _) => self.start(found, sink),
            (_, Some(_)) => self.go(State::NameAttributes),
            (_, None) => self.go(State::First),
        }
    }

    /// The name is known, and `found` is what begins the first argument or ends the call.
    fn start(&mut self, found: &'static str, sink: &mut Sink) -> Flow {
        let Some(tool) = &self.tool else { return Flow::Leave };
        sink.start_call(None, &tool.name);
        sink.arguments("{");
        self.argument_or_end(found, sink)
    }

    fn argument_or_end(&mut self, found: &'static str, sink: &mut Sink) -> Flow {
        self.text.clear();
        if found == self.body.key.begin.trim() {
            return self.go(State::Key);
        }
        sink.arguments("}");
        sink.finish_call();
        self.seen = true;
        match self.syntax.call.end.trim() {
            end if end.is_empty() || end == found => self.closed(),
            _ => self.go(State::Closing),
        }
    }

    fn closed(&mut self) -> Flow {
        match self.syntax.section.end {
            "" => Flow::Done,
            _ => self.go(State::Between),
        }
    }

    fn key(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match self.taken(symbol, &[self.body.key.end.trim()], sink) {
            Ok(None) => return Flow::More,
            Ok(Some(_)) => {}
            Err(flow) => return flow,
        }
        let key = std::mem::take(&mut self.text);
        key.trim().clone_into(&mut self.key);
        if self.body.type_attribute.is_some() {
            return self.go(State::TypeAttribute);
        }
        self.after_key(None, sink)
    }

    fn type_attribute(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let Some(attribute) = self.body.type_attribute else { return Flow::Leave };
        match self.taken(symbol, &[attribute.end], sink) {
            Ok(None) => return Flow::More,
            Ok(Some(_)) => {}
            Err(flow) => return flow,
        }
        let kind = if self.text == attribute.string { Kind::Text } else { Kind::Json };
        self.text.clear();
        self.after_key(Some(kind), sink)
    }

    fn after_key(&mut self, kind: Option<Kind>, sink: &mut Sink) -> Flow {
        match self.body.value.begin.trim() {
            "" => self.begin_value(kind, sink),
            _ => self.go(State::BeforeValue),
        }
    }

    fn begin_value(&mut self, kind: Option<Kind>, sink: &mut Sink) -> Flow {
        let schema = || self.tool.as_ref().map_or(Kind::Text, |tool| parameter_kind(tool, &self.key));
        let kind = kind.unwrap_or_else(schema);
        let mut out = String::new();
        if self.arguments > 0 {
            out.push(',');
        }
        self.arguments += 1;
        append_text(&self.key, &mut out);
        out.push(':');
        let text = ValueText::new(kind, &mut out);
        sink.arguments(&out);
        let opening = self.body.padding.map(|_| Matcher::default());
        self.go(State::Value(Value { text, matcher: Matcher::default(), opening, ended: None }))
    }

    fn value(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let next = self.argument_or_ends();
        let State::Value(value) = &mut self.state else { return Flow::Leave };
        let Some(ended) = &mut value.ended else {
            value.symbol(symbol, &self.body, sink);
            return Flow::More;
        };
        match ended.expect.feed(symbol, &next, &sink.strict) {
            Expected::More if ended.since.len() < MAX_NAME => {
                ended.since.push(symbol);
                Flow::More
            }
            Expected::Found(found) => self.end_value(found, sink),
            Expected::More | Expected::Mismatch => self.go_on(symbol, sink),
        }
    }

    /// What looked like the end of the value is part of it; what follows that is read once more.
    fn go_on(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let State::Value(value) = &mut self.state else { return Flow::Leave };
        let Some(ended) = value.ended.take() else { return Flow::Leave };
        value.push(ended.by, sink);
        for symbol in ended.since.into_iter().chain([symbol]) {
            match self.feed(symbol, sink) {
                Flow::More => {}
                flow => return flow,
            }
        }
        Flow::More
    }

    fn end_value(&mut self, found: &'static str, sink: &mut Sink) -> Flow {
        if let State::Value(value) = std::mem::replace(&mut self.state, State::First) {
            let mut out = String::new();
            value.text.finish(&mut out);
            sink.arguments(&out);
        }
        self.argument_or_end(found, sink)
    }
}

impl Value {
    fn symbol(&mut self, symbol: Symbol, body: &Parameters, sink: &mut Sink) {
        let padding = body.padding.unwrap_or(Wrap::NONE);
        let Some(mut opening) = self.opening.take() else {
            return self.inside(symbol, body.value.end.trim(), padding.end, sink);
        };
        let mut released = String::new();
        let found = opening.feed(symbol, &[padding.begin], &sink.strict, &mut released);
        if found.is_none() && released.is_empty() {
            self.opening = Some(opening);
        }
        for character in released.chars() {
            self.inside(Symbol::Char(character), body.value.end.trim(), padding.end, sink);
        }
    }

    fn inside(&mut self, symbol: Symbol, end: &'static str, padded_end: &'static str, sink: &mut Sink) {
        let mut released = String::new();
        let found = self.matcher.feed(symbol, &[padded_end, end], &sink.strict, &mut released);
        self.push(&released, sink);
        self.ended = found.map(|by| Ended { by, expect: Expect::default(), since: Vec::new() });
    }

    fn push(&mut self, text: &str, sink: &mut Sink) {
        let mut out = String::new();
        self.text.push(text, &mut out);
        sink.arguments(&out);
    }
}
