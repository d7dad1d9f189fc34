//! A model's output is the same in any pieces, in every format: its events are well formed, and the arguments of a call
//! that is whole are a JSON object.

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use troupe_parsers::{CallPlace, Ending, Event, Format, Parser, Piece, Reasoning, Setup, Start, Tool};

/// Reads the bytes as an output. Their first line names the format; one that names none is a format by its first byte.
pub fn calls(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (head, output) = text.split_once('\n').unwrap_or(("", &text));
    let format = Format::from_name(head).unwrap_or_else(|| {
        let first = head.bytes().next().unwrap_or_default();
        Format::ALL[usize::from(first) % Format::ALL.len()]
    });
    for control in [Vec::new(), control_tokens(format)] {
        let pieces = tokens(output, &control);
        for (start, place) in [
            (Start::Message, CallPlace::Anywhere),
            (Start::Reasoning, CallPlace::Anywhere),
            (Start::Message, CallPlace::Start),
            (Start::Message, CallPlace::MarkedStart),
        ] {
            let setup = Setup {
                format: Some(format),
                reasoning: Some(Reasoning::THINK),
                start,
                tools: tools(),
                place,
                control: control.clone(),
            };
            let whole = parse(setup.clone(), pieces.iter().copied());
            check(&whole.0, output);
            for length in [1, 2 + output.len() % 5] {
                let cut = pieces.iter().flat_map(|&piece| cut(piece, length));
                assert_eq!(parse(setup.clone(), cut), whole, "{}: pieces of {length}", format.name());
            }
        }
    }
}

fn tools() -> Vec<Tool> {
    let properties = json!({
        "city": {"type": "string"}, "days": {"type": "integer"}, "flags": {"type": "array"},
        "nested": {"type": "object"}, "note": {"type": ["string", "null"]},
    });
    let tool = |name: &str, properties: Value| Tool {
        name: name.to_owned(),
        parameters: json!({"type": "object", "properties": properties}),
    };
    vec![tool("get_weather", properties), tool("now", json!({}))]
}

/// Spellings that a vocabulary of a model of this format may have as control tokens.
fn control_tokens(format: Format) -> Vec<String> {
    let syntax = format.call_syntax();
    let own = [syntax.section.begin, syntax.section.end, syntax.call.begin, syntax.call.end];
    let others = ["<think>", "</think>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>"];
    let all = own.into_iter().chain(others).map(str::trim).filter(|token| !token.is_empty());
    all.map(str::to_owned).collect()
}

/// The output with every spelling of a control token as a piece of its own.
fn tokens<'a>(output: &'a str, control: &'a [String]) -> Vec<Piece<'a>> {
    let (mut pieces, mut begin, mut at) = (Vec::new(), 0, 0);
    while at < output.len() {
        if let Some(token) = control.iter().find(|token| output[at..].starts_with(token.as_str())) {
            pieces.extend([Piece::Text(&output[begin..at]), Piece::Control(token)]);
            at += token.len();
            begin = at;
        } else {
            at += output[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    pieces.push(Piece::Text(&output[begin..]));
    pieces
}

/// A piece in pieces of so many characters; a control token stays whole.
fn cut(piece: Piece<'_>, length: usize) -> Vec<Piece<'_>> {
    let Piece::Text(text) = piece else { return vec![piece] };
    let mut cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(length).collect();
    cuts.push(text.len());
    cuts.windows(2).map(|ends| Piece::Text(&text[ends[0]..ends[1]])).collect()
}

/// Events with neighbours of a kind joined, and how it ended.
fn parse<'a>(setup: Setup, pieces: impl IntoIterator<Item = Piece<'a>>) -> (Vec<Event>, Ending) {
    let mut parser = Parser::new(setup);
    let mut events: Vec<Event> = pieces.into_iter().flat_map(|piece| parser.push(piece)).collect();
    let (last, ending) = parser.finish();
    events.extend(last);
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        match (joined.last_mut(), &event) {
            (Some(Event::Content(text)), Event::Content(more))
            | (Some(Event::Reasoning(text)), Event::Reasoning(more)) => text.push_str(more),
            (Some(Event::Arguments { fragment, .. }), Event::Arguments { fragment: more, .. }) => {
                fragment.push_str(more);
            }
            _ => joined.push(event),
        }
    }
    (joined, ending)
}

/// Is this JSON that a strict parser takes? A number of any size is.
fn is_json(text: &str) -> bool {
    match serde_json::from_str::<Value>(text) {
        Ok(_) => true,
        // No number of Rust's is as large. What follows it is read without its strings.
        Err(error) if error.to_string().starts_with("number out of range") => {
            serde_json::from_str::<IgnoredAny>(text).is_ok()
        }
        Err(_) => false,
    }
}

/// Text stands in the output in that order; calls come one after the other, and each ends once.
fn check(events: &[Event], output: &str) {
    let (mut rest, mut open, mut calls) = (output.chars(), None, 0);
    for event in events {
        match event {
            Event::Content(part) | Event::Reasoning(part) => {
                assert!(open.is_none() && !part.is_empty(), "{events:?}");
                // White space that parts content from content may stand ahead of what lies between the two.
                assert!(
                    part.trim_start().chars().all(|one| rest.any(|other| other == one)),
                    "{part:?} is not of the output"
                );
            }
            Event::CallStarted { index, .. } => {
                assert!(open.is_none() && *index == calls, "{events:?}");
                open = Some((*index, String::new()));
                calls += 1;
            }
            Event::Arguments { index, fragment } => match &mut open {
                Some((of, arguments)) if of == index => arguments.push_str(fragment),
                _ => panic!("arguments of no call: {events:?}"),
            },
            Event::CallFinished { index } => {
                let (of, arguments) = open.take().expect("a call that began");
                assert_eq!(of, *index, "{events:?}");
                assert!(arguments.starts_with('{') && is_json(&arguments), "{arguments}");
            }
            Event::CallBroken { index, .. } => {
                let (of, _) = open.take().expect("a call that began");
                assert_eq!(of, *index, "{events:?}");
            }
        }
    }
    assert!(open.is_none(), "{events:?}");
}
