//! Halves of surrogate pairs in the arguments of calls: what a client gets is JSON that strict parsers take.

mod support;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use support::{finished_calls, parse, parse_text};
use troupe_parsers::{Format, Piece, Setup};

/// What a string of JSON is made of: how it is written, and the UTF-16 that it stands for.
const PARTS: [(&str, &[u16]); 10] = [
    ("\\ud83d", &[0xd83d]),
    ("\\uDE42", &[0xde42]),
    ("\\uD800", &[0xd800]),
    ("\\udfff", &[0xdfff]),
    ("\\u00e9", &[0xe9]),
    ("\\n", &[0xa]),
    ("\\\\", &[0x5c]),
    ("\\\"", &[0x22]),
    ("x", &[0x78]),
    ("é", &[0xe9]),
];

/// Calls with `object` as their arguments, in formats that are read by different parts of the parser.
fn outputs(object: &str) -> Vec<(Format, String)> {
    let in_string = serde_json::to_string(object).unwrap();
    vec![
        (
            Format::Hermes,
            format!("<tool_call>{{\"name\": \"get_weather\", \"arguments\": {object}}}</tool_call>"),
        ),
        (
            Format::Hermes,
            format!("<tool_call>{{\"arguments\": {object}, \"name\": \"get_weather\"}}</tool_call>"),
        ),
        (
            Format::Hermes,
            format!("<tool_call>{{\"name\": \"get_weather\", \"arguments\": {in_string}}}</tool_call>"),
        ),
        (
            Format::MistralList,
            format!("[TOOL_CALLS][{{\"name\": \"get_weather\", \"arguments\": {object}}}]"),
        ),
        (
            Format::KimiK2,
            format!(
                "<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{object}<|tool_call_end|>"
            ),
        ),
        (
            Format::Harmony,
            format!("<|channel|>commentary to=functions.get_weather<|message|>{object}<|call|>"),
        ),
    ]
}

fn setup(format: Format) -> Setup {
    Setup { format: Some(format), tools: support::tools(), ..Setup::default() }
}

/// The arguments of the only call, whole and character by character.
fn arguments(format: Format, output: &str) -> String {
    let whole = parse_text(setup(format), output);
    let cuts = output.char_indices().map(|(at, c)| Piece::Text(&output[at..at + c.len_utf8()]));
    assert_eq!(parse(setup(format), cuts), whole, "{output}");
    let calls = finished_calls(&whole.0);
    assert_eq!(calls.len(), 1, "{}: {output}: {whole:?}", format.name());
    calls[0].3.clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn half_of_a_surrogate_pair_in_arguments_is_a_replacement(
        parts in prop::collection::vec(select(&PARTS[..]), 0..12),
    ) {
        let written: String = parts.iter().map(|(written, _)| *written).collect();
        let units: Vec<u16> = parts.iter().flat_map(|(_, units)| *units).copied().collect();
        let said = String::from_utf16_lossy(&units);
        let object = format!("{{\"city\": \"{written}\"}}");
        for (format, output) in outputs(&object) {
            let got: Value = serde_json::from_str(&arguments(format, &output)).unwrap();
            prop_assert_eq!(got, json!({"city": said}), "{}", output);
        }
        // A value that is held until it is whole.
        let output = format!(
            "<tool_call><function=get_weather><parameter=nested>{object}</parameter></function></tool_call>"
        );
        let got: Value = serde_json::from_str(&arguments(Format::Qwen3Coder, &output)).unwrap();
        prop_assert_eq!(got, json!({"nested": {"city": said}}));
    }
}

#[test]
fn a_text_of_nothing_but_halves_is_no_end_of_its_call() {
    let object = format!("{{\"city\": \"{}\"}}", "\\ud83d".repeat(600));
    for (format, output) in outputs(&object) {
        let got: Value = serde_json::from_str(&arguments(format, &output)).unwrap();
        assert_eq!(got, json!({"city": "\u{fffd}".repeat(600)}), "{}", format.name());
    }
}

#[test]
fn a_call_that_is_cut_off_in_an_escape_begins_with_json() {
    for cut in ["\\", "\\u", "\\ud83", "\\ud83d", "\\ud83d\\", "\\ud83d\\ude4"] {
        let output = format!("<tool_call>{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"x{cut}");
        let (events, _) = parse_text(setup(Format::Hermes), &output);
        let fragment = |event: &troupe_parsers::Event| match event {
            troupe_parsers::Event::Arguments { fragment, .. } => fragment.clone(),
            _ => String::new(),
        };
        let arguments: String = events.iter().map(fragment).collect();
        assert_eq!(arguments, "{\"city\": \"x");
    }
}
