//! What the tests of the parsers share: fixtures of every format, and how their events are compared.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

mod fixtures;

pub(crate) use fixtures::fixtures;
use serde_json::{Value as Json, json};
use troupe_parsers::{Ending, Event, Format, Parser, Piece, Reasoning, Setup, Start, Tool};

/// An output and what it is.
pub(crate) struct Fixture {
    pub(crate) format: Option<Format>,
    pub(crate) name: &'static str,
    pub(crate) reasoning: Option<Reasoning>,
    pub(crate) start: Start,
    pub(crate) output: String,
    pub(crate) events: Vec<Event>,
    pub(crate) ending: Ending,
}

impl Fixture {
    pub(crate) fn setup(&self) -> Setup {
        Setup {
            format: self.format,
            reasoning: self.reasoning,
            start: self.start,
            tools: tools(),
            ..Setup::default()
        }
    }

    pub(crate) fn label(&self) -> String {
        format!("{} / {}", self.format.map_or("no format", Format::name), self.name)
    }
}

/// The tools that all fixtures offer.
pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters: Json| Tool { name: name.to_owned(), parameters };
    vec![
        tool(
            "get_weather",
            json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "flags": {"type": "array"},
                    "nested": {"type": "object"},
                    "note": {"type": ["string", "null"]},
                },
            }),
        ),
        tool("now", json!({"type": "object", "properties": {}})),
        tool(
            "maths.add",
            json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}),
        ),
    ]
}

/// What a parser makes of pieces: its events with neighbours of a kind joined, and the ending.
pub(crate) fn parse<'a>(setup: Setup, pieces: impl IntoIterator<Item = Piece<'a>>) -> (Vec<Event>, Ending) {
    let mut parser = Parser::new(setup);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(parser.push(piece));
    }
    let (last, ending) = parser.finish();
    events.extend(last);
    (joined(events), ending)
}

pub(crate) fn parse_text(setup: Setup, text: &str) -> (Vec<Event>, Ending) {
    parse(setup, [Piece::Text(text)])
}

/// Joins neighbours that continue each other.
pub(crate) fn joined(events: Vec<Event>) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::new();
    for event in events {
        match (out.last_mut(), &event) {
            (Some(Event::Content(text)), Event::Content(more)) => text.push_str(more),
            (Some(Event::Reasoning(text)), Event::Reasoning(more)) => text.push_str(more),
            (Some(Event::Arguments { fragment, index }), Event::Arguments { fragment: more, index: of })
                if index == of =>
            {
                fragment.push_str(more);
            }
            _ => out.push(event),
        }
    }
    out
}

/// A finished call: its index, id, name and arguments.
pub(crate) type Call = (usize, Option<String>, String, String);

/// The finished calls among joined events.
pub(crate) fn finished_calls(events: &[Event]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut finished = Vec::new();
    for event in events {
        match event {
            Event::CallStarted { index, id, name } => {
                calls.push((*index, id.clone(), name.clone(), String::new()))
            }
            Event::Arguments { index, fragment } => calls[*index].3.push_str(fragment),
            Event::CallFinished { index } => finished.push(calls[*index].clone()),
            Event::Content(_) | Event::Reasoning(_) | Event::CallBroken { .. } => {}
        }
    }
    finished
}

/// All text among the events, with what the ending gave back.
pub(crate) fn all_text(events: &[Event], ending: &Ending) -> String {
    let texts = events.iter().map(|event| match event {
        Event::Content(text) | Event::Reasoning(text) => text.as_str(),
        _ => "",
    });
    let head = match ending {
        Ending::InCallHead { text } => text.as_str(),
        _ => "",
    };
    texts.chain([head]).collect()
}
