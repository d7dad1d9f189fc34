//! However an output is cut into pieces, the same comes out.

mod support;

use support::{Fixture, fixtures, joined, parse, parse_text};
use troupe_parsers::{Broken, Ending, Event, Format, Parser, Piece, Setup};

/// Outputs of up to this many bytes are cut at every two places.
const SHORT: usize = 90;

fn check(fixture: &Fixture, pieces: &[&str]) {
    let (events, ending) = parse(fixture.setup(), pieces.iter().map(|piece| Piece::Text(piece)));
    assert_eq!((&events, &ending), (&fixture.events, &fixture.ending), "{}: {pieces:?}", fixture.label());
}

fn cuts(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

#[test]
fn every_split_gives_the_same() {
    let mut splits = 0;
    for fixture in fixtures() {
        let output = &fixture.output;
        for at in cuts(output) {
            check(&fixture, &[&output[..at], &output[at..]]);
            splits += 1;
        }
    }
    assert!(splits > 10_000, "only {splits} splits");
}

#[test]
fn every_two_splits_of_short_outputs_give_the_same() {
    let mut outputs = 0;
    for fixture in fixtures().into_iter().filter(|fixture| fixture.output.len() <= SHORT) {
        let output = &fixture.output;
        for second in cuts(output) {
            for first in cuts(&output[..second]) {
                check(&fixture, &[&output[..first], &output[first..second], &output[second..]]);
            }
        }
        outputs += 1;
    }
    assert!(outputs > 50, "only {outputs} outputs");
}

#[test]
fn characters_one_by_one_give_the_same() {
    for fixture in fixtures() {
        let output = &fixture.output;
        let ends = cuts(output);
        let pieces: Vec<&str> = ends.windows(2).map(|ends| &output[ends[0]..ends[1]]).collect();
        check(&fixture, &pieces);
    }
}

/// The output with every spelling of a control token as a piece of its own.
fn tokens<'a>(text: &'a str, control: &'a [String]) -> Vec<Piece<'a>> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        match control.iter().find(|token| rest.starts_with(token.as_str())) {
            Some(token) => {
                pieces.push(Piece::Control(token));
                rest = &rest[token.len()..];
            }
            None => {
                let next = rest.chars().next().map_or(0, char::len_utf8);
                pieces.push(Piece::Text(&rest[..next]));
                rest = &rest[next..];
            }
        }
    }
    pieces
}

/// The markers that stand between angle brackets or in square ones, as a vocabulary might have them.
#[test]
fn control_tokens_give_the_same_as_their_spelling() {
    let mut control_pieces = 0;
    for fixture in fixtures()
        .into_iter()
        .filter(|fixture| fixture.name.starts_with("two calls") || fixture.name == "calls")
    {
        let format = fixture.format.expect("a format");
        let syntax = format.call_syntax();
        let mut control: Vec<String> = match format {
            Format::Harmony => Vec::new(),
            _ => [syntax.section, syntax.call]
                .iter()
                .flat_map(|wrap| [wrap.begin.trim(), wrap.end.trim()])
                .map(str::to_owned)
                .collect(),
        };
        let others = [
            "<think>",
            "</think>",
            "<|channel|>",
            "<|message|>",
            "<|call|>",
            "<|start|>",
            "<|end|>",
            "<|constrain|>",
        ];
        control.extend(others.map(str::to_owned));
        control.retain(|token| !token.is_empty());
        let pieces = tokens(&fixture.output, &control);
        control_pieces += pieces.iter().filter(|piece| matches!(piece, Piece::Control(_))).count();
        let setup = Setup { control: control.clone(), ..fixture.setup() };
        let (events, ending) = parse(setup, pieces);
        assert_eq!((&events, &ending), (&fixture.events, &fixture.ending), "{}", fixture.label());
    }
    assert!(control_pieces > 300, "only {control_pieces} control tokens");
}

/// An output that is cut off anywhere says what was whole, what was not, and nothing that the whole output does not say.
#[test]
fn every_prefix_is_read_sensibly() {
    for fixture in fixtures() {
        let whole = support::finished_calls(&fixture.events);
        for at in cuts(&fixture.output) {
            let prefix = &fixture.output[..at];
            let label = format!("{}: {prefix:?}", fixture.label());
            let (events, ending) = parse_text(fixture.setup(), prefix);
            let calls = support::finished_calls(&events);
            assert_eq!(calls, whole[..calls.len()], "{label}");
            let is_cut = |event: &Event| matches!(event, Event::CallBroken { reason: Broken::CutOff, .. });
            assert_eq!(events.last().is_some_and(is_cut), matches!(ending, Ending::InCall { .. }), "{label}");
            if let (Ending::InCall { index }, Some((_, id, name, arguments))) =
                (&ending, whole.get(calls.len()))
            {
                let started = Event::CallStarted { index: *index, id: id.clone(), name: name.clone() };
                assert!(events.contains(&started), "{label}");
                let begun = events.iter().rev().find_map(|event| match event {
                    Event::Arguments { index: of, fragment } if of == index => Some(fragment.as_str()),
                    _ => None,
                });
                assert!(arguments.starts_with(begun.unwrap_or_default()), "{label}: {begun:?}");
            }
        }
    }
}

/// What was said before the end is never taken back.
#[test]
fn events_are_never_taken_back() {
    for fixture in fixtures() {
        for at in cuts(&fixture.output) {
            let mut parser = Parser::new(fixture.setup());
            let said = joined(parser.push(Piece::Text(&fixture.output[..at])));
            let mut all = said.clone();
            all.extend(parser.push(Piece::Text(&fixture.output[at..])));
            all.extend(parser.finish().0);
            assert_eq!(joined(all), fixture.events);
        }
    }
}
