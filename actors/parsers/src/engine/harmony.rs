//! Messages with channels and recipients: reasoning, content and calls are messages of their own.

use std::collections::VecDeque;

use crate::event::{Broken, Ending};
use crate::json::RawObject;
use crate::matcher::{Matcher, Symbol, is_space};
use crate::parser::Start;
use crate::sink::{Section, Sink, spell};

const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>";
const END: &str = "<|end|>";
const CALL: &str = "<|call|>";
const RETURN: &str = "<|return|>";
const CONSTRAIN: &str = "<|constrain|>";

/// All markers of the format.
pub(crate) const TOKENS: &[&str] = &[CHANNEL, MESSAGE, START, END, CALL, RETURN, CONSTRAIN];

/// What ends a message. A model that forgets to end one begins the next.
const MESSAGE_ENDS: &[&str] = &[END, CALL, RETURN, START];

/// The longest header, in symbols. A longer one is content.
const MAX_HEADER: usize = 512;

/// The parser of such an output, which begins behind `<|start|>assistant`.
#[derive(Debug)]
pub(crate) struct Harmony {
    state: State,
    matcher: Matcher,
    /// The header, and what followed it until a call started.
    held: Vec<Symbol>,
}

#[derive(Debug)]
enum State {
    /// In a message's header, of which this is the text.
    Header(String),
    /// Between two messages, or behind the arguments of a call.
    Between,
    Text,
    /// In the arguments of a call.
    Call(Call),
}

#[derive(Debug)]
struct Call {
    name: String,
    object: RawObject,
}

impl Harmony {
    pub(crate) fn new(start: Start) -> Self {
        let state = match start {
            Start::Message => State::Header(String::new()),
            Start::Reasoning => State::Text,
        };
        Self { state, matcher: Matcher::default(), held: Vec::new() }
    }

    pub(crate) fn feed(&mut self, symbol: Symbol, sink: &mut Sink, queue: &mut VecDeque<Symbol>) {
        match &mut self.state {
            State::Header(_) => self.header(symbol, sink, queue),
            State::Between => self.between(symbol, sink),
            State::Text => self.text(symbol, sink),
            State::Call(_) => self.call(symbol, sink, queue),
        }
    }

    pub(crate) fn finish(&mut self, sink: &mut Sink) -> Ending {
        if let Some(index) = sink.break_call(Broken::CutOff) {
            return Ending::InCall { index };
        }
        let mut released = String::new();
        self.matcher.release(&mut released);
        match &self.state {
            State::Header(header) if !header.trim_start().starts_with("to=") && !has_marker(&self.held) => {
                sink.section = Section::Content;
                sink.text(&spell(&self.held));
                Ending::Complete
            }
            State::Header(_) | State::Call(_) => Ending::InCallHead { text: spell(&self.held) },
            State::Between => Ending::Complete,
            State::Text => {
                sink.text(&released);
                match sink.section {
                    Section::Content => Ending::Complete,
                    Section::Reasoning => Ending::InReasoning,
                }
            }
        }
    }

    fn header(&mut self, symbol: Symbol, sink: &mut Sink, queue: &mut VecDeque<Symbol>) {
        let State::Header(header) = &mut self.state else { return };
        self.held.push(symbol);
        let found = self.matcher.feed(symbol, TOKENS, &sink.strict, header);
        match found {
            Some(MESSAGE) => return self.message(sink),
            Some(CHANNEL | CONSTRAIN) => header.push_str(found.unwrap_or_default()),
            Some(_) => return self.give_up(sink, queue),
            None => {}
        }
        let State::Header(header) = &self.state else { return };
        let is_header = looks_like_header(header);
        if !is_header || self.held.len() > MAX_HEADER {
            self.give_up(sink, queue);
        }
    }

    /// The header is none: all of it is content, in which the next message may begin.
    fn give_up(&mut self, sink: &mut Sink, queue: &mut VecDeque<Symbol>) {
        self.matcher = Matcher::default();
        self.state = State::Text;
        sink.section = Section::Content;
        let mut held = std::mem::take(&mut self.held);
        // The token that began the header would begin it again.
        for marker in [vec![Symbol::Control(START)], START.chars().map(Symbol::Char).collect()] {
            if held.starts_with(&marker) {
                sink.text(START);
                held.drain(..marker.len());
            }
        }
        held.into_iter().rev().for_each(|symbol| queue.push_front(symbol));
    }

    /// The header is whole.
    fn message(&mut self, sink: &mut Sink) {
        let State::Header(header) = &self.state else { return };
        let header = Header::read(header);
        let section = if header.channel == "analysis" { Section::Reasoning } else { Section::Content };
        sink.section = section;
        match header.recipient {
            None => {
                self.held.clear();
                self.state = State::Text;
            }
            Some(recipient) => {
                let name = recipient.strip_prefix("functions.").unwrap_or(&recipient);
                if sink.is_offered(name) {
                    self.state = State::Call(Call { name: name.to_owned(), object: RawObject::default() });
                } else {
                    sink.text(&spell(&std::mem::take(&mut self.held)));
                    self.state = State::Text;
                }
            }
        }
    }

    fn between(&mut self, symbol: Symbol, sink: &mut Sink) {
        let mut released = String::new();
        let found = self.matcher.feed(symbol, TOKENS, &sink.strict, &mut released);
        if released.contains(|character| !is_space(character)) {
            sink.section = Section::Content;
            sink.text(&released);
            self.state = State::Text;
        }
        match found {
            Some(START) => self.begin_header(symbol_of(START, symbol)),
            Some(CHANNEL) => {
                self.begin_header(symbol_of(CHANNEL, symbol));
                self.state = State::Header(CHANNEL.to_owned());
            }
            _ => {}
        }
    }

    fn begin_header(&mut self, held: Vec<Symbol>) {
        self.held = held;
        self.state = State::Header(String::new());
    }

    fn text(&mut self, symbol: Symbol, sink: &mut Sink) {
        let mut released = String::new();
        let found = self.matcher.feed(symbol, MESSAGE_ENDS, &sink.strict, &mut released);
        sink.text(&released);
        match found {
            Some(START) => self.begin_header(symbol_of(START, symbol)),
            Some(_) => self.state = State::Between,
            None => {}
        }
    }

    fn call(&mut self, symbol: Symbol, sink: &mut Sink, queue: &mut VecDeque<Symbol>) {
        let State::Call(call) = &mut self.state else { return };
        let mut raw = String::new();
        let fed = match symbol {
            Symbol::Char(character) => call.object.feed(character, &mut raw).ok(),
            Symbol::Control(_) => None,
        };
        let Some(done) = fed else {
            if sink.break_call(Broken::Malformed).is_none() {
                sink.text(&spell(&std::mem::take(&mut self.held)));
            }
            self.state = State::Text;
            queue.push_front(symbol);
            return;
        };
        // In a call nothing but the escape of a character is held back, which its arguments do.
        if raw.is_empty() && !sink.is_in_call() {
            self.held.push(symbol);
            if self.held.len() > 2 * MAX_HEADER {
                sink.text(&spell(&std::mem::take(&mut self.held)));
                self.state = State::Text;
            }
            return;
        }
        if !sink.is_in_call() {
            self.held.clear();
            sink.start_call(None, &call.name);
        }
        sink.arguments(&raw);
        if done {
            sink.finish_call();
            self.state = State::Between;
        }
    }
}

/// The symbols of a marker that ended with `last`.
fn symbol_of(marker: &'static str, last: Symbol) -> Vec<Symbol> {
    match last {
        Symbol::Control(_) => vec![Symbol::Control(marker)],
        Symbol::Char(_) => marker.chars().map(Symbol::Char).collect(),
    }
}

fn has_marker(held: &[Symbol]) -> bool {
    let text = spell(held);
    TOKENS.iter().any(|token| text.contains(token))
}

/// A header begins with the role, a recipient or a channel.
fn looks_like_header(header: &str) -> bool {
    let rest = header.trim_start();
    let rest = rest.strip_prefix("assistant").map_or(rest, str::trim_start);
    let begins = |with: &str| rest.starts_with(with) || with.starts_with(rest);
    begins("to=") || begins(CHANNEL) || "assistant".starts_with(rest)
}

/// What a header says.
struct Header {
    channel: String,
    recipient: Option<String>,
}

impl Header {
    fn read(header: &str) -> Self {
        let channel = header.split_once(CHANNEL).map_or("", |(_, channel)| channel);
        let word_ends = |character: char| character.is_whitespace() || character == '<';
        let word = |text: &str| text.split(word_ends).next().unwrap_or_default().to_owned();
        let recipient = header.split_once("to=").map(|(_, recipient)| word(recipient));
        Self { channel: word(channel.trim_start()), recipient }
    }
}
