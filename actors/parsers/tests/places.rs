//! Where calls may stand, of answers that are either calls or something else.

mod support;

use support::{joined, parse_text};
use troupe_parsers::{CallPlace, Event, Format, Parser, Piece, Setup};

const ALL: [CallPlace; 3] = [CallPlace::Anywhere, CallPlace::Start, CallPlace::MarkedStart];

/// How many calls an output holds, and what else.
fn count(events: &[Event]) -> (usize, String) {
    let content = events.iter().filter_map(|event| match event {
        Event::Content(text) => Some(text.as_str()),
        _ => None,
    });
    (support::finished_calls(events).len(), content.collect())
}

#[test]
fn what_looks_like_a_call_is_one_only_where_calls_may_stand() {
    let element = "<function=now>\n</function>";
    let quoted = "{\"a\": \"<function=now>\n</function>\"}";
    let hermes = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let object = "{\"name\": \"now\", \"parameters\": {}}";
    for (format, output, calls) in [
        (Format::Qwen3Coder, element.to_owned(), [1, 1, 1]),
        (Format::Qwen3Coder, quoted.to_owned(), [1, 0, 0]),
        (Format::Hermes, format!("{hermes}\n{hermes}"), [2, 2, 2]),
        (Format::Hermes, format!("\n {hermes}"), [1, 1, 1]),
        (Format::Hermes, format!("7{hermes}"), [1, 0, 0]),
        (Format::Hermes, format!("<tool{hermes}"), [1, 0, 0]),
        (Format::Llama3, object.to_owned(), [1, 1, 0]),
        (Format::Llama3, format!("<|python_tag|>{object}"), [1, 1, 1]),
        (Format::Llama3, format!("{{\"a\": 1}}<|python_tag|>{object}"), [1, 0, 0]),
        (Format::Pythonic, "[now()]".to_owned(), [1, 1, 0]),
        (Format::Pythonic, "[true, 1]".to_owned(), [0, 0, 0]),
        (Format::Pythonic, "[\"<|python_start|>[now()]<|python_end|>\"]".to_owned(), [1, 0, 0]),
        (Format::Firefunction, "functools[{\"name\": \"now\", \"arguments\": {}}]".to_owned(), [1, 1, 1]),
        (Format::Firefunction, "false".to_owned(), [0, 0, 0]),
    ] {
        for (place, calls) in ALL.into_iter().zip(calls) {
            let setup = || Setup { format: Some(format), tools: support::tools(), place, ..Setup::default() };
            let (whole, _) = parse_text(setup(), &output);
            let case = format!("{}, {place:?}: {output:?}", format.name());
            let expected = if calls > 0 { None } else { Some(output.as_str()) };
            let (found, content) = count(&whole);
            assert_eq!(found, calls, "{case}");
            assert!(expected.is_none_or(|text| content == text), "{case}: {content:?}");
            for at in output.char_indices().map(|(at, _)| at) {
                let mut parser = Parser::new(setup());
                let mut events = parser.push(Piece::Text(&output[..at]));
                events.extend(parser.push(Piece::Text(&output[at..])));
                events.extend(parser.finish().0);
                assert_eq!(joined(events), whole, "{case}, split at {at}");
            }
        }
    }
}
