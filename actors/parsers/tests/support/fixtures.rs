//! Outputs of every format, written by hand in the form that the models' templates show.

mod late_ids;
mod special;
mod two_calls;

use late_ids::late_ids;
use special::{bare, harmony, parameters};
use troupe_parsers::{Broken, Ending, Event, Format, Reasoning, Start};

use two_calls::two_calls;

use super::Fixture;

const ARGUMENTS: &str =
    r#"{"city": "Köln \"x\"\n🙂</p", "days": 3, "flags": [true, null, 1.5], "nested": {"q": "a'b"}}"#;

fn text(text: &str) -> Event {
    Event::Content(text.to_owned())
}

fn thought(text: &str) -> Event {
    Event::Reasoning(text.to_owned())
}

pub(super) fn call(index: usize, id: Option<&str>, name: &str, arguments: &str) -> Vec<Event> {
    vec![
        Event::CallStarted { index, id: id.map(str::to_owned), name: name.to_owned() },
        Event::Arguments { index, fragment: arguments.to_owned() },
        Event::CallFinished { index },
    ]
}

fn cut(index: usize, name: &str, arguments: &str, reason: Broken) -> Vec<Event> {
    let mut events = call(index, None, name, arguments);
    events.pop();
    if arguments.is_empty() {
        events.pop();
    }
    events.push(Event::CallBroken { index, reason });
    events
}

fn fixture(
    format: Option<Format>,
    name: &'static str,
    output: impl Into<String>,
    events: Vec<Event>,
) -> Fixture {
    Fixture {
        format,
        name,
        reasoning: Some(Reasoning::THINK),
        start: Start::Message,
        output: output.into(),
        events,
        ending: Ending::Complete,
    }
}

fn ending(fixture: Fixture, ending: Ending) -> Fixture {
    Fixture { ending, ..fixture }
}

fn in_head(fixture: Fixture, head: &str) -> Fixture {
    ending(fixture, Ending::InCallHead { text: head.to_owned() })
}

fn started(fixture: Fixture) -> Fixture {
    Fixture { start: Start::Reasoning, ..fixture }
}

fn reasoning_alone() -> Vec<Fixture> {
    vec![
        fixture(None, "text alone", " A <b> & </think>\n", vec![text(" A <b> & </think>\n")]),
        fixture(
            None,
            "reasoning and text",
            "\n<think>\nhm\n\nhm\n</think>\n\nYes.",
            vec![thought("hm\n\nhm"), text("Yes.")],
        ),
        fixture(None, "empty reasoning", "<think>\n\n</think>\n\nYes.", vec![text("Yes.")]),
        fixture(None, "a tag in prose", "Use <think> here.", vec![text("Use <think> here.")]),
        ending(
            fixture(None, "reasoning that is cut off", "<think>hm </thi", vec![thought("hm </thi")]),
            Ending::InReasoning,
        ),
        ending(
            started(fixture(None, "reasoning from the start, cut off", "hm", vec![thought("hm")])),
            Ending::InReasoning,
        ),
        fixture(
            None,
            "long whitespace",
            format!("a{}b", " ".repeat(600)),
            vec![text(&format!("a{}b", " ".repeat(600)))],
        ),
        fixture(None, "calls without a format", "<tool_call>\n{}", vec![text("<tool_call>\n{}")]),
    ]
}

fn hermes() -> Vec<Fixture> {
    let hermes = |name, output: &str, events| fixture(Some(Format::Hermes), name, output, events);
    let unknown = "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>";
    vec![
        hermes("a name that was not offered", unknown, vec![text(unknown)]),
        hermes(
            "a call after one that was not offered",
            &format!("{unknown}<tool_call>{{\"name\": \"now\", \"arguments\": {{}}}}</tool_call>"),
            [vec![text(unknown)], call(0, None, "now", "{}")].concat(),
        ),
        hermes(
            "prose about calls",
            "Write <tool_call> and {\"name\": 1}.",
            vec![text("Write <tool_call> and {\"name\": 1}.")],
        ),
        hermes(
            "two markers",
            "<tool_call><tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
            [vec![text("<tool_call>")], call(0, None, "now", "{}")].concat(),
        ),
        hermes(
            "malformed head",
            "<tool_call>\n{'name': 'now'}\n</tool_call>",
            vec![text("<tool_call>\n{'name': 'now'}\n</tool_call>")],
        ),
        hermes(
            "malformed arguments",
            "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": x}} rest",
            [cut(0, "now", "{\"a\": ", Broken::Malformed), vec![text("x}} rest")]].concat(),
        ),
        hermes(
            "arguments in a string",
            r#"<tool_call>{"name": "now", "arguments": "{\"a\": \"\\u00e9\\\"\"}"}</tool_call>"#,
            call(0, None, "now", r#"{"a": "\u00e9\""}"#),
        ),
        hermes(
            "an empty string of arguments",
            r#"<tool_call>{"name": "now", "arguments": ""}</tool_call>"#,
            call(0, None, "now", "{}"),
        ),
        hermes(
            "another format's key",
            r#"<tool_call>{"name": "now", "parameters": {"a": 1}}</tool_call>"#,
            call(0, None, "now", r#"{"a": 1}"#),
        ),
        hermes(
            "half of the arguments in a string",
            r#"<tool_call>{"name": "now", "arguments": "{"} rest"#,
            [cut(0, "now", "{", Broken::Malformed), vec![text("\"} rest")]].concat(),
        ),
        hermes(
            "arguments ahead of the name",
            "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"now\"}</tool_call>",
            call(0, None, "now", "{\"a\": 1}"),
        ),
        hermes("no arguments", "<tool_call>{\"name\": \"now\"}</tool_call>", call(0, None, "now", "{}")),
        hermes(
            "null arguments",
            "<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call>",
            call(0, None, "now", "{}"),
        ),
        hermes(
            "other keys",
            "<tool_call>{\"x\": [1, {}], \"name\": \"now\", \"y\": -1.5, \"arguments\": {}, \"z\": \"\"}</tool_call>",
            call(0, None, "now", "{}"),
        ),
        hermes(
            "raw control characters",
            "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>",
            call(0, None, "now", r#"{"a": "x\ny"}"#),
        ),
        hermes(
            "no end marker",
            "<tool_call>{\"name\": \"now\", \"arguments\": {}}",
            call(0, None, "now", "{}"),
        ),
        hermes(
            "half an end marker",
            "<tool_call>{\"name\": \"now\", \"arguments\": {}}\n</tool_c",
            call(0, None, "now", "{}"),
        ),
        hermes(
            "no end marker between calls",
            "<tool_call>{\"name\": \"now\"}<tool_call>{\"name\": \"now\"}</tool_call>",
            [call(0, None, "now", "{}"), call(1, None, "now", "{}")].concat(),
        ),
        hermes(
            "one brace too few",
            r#"<tool_call>{"name": "now", "arguments": {"a": {}}</tool_call> x"#,
            [call(0, None, "now", r#"{"a": {}}"#), vec![text("x")]].concat(),
        ),
        hermes(
            "cut off behind the arguments",
            r#"<tool_call>{"name": "now", "arguments": {}, "i"#,
            call(0, None, "now", "{}"),
        ),
        hermes(
            "wide spaces are text",
            "\u{3000}<think>\u{a0}</think>\n\u{3000}x",
            vec![text("\u{3000}<think>\u{a0}</think>\n\u{3000}x")],
        ),
        hermes(
            "one brace too many",
            "<tool_call>{\"name\": \"now\"}}</tool_call>",
            call(0, None, "now", "{}"),
        ),
        hermes(
            "one brace too many, and text",
            "<tool_call>{\"name\": \"now\"}}\n</tool_call>\n} x",
            [call(0, None, "now", "{}"), vec![text("} x")]].concat(),
        ),
        hermes(
            "no end marker, and a brace of a text",
            "<tool_call>{\"name\": \"now\"}\n} x",
            [call(0, None, "now", "{}"), vec![text("} x")]].concat(),
        ),
        hermes(
            "malformed arguments, ended",
            "<tool_call>{\"name\": \"now\", \"arguments\": {\"n\": NaN}}\n</tool_call> x </tool_call>",
            [cut(0, "now", "{\"n\": ", Broken::Malformed), vec![text("NaN}} x </tool_call>")]].concat(),
        ),
        hermes(
            "text on both sides",
            "a <tool_call>{\"name\": \"now\"}</tool_call><tool_call>{\"name\": \"now\"}</tool_call>\n\nb <tool_call>{\"name\": \"now\"}</tool_call>c<tool_call>{\"name\": \"now\"}</tool_call> ",
            [
                vec![text("a")],
                call(0, None, "now", "{}"),
                call(1, None, "now", "{}"),
                vec![text("\n\nb")],
                call(2, None, "now", "{}"),
                vec![text(" c")],
                call(3, None, "now", "{}"),
            ]
            .concat(),
        ),
        hermes(
            "reasoning that is closed twice",
            "<think>a</think>\n</think>\n\nSo </think>.",
            vec![thought("a"), text("So </think>.")],
        ),
        hermes("reasoning that is only closed", "</think>\n\nSo.", vec![text("So.")]),
        in_head(
            hermes("cut off in the name", "Hm.\n<tool_call>\n{\"name\": \"no", vec![text("Hm.\n")]),
            "<tool_call>\n{\"name\": \"no",
        ),
        in_head(
            hermes("cut off ahead of the arguments", "<tool_call>\n{\"name\": \"now\", \"argu", vec![]),
            "<tool_call>\n{\"name\": \"now\", \"argu",
        ),
        ending(
            hermes(
                "cut off in the arguments",
                "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"b",
                cut(0, "now", "{\"a\": \"b", Broken::CutOff),
            ),
            Ending::InCall { index: 0 },
        ),
        hermes("cut off in a marker", "Hm. <tool_ca", vec![text("Hm. <tool_ca")]),
    ]
}

/// All of them.
pub(crate) fn fixtures() -> Vec<Fixture> {
    [two_calls(), reasoning_alone(), hermes(), bare(), parameters(), late_ids(), harmony()]
        .into_iter()
        .flatten()
        .collect()
}
