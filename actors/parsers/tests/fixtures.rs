//! What outputs are, in every format.

mod support;

use std::collections::BTreeSet;

use support::{fixtures, parse, parse_text};
use troupe_parsers::{CallBody, Ending, Event, Format, Parser, Piece, Reasoning, Setup};

#[test]
fn outputs_are_read() {
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        let (events, ending) = parse_text(fixture.setup(), &fixture.output);
        if events != fixture.events || ending != fixture.ending {
            wrong.push(format!(
                "{}\n  output   {:?}\n  events   {events:?}\n  expected {:?}\n  ending   {ending:?}, expected {:?}",
                fixture.label(),
                fixture.output,
                fixture.events,
                fixture.ending,
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_format_has_fixtures() {
    let seen: BTreeSet<&str> =
        fixtures().iter().filter_map(|fixture| fixture.format).map(Format::name).collect();
    let all: BTreeSet<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    assert_eq!(seen, all);
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(*format));
    }
}

#[test]
fn arguments_of_finished_calls_are_json_objects() {
    for fixture in fixtures() {
        let (events, _) = parse_text(fixture.setup(), &fixture.output);
        for (_, _, name, arguments) in support::finished_calls(&events) {
            let value: serde_json::Value = serde_json::from_str(&arguments)
                .unwrap_or_else(|error| panic!("{}: {name}: {arguments}: {error}", fixture.label()));
            assert!(value.is_object());
        }
    }
}

/// Without tools there are no calls, and the text stands unchanged.
#[test]
fn without_tools_nothing_is_a_call() {
    for fixture in fixtures().iter().filter(|fixture| fixture.name == "two calls") {
        let silent = matches!(fixture.format, Some(Format::Cohere | Format::KimiK3));
        if silent || fixture.format == Some(Format::Harmony) {
            continue;
        }
        let setup = Setup { tools: Vec::new(), ..fixture.setup() };
        let (events, ending) = parse_text(setup, &fixture.output);
        assert_eq!(events, [Event::Content(fixture.output.clone())], "{}", fixture.label());
        assert_eq!(ending, Ending::Complete);
    }
}

/// What is known is said at once: a stream is not held back longer than a marker may be.
#[test]
fn arguments_and_text_are_streamed() {
    let setup = Setup { format: Some(Format::Hermes), tools: support::tools(), ..Setup::default() };
    let mut parser = Parser::new(setup);
    assert_eq!(parser.push(Piece::Text("One two")), [Event::Content("One two".to_owned())]);
    assert_eq!(parser.push(Piece::Text(" <tool_call>\n{\"name\": \"now\",")), []);
    let started = Event::CallStarted { index: 0, id: None, name: "now".to_owned() };
    let fragment = |text: &str| Event::Arguments { index: 0, fragment: text.to_owned() };
    assert_eq!(parser.push(Piece::Text(" \"arguments\": {\"a")), [started, fragment("{\"a")]);
    assert_eq!(parser.push(Piece::Text("\": \"xyz")), [fragment("\": \"xyz")]);

    let setup = Setup { format: Some(Format::Qwen3Coder), tools: support::tools(), ..Setup::default() };
    let mut parser = Parser::new(setup);
    parser.push(Piece::Text("<tool_call><function=get_weather><parameter=city>\n"));
    assert_eq!(parser.push(Piece::Text("Par\"is")), [fragment("Par\\\"is")]);
}

/// A marker that the vocabulary has as a control token is read from that token alone.
#[test]
fn text_that_spells_a_control_token_is_text() {
    let spelled = "<think><tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let setup = || Setup {
        format: Some(Format::Hermes),
        reasoning: Some(Reasoning::THINK),
        tools: support::tools(),
        control: ["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>"]
            .map(str::to_owned)
            .to_vec(),
        ..Setup::default()
    };
    assert_eq!(parse_text(setup(), spelled), (vec![Event::Content(spelled.to_owned())], Ending::Complete));
    // And a call may begin inside reasoning that was not closed, since its token cannot be mere text.
    let pieces = [
        Piece::Control("<think>"),
        Piece::Text("hm </think> <tool_call>\n"),
        Piece::Control("<tool_call>"),
        Piece::Text("{\"name\": \"now\"}"),
        Piece::Control("</tool_call>"),
        Piece::Control("<|im_end|>"),
    ];
    let (events, ending) = parse(setup(), pieces);
    assert_eq!(events[0], Event::Reasoning("hm </think> <tool_call>".to_owned()));
    assert_eq!(support::finished_calls(&events), [(0, None, "now".to_owned(), "{}".to_owned())]);
    assert_eq!(events.last(), Some(&Event::Content("<|im_end|>".to_owned())));
    assert_eq!(ending, Ending::Complete);
}

/// A grammar is built of the syntax, so each must say how a call begins.
#[test]
fn every_syntax_says_how_a_call_begins() {
    for format in Format::ALL {
        let syntax = format.call_syntax();
        let is_said = syntax.begins().next().is_some() || syntax.body == CallBody::Channels;
        assert!(is_said, "{}", format.name());
    }
}

#[test]
fn a_prompt_may_open_the_reasoning() {
    assert!(Reasoning::THINK.is_open_at_end_of("<|im_start|>assistant\n<think>\n"));
    assert!(!Reasoning::THINK.is_open_at_end_of("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
}
