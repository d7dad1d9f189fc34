//! The parser: text between calls, and what hands symbols to a call's engine.

use std::collections::VecDeque;

use crate::engine::{Engine, Flow, Harmony};
use crate::event::{Broken, Ending, Event, Piece};
use crate::format::Format;
use crate::matcher::{Matcher, Strict, Symbol};
use crate::reasoning::Reasoning;
use crate::sink::{Section, Sink, Space, spell};
use crate::syntax::{CallBody, CallSyntax};
use crate::tools::Tool;

/// A call's head, from its first marker to where it is clear that it is a call, is held back up to this many
/// characters. A longer one is content.
pub const MAX_HELD_HEAD: usize = 4096;

/// What a parser is made for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// How calls are written; none are looked for without.
    pub format: Option<Format>,
    /// How reasoning is marked; none is looked for without.
    pub reasoning: Option<Reasoning>,
    /// Where the output begins.
    pub start: Start,
    /// The offered tools; calls are looked for only if there are any.
    pub tools: Vec<Tool>,
    /// Where calls may stand.
    pub place: CallPlace,
    /// The spellings of the vocabulary's control tokens. A marker among them counts only as [`Piece::Control`].
    pub control: Vec<String>,
}

/// Where the output begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the beginning of the assistant's message.
    #[default]
    Message,
    /// Inside a reasoning section that the prompt opened. As [`Start::Message`] for a model that marks no reasoning.
    Reasoning,
}

/// Where calls may stand in an answer. In a format of channels each stands in a message of its own, wherever that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallPlace {
    /// Anywhere.
    #[default]
    Anywhere,
    /// At the beginning of the content, and behind another. For an answer that is either calls or something else, in which
    /// what looks like a call is none.
    Start,
    /// The same, of calls that begin with a marker.
    MarkedStart,
}

/// Turns a model's output into events. One for each answer.
#[derive(Debug)]
pub struct Parser {
    sink: Sink,
    /// Symbols that a failed call gave back, and the next to read. At most [`MAX_HELD_HEAD`] and one.
    queue: VecDeque<Symbol>,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    Tagged(Box<Tagged>),
    Channels(Box<Harmony>),
}

/// Text with markers in it.
#[derive(Debug)]
struct Tagged {
    syntax: Option<CallSyntax>,
    reasoning: Option<Reasoning>,
    silent: &'static [&'static str],
    place: CallPlace,
    matcher: Matcher,
    in_content: Vec<&'static str>,
    /// The same where no call may begin.
    behind_content: Vec<&'static str>,
    /// What ends calls, looked for in content behind a broken one.
    ends: Vec<&'static str>,
    is_behind_broken: bool,
    /// The section of reasoning was closed for the model, which may yet close it itself.
    expects_close: bool,
    in_reasoning: Vec<&'static str>,
    call: Option<Call>,
}

/// A call, or what may become one.
#[derive(Debug)]
struct Call {
    engine: Engine,
    /// What was read since the candidate or the text after the last call began.
    held: Vec<Symbol>,
    /// So many of the held symbols are the marker that began the candidate; they are not looked at again.
    marker: usize,
    begun: Begun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Bare,
    Marked,
}

impl Parser {
    /// A parser at the beginning of an answer.
    pub fn new(setup: Setup) -> Self {
        let Setup { format, reasoning, start, tools, place, control } = setup;
        let is_control = |marker: &&'static str| control.iter().any(|token| token == marker);
        let syntax = format.map(Format::call_syntax);
        let has_channels = syntax.is_some_and(|syntax| syntax.body == CallBody::Channels);
        let section = match start {
            Start::Reasoning if reasoning.is_some() || has_channels => Section::Reasoning,
            Start::Reasoning | Start::Message => Section::Content,
        };
        if has_channels {
            let strict = Strict(crate::engine::HARMONY_TOKENS.iter().copied().filter(is_control).collect());
            let mode = Mode::Channels(Box::new(Harmony::new(start)));
            return Self {
                sink: Sink::new(tools, strict, section, Space::Keep),
                queue: VecDeque::new(),
                mode,
            };
        }
        let syntax = syntax.filter(|_| !tools.is_empty());
        let markers = format.map(Format::markers).unwrap_or_default();
        let reasoning_markers = reasoning.iter().flat_map(|tags| [tags.begin, tags.end]);
        let strict = Strict(markers.into_iter().chain(reasoning_markers).filter(is_control).collect());
        let silent = format.map(Format::silent).unwrap_or_default();
        let space = match (section, syntax, reasoning) {
            (Section::Reasoning, _, _) => Space::Skip,
            (_, None, None) => Space::Keep,
            _ => Space::Hold,
        };
        let tagged = Tagged::new(syntax, reasoning, silent, place, &strict);
        Self {
            sink: Sink::new(tools, strict, section, space),
            queue: VecDeque::new(),
            mode: Mode::Tagged(Box::new(tagged)),
        }
    }

    /// Is what comes next part of a reasoning section?
    pub fn is_in_reasoning(&self) -> bool {
        self.sink.section == Section::Reasoning
    }

    /// The section of reasoning was closed for the model. If it closes the section itself too, wherever that is, the tag is
    /// no content.
    pub fn expect_close(&mut self) {
        if let Mode::Tagged(tagged) = &mut self.mode {
            tagged.expects_close = true;
        }
    }

    /// Takes the next piece of the output and returns what is certain by now.
    pub fn push(&mut self, piece: Piece) -> Vec<Event> {
        match piece {
            Piece::Text(text) => text.chars().for_each(|character| self.feed(Symbol::Char(character))),
            Piece::Control(spelling) => match self.sink.strict.find(spelling) {
                Some(marker) => self.feed(Symbol::Control(marker)),
                None => spelling.chars().for_each(|character| self.feed(Symbol::Char(character))),
            },
        }
        self.sink.take_events()
    }

    /// Ends the output: the last events, and where it ended.
    pub fn finish(mut self) -> (Vec<Event>, Ending) {
        let ending = match &mut self.mode {
            Mode::Tagged(tagged) => tagged.finish(&mut self.sink),
            Mode::Channels(harmony) => harmony.finish(&mut self.sink),
        };
        (self.sink.take_events(), ending)
    }

    fn feed(&mut self, symbol: Symbol) {
        self.queue.push_back(symbol);
        while let Some(symbol) = self.queue.pop_front() {
            match &mut self.mode {
                Mode::Tagged(tagged) => tagged.feed(symbol, &mut self.sink, &mut self.queue),
                Mode::Channels(harmony) => harmony.feed(symbol, &mut self.sink, &mut self.queue),
            }
        }
    }
}

impl Tagged {
    fn new(
        syntax: Option<CallSyntax>,
        reasoning: Option<Reasoning>,
        silent: &'static [&'static str],
        place: CallPlace,
        strict: &Strict,
    ) -> Self {
        let begins: Vec<&'static str> = syntax.iter().flat_map(CallSyntax::begins).collect();
        let mut in_content: Vec<&'static str> =
            reasoning.iter().flat_map(|tags| [tags.begin, tags.end]).collect();
        in_content.extend(silent);
        let behind_content = in_content.clone();
        in_content.extend(&begins);
        // A call ends a reasoning section that the model forgot to close, if its marker cannot be mere text.
        let mut in_reasoning: Vec<&'static str> = reasoning.iter().map(|tags| tags.end).collect();
        in_reasoning.extend(begins.iter().filter(|marker| strict.contains(marker)));
        let mut ends: Vec<&'static str> =
            syntax.iter().flat_map(|syntax| [syntax.call.end.trim(), syntax.section.end.trim()]).collect();
        ends.retain(|end| !end.is_empty() && !in_content.contains(end));
        Self {
            syntax,
            reasoning,
            silent,
            place,
            matcher: Matcher::default(),
            in_content,
            behind_content,
            ends,
            is_behind_broken: false,
            expects_close: false,
            in_reasoning,
            call: None,
        }
    }

    fn feed(&mut self, symbol: Symbol, sink: &mut Sink, queue: &mut VecDeque<Symbol>) {
        match self.call.take() {
            Some(call) => {
                let broken = sink.broken();
                self.call = call.feed(symbol, sink, queue);
                self.is_behind_broken |= sink.broken() > broken;
            }
            None => self.text(symbol, sink, queue),
        }
    }

    fn text(&mut self, symbol: Symbol, sink: &mut Sink, queue: &mut VecDeque<Symbol>) {
        if let Some(syntax) = self.syntax.filter(|syntax| self.may_begin_bare(syntax, symbol, sink)) {
            let call =
                Call { engine: Engine::new(syntax, ""), held: Vec::new(), marker: 1, begun: Begun::Bare };
            self.call = call.feed(symbol, sink, queue);
            return;
        }
        let with_ends: Vec<&'static str>;
        let markers = match sink.section {
            Section::Content if self.is_behind_broken => {
                with_ends = self.in_content.iter().chain(&self.ends).copied().collect();
                &with_ends
            }
            Section::Content if !self.may_call(sink) => &self.behind_content,
            Section::Content => &self.in_content,
            Section::Reasoning => &self.in_reasoning,
        };
        let mut released = String::new();
        let found = self.matcher.feed(symbol, markers, &sink.strict, &mut released);
        sink.text(&released);
        if let Some(marker) = found {
            self.marker(marker, sink);
        }
    }

    fn may_begin_bare(&self, syntax: &CallSyntax, symbol: Symbol, sink: &Sink) -> bool {
        let is_first = syntax.bare.is_some_and(|first| symbol == Symbol::Char(first));
        let is_first = is_first && self.place != CallPlace::MarkedStart;
        is_first && sink.section == Section::Content && sink.is_fresh() && self.matcher.is_idle()
    }

    /// Whether a call may begin in the content, as far as it was read.
    fn may_call(&self, sink: &Sink) -> bool {
        self.place == CallPlace::Anywhere || sink.is_fresh()
    }

    fn marker(&mut self, marker: &'static str, sink: &mut Sink) {
        let is = |tag: fn(&Reasoning) -> &'static str| {
            self.reasoning.as_ref().is_some_and(|tags| tag(tags) == marker)
        };
        match sink.section {
            Section::Reasoning if is(|tags| tags.end) => sink.enter(Section::Content),
            // In the midst of text the tag's characters are text; only its token begins another section.
            Section::Content if is(|tags| tags.begin) => {
                if sink.is_fresh() || sink.strict.contains(marker) {
                    sink.enter(Section::Reasoning);
                } else {
                    sink.text(marker);
                }
            }
            // A section that is closed already is closed once more.
            Section::Content if is(|tags| tags.end) => {
                if sink.is_fresh() || sink.strict.contains(marker) || self.expects_close {
                    self.expects_close = false;
                    sink.enter(Section::Content);
                } else {
                    sink.text(marker);
                }
            }
            _ if self.silent.contains(&marker) => {}
            Section::Content if self.is_behind_broken && self.ends.contains(&marker) => {
                self.is_behind_broken = false;
                sink.enter(Section::Content);
            }
            // What was released ahead of the marker was content.
            Section::Content if !self.may_call(sink) => sink.text(marker),
            _ => self.call = self.syntax.map(|syntax| Call::marked(syntax, marker, &sink.strict)),
        }
    }

    fn finish(&mut self, sink: &mut Sink) -> Ending {
        let Some(call) = self.call.take() else {
            let mut released = String::new();
            self.matcher.release(&mut released);
            sink.text(&released);
            sink.flush_space();
            return match sink.section {
                Section::Content => Ending::Complete,
                Section::Reasoning => Ending::InReasoning,
            };
        };
        if let Some(index) = sink.break_call(Broken::CutOff) {
            return Ending::InCall { index };
        }
        if call.engine.is_at_rest() {
            return Ending::Complete;
        }
        let text = spell(&call.held);
        if call.begun == Begun::Bare {
            sink.text(&text);
        }
        sink.flush_space();
        match call.begun {
            Begun::Bare => Ending::Complete,
            Begun::Marked => Ending::InCallHead { text },
        }
    }
}

impl Call {
    fn marked(syntax: CallSyntax, marker: &'static str, strict: &Strict) -> Self {
        let held = match strict.contains(marker) {
            true => vec![Symbol::Control(marker)],
            false => marker.chars().map(Symbol::Char).collect::<Vec<_>>(),
        };
        Self { engine: Engine::new(syntax, marker), marker: held.len(), held, begun: Begun::Marked }
    }

    /// Hands a symbol to the engine; none if that ended the call or there was none.
    fn feed(mut self, symbol: Symbol, sink: &mut Sink, queue: &mut VecDeque<Symbol>) -> Option<Self> {
        sink.begin_symbol();
        match self.engine.feed(symbol, sink) {
            Flow::Done => return None,
            Flow::More => {}
            Flow::Leave => {
                queue.push_front(symbol);
                return self.leave(sink, queue);
            }
        }
        if sink.symbol_is_settled() {
            self.held.clear();
            self.marker = 0;
            return Some(self);
        }
        self.held.push(symbol);
        match (self.held.len() > MAX_HELD_HEAD, sink.is_in_call()) {
            (false, _) => Some(self),
            (true, false) => self.leave(sink, queue),
            // Between the arguments of a call there is syntax alone, which nobody will ask for.
            (true, true) => {
                self.held.clear();
                Some(self)
            }
        }
    }

    /// What was held is no call. It is read once more as text, in which a call may begin, but for its marker.
    fn leave(self, sink: &mut Sink, queue: &mut VecDeque<Symbol>) -> Option<Self> {
        sink.break_call(Broken::Malformed);
        let (marker, rest) = self.held.split_at(self.marker.min(self.held.len()));
        sink.text(&spell(marker));
        rest.iter().rev().for_each(|symbol| queue.push_front(*symbol));
        None
    }
}
