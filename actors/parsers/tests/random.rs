//! Any text: no panic, nothing lost, the same however it is cut.

mod support;

use proptest::prelude::*;
use proptest::sample::select;
use support::{all_text, parse, parse_text};
use troupe_parsers::{CallPlace, Event, Format, MAX_HELD_HEAD, Parser, Piece, Reasoning, Setup, Start};

/// Pieces that outputs of all formats are made of, and some of none.
fn fragments() -> Vec<String> {
    let mut fragments: Vec<String> = [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "'",
        ":",
        ",",
        ";",
        "=",
        "\\",
        "\\u00",
        "\\ud83d",
        "\\ude42",
        " ",
        "\n",
        "\n\n",
        "x",
        "é",
        "🙂",
        "1",
        "-",
        ".5",
        "null",
        "True",
        "name",
        "arguments",
        "parameters",
        "\"name\": \"now\"",
        "\"arguments\": {}",
        "now",
        "now(",
        "functions.now:0",
        "get_weather",
        "city",
        "call:now",
        "{\"name\": \"now\", \"arguments\": {\"a\": 1}}",
        "city=1",
        "<think>",
        "</think>",
        "<",
        "</",
        ">",
        "<|",
        "function",
        "```json",
        "true",
        "=city>",
        "to=functions.now",
        "analysis",
        "<|channel|>",
        "<|message|>",
        "<|start|>",
        "<|end|>",
        "<|call|>",
        "assistant",
        "final",
    ]
    .map(str::to_owned)
    .to_vec();
    for format in Format::ALL {
        let syntax = format.call_syntax();
        for wrap in [syntax.section, syntax.call] {
            fragments.extend([wrap.begin, wrap.end].map(str::to_owned));
        }
    }
    for fixture in support::fixtures().into_iter().filter(|fixture| fixture.name == "two calls") {
        // Halves of real outputs, so that random text gets deep into a format.
        let half =
            fixture.output.char_indices().nth(fixture.output.chars().count() / 3).map_or(0, |(at, _)| at);
        fragments.extend([fixture.output[..half].to_owned(), fixture.output[half..].to_owned()]);
    }
    fragments.retain(|fragment| !fragment.is_empty());
    fragments
}

fn texts() -> impl Strategy<Value = String> {
    let known = prop::collection::vec(select(fragments()), 0..24).prop_map(|parts| parts.concat());
    prop_oneof![4 => known, 1 => any::<String>()]
}

fn setups() -> impl Strategy<Value = (Format, Option<Reasoning>, Start, CallPlace)> {
    (
        select(Format::ALL),
        select(vec![None, Some(Reasoning::THINK)]),
        select(vec![Start::Message, Start::Reasoning]),
        select(vec![CallPlace::Anywhere, CallPlace::Start, CallPlace::MarkedStart]),
    )
}

fn setup((format, reasoning, start, place): (Format, Option<Reasoning>, Start, CallPlace)) -> Setup {
    Setup { format: Some(format), reasoning, start, tools: support::tools(), place, control: Vec::new() }
}

/// Text without whitespace and without the markers that may be dropped where no call is.
fn bones(text: &str, format: Format) -> String {
    let mut text = text.to_owned();
    let silent: &[&str] = match format {
        Format::Cohere => &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
        Format::Solar => &["<|begin|>assistant", "<|content|>"],
        Format::KimiK3 => &["<|open|>response<|sep|>", "<|close|>response<|sep|>"],
        _ => &[],
    };
    for marker in ["<think>", "</think>"].iter().chain(silent) {
        text = text.replace(marker, "");
    }
    text.retain(|character| !character.is_ascii_whitespace());
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_gives_the_same(setup_of in setups(), text in texts(), at in any::<prop::sample::Index>()) {
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let at = cuts[at.index(cuts.len())];
        let whole = parse_text(setup(setup_of), &text);
        prop_assert_eq!(&parse(setup(setup_of), [Piece::Text(&text[..at]), Piece::Text(&text[at..])]), &whole);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        prop_assert_eq!(&parse(setup(setup_of), characters.iter().map(|text| Piece::Text(text))), &whole);
    }

    #[test]
    fn text_without_a_call_is_kept(setup_of in setups(), text in texts()) {
        let (events, ending) = parse_text(setup(setup_of), &text);
        let has_call = events.iter().any(|event| matches!(event, Event::CallStarted { .. }));
        // Headers of messages are syntax with or without a call.
        if !has_call && setup_of.0 != Format::Harmony {
            prop_assert_eq!(bones(&all_text(&events, &ending), setup_of.0), bones(&text, setup_of.0));
        }
    }

    /// Control tokens are pieces of their own; the text between them may be cut anywhere.
    #[test]
    fn control_tokens_change_nothing_of_that(
        setup_of in setups(),
        parts in prop::collection::vec((select(fragments()), any::<bool>()), 0..24),
    ) {
        let control: Vec<String> = fragments().iter().map(|fragment| fragment.trim().to_owned()).collect();
        let setup = || Setup { control: control.clone(), ..setup(setup_of) };
        let piece = |(text, is_control): &(String, bool)| (text.trim().to_owned(), *is_control);
        let parts: Vec<(String, bool)> = parts.iter().map(piece).collect();
        let whole = parse(setup(), parts.iter().map(|(text, is_control)| match is_control {
            true => Piece::Control(text),
            false => Piece::Text(text),
        }));
        let mut characters = Vec::new();
        for (text, is_control) in &parts {
            match is_control {
                true => characters.push(Piece::Control(text)),
                false => characters.extend(text.char_indices().map(|(at, c)| Piece::Text(&text[at..at + c.len_utf8()]))),
            }
        }
        prop_assert_eq!(parse(setup(), characters), whole);
    }

    /// What is text stands in the output in that order, and each call's events are in order and end once.
    #[test]
    fn events_are_well_formed(setup_of in setups(), text in texts()) {
        let (events, _) = parse_text(setup(setup_of), &text);
        let (mut rest, mut open, mut calls) = (text.chars(), None, 0);
        for event in &events {
            match event {
                Event::Content(part) | Event::Reasoning(part) => {
                    prop_assert!(open.is_none() && !part.is_empty());
                    for character in part.chars() {
                        prop_assert!(rest.any(|other| other == character), "{part:?} is not of the output");
                    }
                }
                Event::CallStarted { index, .. } => {
                    prop_assert!(open.is_none() && *index == calls);
                    open = Some(*index);
                    calls += 1;
                }
                Event::Arguments { index, fragment } => prop_assert!(open == Some(*index) && !fragment.is_empty()),
                Event::CallFinished { index } | Event::CallBroken { index, .. } => prop_assert_eq!(open.take(), Some(*index)),
            }
        }
        prop_assert!(open.is_none());
        for (_, _, _, arguments) in support::finished_calls(&events) {
            let value: Result<serde_json::Value, _> = serde_json::from_str(&arguments);
            prop_assert!(value.is_ok_and(|value| value.is_object()), "{arguments}");
        }
    }
}

/// However long an output, what is held back is bounded: what comes out lags behind what went in by a bounded length.
#[test]
fn little_is_held_back() {
    let endless = [
        "<tool_call>{\"a\": \"",
        "[",
        "{\"name\": \"",
        "[TOOL_CALLS]",
        "<tool_call>",
        "\n",
        "<tool_call>\n",
        "{",
        "call:",
        "[now",
        "<|channel|>",
        "<|start|>assistant",
        "<|channel|>commentary to=functions.now<|message|> ",
        "<|tool_call_begin|>",
        " ",
    ];
    for format in Format::ALL {
        for part in endless {
            let mut parser =
                Parser::new(setup((*format, Some(Reasoning::THINK), Start::Message, CallPlace::Anywhere)));
            let (mut pushed, mut lag) = (0, 0_usize);
            let mut said = 0;
            for _ in 0..(20_000 / part.len()) {
                pushed += part.len();
                for event in parser.push(Piece::Text(part)) {
                    said += match event {
                        Event::Content(text) | Event::Reasoning(text) => text.len(),
                        _ => 0,
                    };
                }
                lag = lag.max(pushed - said);
            }
            let is_dropped = *format == Format::Harmony;
            assert!(
                is_dropped || lag <= MAX_HELD_HEAD + 512,
                "{}: {part:?}: {lag} bytes behind",
                format.name()
            );
        }
    }
}

/// Arguments are passed on as they come, also where an id may stand behind them.
#[test]
fn arguments_do_not_wait_for_an_id() {
    let mut parser = Parser::new(setup((Format::MistralList, None, Start::Message, CallPlace::Anywhere)));
    let started = Event::CallStarted { index: 0, id: None, name: "now".to_owned() };
    let fragment = |text: &str| Event::Arguments { index: 0, fragment: text.to_owned() };
    let head = r#"[TOOL_CALLS][{"name": "now", "arguments": {"a": ""#;
    assert_eq!(parser.push(Piece::Text(head)), [started, fragment(r#"{"a": ""#)]);
    assert_eq!(parser.push(Piece::Text("xy")), [fragment("xy")]);
    let rest = r#""}, "id": "abcdefghi"}]"#;
    assert_eq!(parser.push(Piece::Text(rest)), [fragment("\"}"), Event::CallFinished { index: 0 }]);
}

/// Values that are nested without end are refused, in every format, without a deep stack.
#[test]
fn deep_nesting_is_refused() {
    let deep = "[".repeat(100_000);
    for (format, head) in [
        (Format::Hermes, "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": "),
        (Format::KimiK2, "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{\"a\": "),
        (Format::Pythonic, "[now(a="),
        (Format::Gemma4, "<|tool_call>call:now{a:"),
        (Format::Qwen3Coder, "<tool_call><function=get_weather><parameter=flags>"),
    ] {
        let text = format!("{head}{deep}</parameter></function>");
        let (events, _) = parse_text(setup((format, None, Start::Message, CallPlace::Anywhere)), &text);
        assert!(events.len() > 2, "{}: {:?}", format.name(), events.first());
    }
}
