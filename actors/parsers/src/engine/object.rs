//! Calls as JSON objects: alone, in a list, or one after the other.

use super::Flow;
use crate::json::{Mark, NotJson, Part, RawObject, RawText, Scanner};
use crate::matcher::{Expect, Expected, Symbol};
use crate::sink::Sink;
use crate::syntax::{CallSyntax, JsonName, JsonObject};

/// Longer keys are none of ours. In bytes.
const MAX_KEY: usize = 256;

#[derive(Debug)]
pub(crate) struct Object {
    syntax: CallSyntax,
    body: JsonObject,
    begin: &'static str,
    state: State,
    expect: Expect,
}

#[derive(Debug)]
enum State {
    /// Before the first object, or between two.
    Items {
        in_list: bool,
        seen: bool,
    },
    Inside {
        in_list: bool,
        envelope: Box<Envelope>,
    },
    /// All objects were read; the marker at the end is missing.
    Closing,
}

impl Object {
    pub(crate) fn new(syntax: CallSyntax, body: JsonObject, begin: &'static str) -> Self {
        let state = State::Items { in_list: false, seen: false };
        Self { syntax, body, begin, state, expect: Expect::default() }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        match &self.state {
            State::Items { seen, .. } => *seen,
            State::Inside { envelope, .. } => envelope.progress == Progress::Finished,
            State::Closing => true,
        }
    }

    /// The marker that ends what the begin opened.
    fn end(&self) -> &'static str {
        let outer = self.begin == self.syntax.section.begin.trim() && !self.begin.is_empty();
        let wrap = if outer { self.syntax.section } else { self.syntax.call };
        if self.begin.is_empty() { "" } else { wrap.end.trim() }
    }

    pub(crate) fn feed(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match &mut self.state {
            State::Items { in_list, seen } => {
                let (in_list, seen) = (*in_list, *seen);
                self.item(symbol, sink, in_list, seen)
            }
            State::Inside { in_list, envelope } => {
                let in_list = *in_list;
                match envelope.feed(symbol, sink) {
                    Ok(false) => Flow::More,
                    Ok(true) => {
                        sink.settle();
                        self.after_object(in_list)
                    }
                    // The arguments are whole: a model that forgets a brace behind them has still made its call.
                    Err(NotJson) if envelope.progress == Progress::Finished => {
                        self.after_object(in_list);
                        self.feed(symbol, sink)
                    }
                    Err(NotJson) => Flow::Leave,
                }
            }
            State::Closing => self.closing(symbol, sink),
        }
    }

    fn item(&mut self, symbol: Symbol, sink: &mut Sink, in_list: bool, seen: bool) -> Flow {
        match symbol {
            _ if symbol.is_whitespace() => {}
            Symbol::Char('{') => {
                let mut envelope = Envelope::new(self.body, self.begin.is_empty());
                if envelope.feed(symbol, sink).is_err() {
                    return Flow::Leave;
                }
                self.state = State::Inside { in_list, envelope: Box::new(envelope) };
            }
            Symbol::Char('[') if !in_list && !seen => self.state = State::Items { in_list: true, seen },
            Symbol::Char(',') if in_list && seen => {}
            Symbol::Char(';') if !in_list && seen => {}
            // One brace too many, if the end follows.
            Symbol::Char('}') if !in_list && seen && !self.end().is_empty() => {}
            Symbol::Char(']') if in_list && seen => return self.after_list(sink),
            _ if seen && !in_list && !self.end().is_empty() => {
                self.state = State::Closing;
                return self.closing(symbol, sink);
            }
            _ => return Flow::Leave,
        }
        Flow::More
    }

    fn after_object(&mut self, in_list: bool) -> Flow {
        self.state = State::Items { in_list, seen: true };
        Flow::More
    }

    fn after_list(&mut self, sink: &mut Sink) -> Flow {
        sink.settle();
        if self.end().is_empty() {
            return Flow::Done;
        }
        self.state = State::Closing;
        Flow::More
    }

    fn closing(&mut self, symbol: Symbol, sink: &mut Sink) -> Flow {
        match self.expect.feed(symbol, &[self.end()], &sink.strict) {
            Expected::More => Flow::More,
            Expected::Found(_) => Flow::Done,
            Expected::Mismatch => Flow::Leave,
        }
    }
}

/// One object that names a tool and holds its arguments.
#[derive(Debug)]
struct Envelope {
    body: JsonObject,
    is_bare: bool,
    scanner: Scanner,
    key: String,
    value: Value,
    name: Option<String>,
    id: Option<String>,
    /// Arguments that came ahead of the name. Held back with the head, so bounded with it.
    early: String,
    progress: Progress,
}

/// The value that is being read at the top of the object.
#[derive(Debug)]
enum Value {
    None,
    Name(String),
    Id(String),
    Arguments(RawText),
    /// Arguments in a string of JSON.
    Encoded(RawObject),
    /// `null`, which stands for no arguments.
    Null,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    NoArguments,
    /// There are some, but no name yet.
    Early,
    Started,
    /// The arguments are whole.
    Finished,
}

impl Envelope {
    fn new(body: JsonObject, is_bare: bool) -> Self {
        Self {
            body,
            is_bare,
            scanner: Scanner::default(),
            key: String::new(),
            value: Value::None,
            name: None,
            id: None,
            early: String::new(),
            progress: Progress::NoArguments,
        }
    }

    /// Takes a symbol; true once the object is whole.
    fn feed(&mut self, symbol: Symbol, sink: &mut Sink) -> Result<bool, NotJson> {
        let Symbol::Char(character) = symbol else { return self.feed_spelling(symbol, sink) };
        let before = self.scanner.depth();
        let mark = self.scanner.feed(character)?;
        let at_top = before.min(self.scanner.depth()) == 1;
        match mark {
            Mark::Close if self.scanner.depth() == 0 => return self.end(sink).map(|()| true),
            Mark::Key(part) if at_top => self.top_key(part, sink)?,
            Mark::Between if at_top => self.value = Value::None,
            _ if before >= 1 => self.value(character, mark, at_top, sink)?,
            _ => {}
        }
        Ok(false)
    }

    /// A control token that is a marker elsewhere may be mere text in a string.
    fn feed_spelling(&mut self, symbol: Symbol, sink: &mut Sink) -> Result<bool, NotJson> {
        let Symbol::Control(spelling) = symbol else { return Err(NotJson) };
        for character in spelling.chars() {
            self.feed(Symbol::Char(character), sink)?;
        }
        Ok(false)
    }

    fn top_key(&mut self, part: Part, sink: &Sink) -> Result<(), NotJson> {
        match part {
            Part::Begin => self.key.clear(),
            Part::Inside if self.key.len() <= MAX_KEY => self.key.push_str(self.scanner.decoded()),
            Part::Inside => {}
            Part::End => {
                self.key.push_str(self.scanner.decoded());
                if self.body.name == JsonName::IsKey {
                    self.set_name(self.key.clone(), sink)?;
                } else if self.is_bare && !self.body.knows(&self.key) {
                    // A JSON answer is not held back for a name that may still come.
                    return Err(NotJson);
                }
            }
        }
        Ok(())
    }

    fn set_name(&mut self, name: String, sink: &Sink) -> Result<(), NotJson> {
        if self.name.is_some() || !sink.is_offered(&name) {
            return Err(NotJson);
        }
        self.name = Some(name);
        Ok(())
    }

    /// A character of a value; `at_top` if it is the value's first or last, or all of it stands at the top.
    fn value(&mut self, character: char, mark: Mark, at_top: bool, sink: &mut Sink) -> Result<(), NotJson> {
        if matches!(self.value, Value::None) {
            self.value = self.begin_value(character, mark)?;
            if matches!(self.value, Value::Arguments(_)) {
                self.arguments(character, mark, sink);
            }
            return Ok(());
        }
        let ended = at_top && matches!(mark, Mark::Close | Mark::Text(Part::End));
        match &mut self.value {
            Value::Arguments(_) => self.arguments(character, mark, sink),
            Value::Encoded(_) => self.encoded(ended, sink)?,
            Value::Name(text) | Value::Id(text) => text.push_str(self.scanner.decoded()),
            Value::None | Value::Null | Value::Other => {}
        }
        if !ended {
            return Ok(());
        }
        match std::mem::replace(&mut self.value, Value::Other) {
            Value::Name(name) => {
                self.set_name(name, sink)?;
                // Arguments that came ahead of the name are whole.
                self.start_if_ready(sink);
                self.finish_if_started(sink);
            }
            Value::Id(id) => self.id = Some(id).filter(|id| !id.is_empty()),
            Value::Arguments(_) | Value::Encoded(_) => self.finish_if_started(sink),
            Value::None | Value::Null | Value::Other => {}
        }
        Ok(())
    }

    fn begin_value(&self, character: char, mark: Mark) -> Result<Value, NotJson> {
        let key = self.key.as_str();
        let is_text = mark == Mark::Text(Part::Begin);
        let (is_name, is_arguments) = match self.body.name {
            JsonName::Under { name_key, .. } => (key == name_key, self.body.is_arguments(key)),
            JsonName::IsKey => (false, true),
        };
        Ok(match character {
            _ if is_name && self.name.is_none() && is_text => Value::Name(String::new()),
            _ if is_name => return Err(NotJson),
            _ if is_arguments && self.progress != Progress::NoArguments => Value::Other,
            '{' if is_arguments => Value::Arguments(RawText::default()),
            'n' if is_arguments => Value::Null,
            _ if is_arguments && is_text => Value::Encoded(RawObject::default()),
            _ if is_arguments => return Err(NotJson),
            _ if Some(key) == self.body.id_key && is_text => Value::Id(String::new()),
            _ => Value::Other,
        })
    }

    fn arguments(&mut self, character: char, mark: Mark, sink: &mut Sink) {
        let Value::Arguments(text) = &mut self.value else { return };
        let mut raw = String::new();
        text.feed(character, mark, &mut raw);
        self.pass_on(&raw, sink);
    }

    fn encoded(&mut self, ended: bool, sink: &mut Sink) -> Result<(), NotJson> {
        let Value::Encoded(object) = &mut self.value else { return Ok(()) };
        let mut raw = String::new();
        for character in self.scanner.decoded().chars() {
            object.feed(character, &mut raw)?;
        }
        // An empty string stands for no arguments.
        let is_empty = raw.is_empty() && self.progress == Progress::NoArguments;
        if ended && !object.is_done() && !is_empty {
            return Err(NotJson);
        }
        if !raw.is_empty() {
            self.pass_on(&raw, sink);
        }
        Ok(())
    }

    fn pass_on(&mut self, raw: &str, sink: &mut Sink) {
        if self.progress == Progress::NoArguments {
            self.progress = Progress::Early;
        }
        self.start_if_ready(sink);
        match self.progress {
            Progress::Started => sink.arguments(raw),
            _ => self.early.push_str(raw),
        }
    }

    fn start_if_ready(&mut self, sink: &mut Sink) {
        let Some(name) = self.name.as_deref().filter(|_| self.progress == Progress::Early) else { return };
        self.progress = Progress::Started;
        sink.start_call(self.id.take(), name);
        sink.arguments(&std::mem::take(&mut self.early));
    }

    fn finish_if_started(&mut self, sink: &mut Sink) {
        if self.progress == Progress::Started {
            self.progress = Progress::Finished;
            sink.finish_call();
        }
    }

    /// The object is whole.
    fn end(&mut self, sink: &mut Sink) -> Result<(), NotJson> {
        if self.progress == Progress::NoArguments {
            // A name alone is a call without arguments, where a marker says that it is a call.
            if self.is_bare || self.name.is_none() {
                return Err(NotJson);
            }
            self.pass_on("{}", sink);
            self.finish_if_started(sink);
        }
        if self.progress == Progress::Finished { Ok(()) } else { Err(NotJson) }
    }
}
