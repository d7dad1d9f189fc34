//! Calls as a header that names the tool, and the arguments as a JSON object.

use super::Flow;
use crate::json::RawObject;
use crate::matcher::{Expect, Expected, Matcher, Symbol};
use crate::sink::Sink;
use crate::syntax::{CallSyntax, HeadField, NameForm, NamedJson};

/// The longest field of a header, in bytes.
const MAX_FIELD: usize = 256;

#[derive(Debug)]
pub(crate) struct Named {
    syntax: CallSyntax,
    body: NamedJson,
    state: State,
    expect: Expect,
    matcher: Matcher,
    text: String,
    id: Option<String>,
    name: String,
    seen: bool,
}

#[derive(Debug)]
enum State {
    /// Expects a call, or the end of the section.
    Between,
    /// In a field of the header.
    Head(usize),
    /// Expects what stands ahead of the arguments.
    Before,
    Arguments(RawObject),
    /// Expects what stands behind the arguments.
    After,
    /// Expects the end of the call.
    Closing,
}

impl Named {
    pub(crate) fn new(syntax: CallSyntax, body: NamedJson, begin: &'static str) -> Self {
        let state = if begin == syntax.call.begin.trim() { State::Head(0) } else { State::Between };
        Self {
            syntax,
            body,
            state,
            expect: Expect::default(),
            matcher: Matcher::default(),
            text: String::new(),
            id: None,
            name: String::new(),
            seen: false,
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        match self.state {
            State::Between => self.seen,
            State::After | State::Closing => true,
            State::Head(_) | State::Before | State::Arguments(_) => false,
        }
    }

    pub(crate) fn feed(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match &mut self.state {
            State::Between => {
                let markers = [self.syntax.call.begin.trim(), self.syntax.section.end.trim()];
                let begin = markers[0];
                let seen = self.seen;
                self.expected(symbol, &markers, sink, |engine, found| match found == begin {
                    true => engine.go(State::Head(0)),
                    false if seen => Flow::Done,
                    false => Flow::Leave,
                })
            }
            State::Head(field) => {
                let field = *field;
                self.head(field, symbol, sink)
            }
            State::Before => {
                let fence = self.body.arguments.begin.trim();
                self.expected(symbol, &[fence], sink, |engine, _| {
                    engine.go(State::Arguments(RawObject::default()))
                })
            }
            State::Arguments(_) => self.arguments(symbol, sink),
            State::After => {
                let fence = self.body.arguments.end.trim();
                self.expected(symbol, &[fence], sink, |engine, _| engine.close())
            }
            State::Closing => {
                let end = self.syntax.call.end.trim();
                self.expected(symbol, &[end], sink, |engine, _| engine.closed())
            }
        }
    }

    fn go(&mut self, state: State) -> Flow {
        self.state = state;
        Flow::More
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
                if matches!(self.state, State::After | State::Closing) {
                    sink.settle();
                }
                found(self, marker)
            }
            Expected::Mismatch => Flow::Leave,
        }
    }

    fn head(&mut self, field: usize, symbol: Symbol, sink: &mut Sink) -> Flow {
        let fields = self.body.head.get(field..).unwrap_or_default();
        // No name holds a brace: models leave the terminator out at times, and go straight on to the arguments.
        let is_name = fields.first().is_some_and(|(field, _)| *field == HeadField::Name);
        if is_name && symbol == Symbol::Char('{') && self.body.arguments.begin.is_empty() {
            self.end_field(field);
            return self.head_done(sink, Some(symbol));
        }
        let terminators: Vec<&'static str> =
            fields.iter().map(|(_, terminator)| terminator_of(terminator)).collect();
        let Some(found) = self.matcher.feed(symbol, &terminators, &sink.strict, &mut self.text) else {
            return if self.text.len() > MAX_FIELD { Flow::Leave } else { Flow::More };
        };
        let offset = terminators.iter().position(|terminator| *terminator == found).unwrap_or(0);
        if !self.end_field(field) {
            return Flow::Leave;
        }
        match field + offset + 1 {
            next if next < self.body.head.len() => self.go(State::Head(next)),
            _ => self.head_done(sink, None),
        }
    }

    /// Keeps what the field said; false if it must not say that.
    fn end_field(&mut self, field: usize) -> bool {
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        match self.body.head.get(field) {
            Some((HeadField::Name, _)) => text.clone_into(&mut self.name),
            Some((HeadField::Id, _)) => self.id = Some(text.to_owned()).filter(|id| !id.is_empty()),
            Some((HeadField::Constant(word), _)) => return text == *word,
            None => {}
        }
        true
    }

    fn head_done(&mut self, sink: &mut Sink, first: Option<Symbol>) -> Flow {
        if self.body.name == NameForm::Numbered {
            let whole = std::mem::take(&mut self.name);
            plain_name(&whole).clone_into(&mut self.name);
            self.id = Some(whole);
        }
        if !sink.is_offered(&self.name) {
            return Flow::Leave;
        }
        if !self.body.arguments.begin.is_empty() {
            return self.go(State::Before);
        }
        self.state = State::Arguments(RawObject::default());
        first.map_or(Flow::More, |symbol| self.arguments(symbol, sink))
    }

    fn arguments(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        let State::Arguments(object) = &mut self.state else { return Flow::Leave };
        let (mut spelling, mut raw, mut done) = (String::new(), String::new(), false);
        symbol.append_to(&mut spelling);
        for character in spelling.chars() {
            match object.feed(character, &mut raw) {
                Ok(is_done) => done |= is_done,
                Err(_) => return Flow::Leave,
            }
        }
        if !raw.is_empty() && !sink.is_in_call() {
            sink.start_call(self.id.take(), &self.name);
        }
        sink.arguments(&raw);
        if !done {
            return Flow::More;
        }
        sink.finish_call();
        self.seen = true;
        match self.body.arguments.end {
            "" => self.close(),
            _ => self.go(State::After),
        }
    }

    fn close(&mut self) -> Flow {
        match self.syntax.call.end.trim() {
            "" => self.closed(),
            _ => self.go(State::Closing),
        }
    }

    fn closed(&mut self) -> Flow {
        match self.syntax.section.end {
            "" => Flow::Done,
            _ => self.go(State::Between),
        }
    }
}

/// A terminator without the whitespace around it, unless it is nothing else.
fn terminator_of(terminator: &'static str) -> &'static str {
    match terminator.trim() {
        "" => terminator,
        trimmed => trimmed,
    }
}

/// `name` of `functions.name:3`.
fn plain_name(whole: &str) -> &str {
    let name = whole.strip_prefix("functions.").unwrap_or(whole);
    match name.rsplit_once(':') {
        Some((name, number)) if number.chars().all(|digit| digit.is_ascii_digit()) => name,
        _ => name,
    }
}
