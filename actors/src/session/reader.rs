//! From the text of tokens to what it is: content, reasoning, calls.

use troupe_parsers::{Ending, Event, Format, Parser, Piece as Raw, Setup, Start};
use troupe_protocol::{FinishReason as SequenceEnd, TokenId};

use super::alignment::Alignment;
use super::{CallPart, Piece, ScoredToken};

/// How an output that may hold reasoning or calls is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What is looked for.
    pub setup: Setup,
    /// How many calls an answer may hold.
    pub calls: CallLimit,
    /// How long its reasoning may get, if there is a bound.
    pub budget: Option<Budget>,
    /// Where ids of calls come from. Nobody may be able to guess it, and each sequence has its own.
    pub id_seed: u64,
}

impl Reading {
    /// Whether the prompt opened a section of reasoning.
    pub fn begins_in_reasoning(&self) -> bool {
        self.setup.reasoning.is_some() && self.setup.start == Start::Reasoning
    }
}

/// A bound of an answer's reasoning. At the bound its section is closed for the model, which goes on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most tokens, those that close the section aside.
    pub tokens: u32,
    /// The tokens that close it.
    pub end: Vec<TokenId>,
}

/// How many calls an answer may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallLimit {
    /// Any number.
    #[default]
    Any,
    /// One: the answer ends with it.
    One,
}

/// The text of one token.
#[derive(Debug)]
pub(super) struct Decoded<'a> {
    /// What it adds to the text. Empty for a control token.
    pub(super) text: String,
    /// Its spelling, if it is a control token.
    pub(super) control: Option<&'a str>,
    /// Its log-probability, if the client asked for it.
    pub(super) scored: Option<ScoredToken>,
}

/// What an output turns out to be. Offsets of tokens count from the beginning of their piece.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    Content(Piece),
    Reasoning(Piece),
    Call(CallPart),
}

/// Reads one output.
#[derive(Debug)]
pub(super) enum Reader {
    /// All of it is content. Control tokens are not shown.
    Plain,
    /// Some of it may be something else.
    Parsed(Box<Parsed>),
}

/// A parser, and what it does not know.
#[derive(Debug)]
pub(super) struct Parsed {
    parser: Parser,
    /// The control tokens that it reads. Others are not shown.
    control: Vec<String>,
    ids: CallIds,
    alignment: Alignment,
}

impl Reader {
    pub(super) fn new(reading: Option<&Reading>) -> Self {
        let Some(Reading { setup, id_seed, .. }) = reading else { return Self::Plain };
        Self::Parsed(Box::new(Parsed {
            control: setup.control.clone(),
            ids: CallIds { seed: *id_seed, format: setup.format },
            parser: Parser::new(setup.clone()),
            alignment: Alignment::default(),
        }))
    }

    /// Whether the next token is part of a reasoning section.
    pub(super) fn is_in_reasoning(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Parsed(parsed) => parsed.parser.is_in_reasoning(),
        }
    }

    /// The section of reasoning was closed for the model.
    pub(super) fn was_closed(&mut self) {
        if let Self::Parsed(parsed) = self {
            parsed.parser.expect_close();
        }
    }

    /// Takes the next token; gives what is certain by now.
    pub(super) fn push(&mut self, decoded: Decoded) -> Vec<Read> {
        match self {
            Self::Plain => {
                let tokens = decoded.scored.into_iter().collect();
                vec![Read::Content(Piece { text: decoded.text, tokens })]
            }
            Self::Parsed(parsed) => parsed.push(decoded),
        }
    }

    /// Takes the token that ended the sequence, which is syntax if anything.
    pub(super) fn push_last(&mut self, control: Option<&str>) -> Vec<Read> {
        match self {
            Self::Plain => Vec::new(),
            Self::Parsed(parsed) => parsed.push(Decoded { text: String::new(), control, scored: None }),
        }
    }

    /// Ends the output, with the text that is left, for this reason.
    pub(super) fn finish(self, rest: String, reason: SequenceEnd) -> Vec<Read> {
        match self {
            Self::Plain => vec![Read::Content(Piece { text: rest, tokens: Vec::new() })],
            Self::Parsed(parsed) => parsed.finish(&rest, reason),
        }
    }
}

impl Parsed {
    fn push(&mut self, decoded: Decoded) -> Vec<Read> {
        let control = decoded.control.filter(|control| self.control.iter().any(|read| read == control));
        if let Some(scored) = decoded.scored {
            self.alignment.push(control.unwrap_or(&decoded.text), scored);
        }
        let events = match control {
            Some(control) => self.parser.push(Raw::Control(control)),
            None => self.parser.push(Raw::Text(&decoded.text)),
        };
        self.read(events)
    }

    fn finish(mut self, rest: &str, reason: SequenceEnd) -> Vec<Read> {
        let mut events = self.parser.push(Raw::Text(rest));
        let (last, ending) = std::mem::replace(&mut self.parser, Parser::new(Setup::default())).finish();
        events.extend(last);
        match (ending, reason) {
            // The model meant no more than this.
            (Ending::InCallHead { text }, SequenceEnd::Stop) => events.push(Event::Content(text)),
            // The beginning of a call that was cut off is of no use to anybody.
            (Ending::InCallHead { .. }, SequenceEnd::Length)
            | (Ending::Complete | Ending::InReasoning | Ending::InCall { .. }, _) => {}
        }
        self.read(events)
    }

    fn read(&mut self, events: Vec<Event>) -> Vec<Read> {
        events.into_iter().map(|event| self.read_event(event)).collect()
    }

    fn read_event(&mut self, event: Event) -> Read {
        let part = match event {
            Event::Content(text) => return Read::Content(self.piece(text)),
            Event::Reasoning(text) => return Read::Reasoning(self.piece(text)),
            Event::CallStarted { index, id, name } => {
                CallPart::Started { index, id: self.ids.of(index, id), name }
            }
            Event::Arguments { index, fragment } => CallPart::Arguments { index, fragment },
            Event::CallFinished { index } => CallPart::Finished { index },
            Event::CallBroken { index, .. } => CallPart::Broken { index },
        };
        self.alignment.skip();
        Read::Call(part)
    }

    fn piece(&mut self, text: String) -> Piece {
        let tokens = self.alignment.take(&text);
        Piece { text, tokens }
    }
}

/// Makes ids of calls.
#[derive(Debug)]
struct CallIds {
    seed: u64,
    format: Option<Format>,
}

impl CallIds {
    /// The model's own id, if there is one that its template will take back, or another.
    fn of(&self, index: usize, id: Option<String>) -> String {
        let length = self.format.and_then(Format::id_length);
        let is_taken = |id: &String| {
            length.is_none_or(|length| {
                id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            })
        };
        if let Some(id) = id.filter(is_taken) {
            return id;
        }
        match length {
            Some(length) => {
                let digits = format!("{:016x}{index:02x}", self.seed);
                digits[digits.len().saturating_sub(length)..].to_owned()
            }
            None => format!("call_{:016x}{index:04x}", self.seed),
        }
    }
}
