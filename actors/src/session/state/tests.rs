mod calls;

use std::sync::Arc;

use troupe_protocol::sampling::Ban;
use troupe_protocol::{
    Fault, RateStatus, RateStatuses, RejectReason, RequestPart, SamplingParams, StepId, TokenLogprobs,
};

use super::*;
use crate::session::prompt::LEAST_LOGPROB;
use crate::session::{Admission, Alternative, AnswerKind, PromptToken};
use crate::testing::{END, byte_tokenizer, token};

fn state(stop: &[&str]) -> SessionState {
    let request = request(stop);
    SessionState::new(&request, &Arc::new(byte_tokenizer().unwrap()))
}

fn request(stop: &[&str]) -> SessionRequest {
    SessionRequest {
        choice: 0,
        prompt: vec![1, 2, 3],
        sampling: SamplingParams::greedy(),
        max_tokens: 100,
        answer: AnswerKind::Generated,
        stop_tokens: vec![END],
        stop: stop.iter().map(|&stop| stop.to_owned()).collect(),
        reading: None,
        guide: None,
        admission: Admission::default(),
        part: RequestPart::First,
    }
}

#[test]
fn stop_strings_wait_for_min_tokens() {
    let run = |min_tokens: u32| {
        let request = SessionRequest {
            sampling: SamplingParams {
                ban: Some(Ban { tokens: vec![END], before: 3 + min_tokens }),
                ..SamplingParams::greedy()
            },
            ..request(&["ab"])
        };
        let mut state = SessionState::new(&request, &Arc::new(byte_tokenizer().unwrap()));
        let tokens = b"abababab".iter().map(|&byte| token(byte.into()));
        let parts = tokens.chain([finished(SequenceEnd::Length, 8)]).flat_map(|event| state.push(event));
        whole(&parts.collect::<Vec<_>>())
    };
    // A stop string counts where all of it comes after the least tokens.
    assert_eq!([0, 1, 2, 3, 4, 8].map(run), ["", "ab", "ab", "abab", "abab", "abababab"]);
}

fn usage(completion_tokens: u32) -> Usage {
    Usage { prompt_tokens: 3, completion_tokens, ..Usage::default() }
}

fn finished(reason: SequenceEnd, completion_tokens: u32) -> SequenceEvent {
    SequenceEvent::Finished { reason, usage: usage(completion_tokens) }
}

fn text(text: &str) -> Part {
    Part::Text(Piece { text: text.to_owned(), tokens: Vec::new() })
}

fn end(reason: FinishReason, completion_tokens: u32) -> Part {
    Part::End(End::Finished { reason, usage: usage(completion_tokens), matched_stop: None })
}

/// By the stop string of this index.
fn stopped(by: usize, completion_tokens: u32) -> Part {
    let reason = FinishReason::Stop;
    Part::End(End::Finished { reason, usage: usage(completion_tokens), matched_stop: Some(by) })
}

/// What comes of each byte of `input`, then of the end.
fn run(stop: &[&str], input: &[u8]) -> Vec<Part> {
    let mut state = state(stop);
    let tokens = input.iter().map(|&byte| token(byte.into()));
    let last = finished(SequenceEnd::Length, input.len() as u32);
    tokens.chain([last]).flat_map(|event| state.push(event)).collect()
}

fn whole(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(piece) => Some(piece.text.as_str()),
        Part::Accepted(_) | Part::Prompt(_) | Part::Reasoning(_) | Part::Call(_) | Part::End(_) => None,
    });
    texts.collect()
}

#[test]
fn c030_no_piece_holds_part_of_a_character() {
    let input = "hi 😀 日本語";
    let parts = run(&[], input.as_bytes());
    assert_eq!(whole(&parts), input);
    assert_eq!(parts.len(), input.chars().count() + 1, "{parts:?}");
}

#[test]
fn c031u_a_character_cut_by_max_tokens_ends_as_a_replacement() {
    let parts = run(&[], "a😀".as_bytes().split_last().unwrap().1);
    assert_eq!(parts, [text("a"), text("\u{fffd}"), end(FinishReason::Length, 4)]);
}

#[test]
fn c038_c041_no_part_of_a_stop_string_leaves() {
    let parts = run(&["other", "DEFGHIJ"], b"ABCDEFGHIJKL");
    assert_eq!(parts, [text("A"), text("B"), text("C"), stopped(1, 10)]);
}

#[test]
fn c043_a_stop_string_that_fails_is_released_once() {
    for (stop, input) in [("abx", "ababab"), ("aab", "aaaa"), ("😀x", "😀😀"), ("end", "the en")] {
        let parts = run(&[stop], input.as_bytes());
        assert_eq!(whole(&parts), input, "{stop:?}");
        assert_eq!(parts.last(), Some(&end(FinishReason::Length, input.len() as u32)));
    }
}

#[test]
fn a_stop_token_is_counted_and_not_printed() {
    let mut state = state(&[]);
    assert_eq!(state.push(token(b'a'.into())), [text("a")]);
    assert_eq!(state.push(token(END)), []);
    assert_eq!(state.push(finished(SequenceEnd::Stop, 2)), [end(FinishReason::Stop, 2)]);
}

#[test]
fn a_stop_token_releases_what_was_held() {
    let mut state = state(&["abc"]);
    assert_eq!(state.push(token(b'a'.into())), []);
    assert_eq!(state.push(token(END)), []);
    assert_eq!(state.push(finished(SequenceEnd::Stop, 2)), [text("a"), end(FinishReason::Stop, 2)]);
}

#[test]
fn what_limits_leave_is_said_before_all_else() {
    let status = RateStatus { limit: 5, remaining: 4, reset: 12_000_000 };
    let rates = RateStatuses { requests: Some(status), tokens: None };
    let mut state = state(&[]);
    assert_eq!(state.push(SequenceEvent::Accepted(rates)), [Part::Accepted(rates)]);
    assert_eq!(state.push(token(b'a'.into())), [text("a")]);
}

#[test]
fn every_ending_ends_once_and_for_good() {
    let fault = Fault::Step { step: StepId(1), message: "out of memory".to_owned() };
    let full = RejectReason::QueueFull { limit: 8, rates: RateStatuses::default() };
    for (event, ending) in [
        (finished(SequenceEnd::Length, 1), end(FinishReason::Length, 1)),
        (SequenceEvent::Rejected(full.clone()), Part::End(End::Rejected(full))),
        (SequenceEvent::Failed(fault.clone()), Part::End(End::Failed(fault))),
    ] {
        let mut state = state(&[]);
        assert!(!state.is_over());
        assert_eq!(state.push(event.clone()), [ending]);
        assert!(state.is_over());
        assert_eq!(state.push(event), []);
        assert_eq!(state.push(token(b'a'.into())), []);
    }
}

fn scored(id: TokenId) -> SequenceEvent {
    let top = vec![(id, -0.5), (0xf0, -1.5), (0xf1, f32::NEG_INFINITY)];
    SequenceEvent::Token(SampledToken { id, logprobs: Some(TokenLogprobs { chosen: -0.5, top }) })
}

fn tokens(parts: &[Part]) -> Vec<(usize, Vec<u8>)> {
    let pieces = parts.iter().filter_map(|part| match part {
        Part::Text(piece) => Some(&piece.tokens),
        Part::Accepted(_) | Part::Prompt(_) | Part::Reasoning(_) | Part::Call(_) | Part::End(_) => None,
    });
    pieces.flatten().map(|token| (token.offset, token.chosen.bytes.clone())).collect()
}

#[test]
fn c066_c068_each_token_keeps_its_own_alternatives() {
    let parts = state(&[]).push(scored(b'a'.into()));
    let [Part::Text(Piece { text, tokens })] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(text, "a");
    let bytes: Vec<_> = tokens[0].top.iter().map(|token| token.bytes.as_slice()).collect();
    // The last two read the same as text.
    assert_eq!(bytes, [&b"a"[..], b"\xf0", b"\xf1"]);
    assert_eq!(tokens[0].top[2].logprob, LEAST_LOGPROB);
}

#[test]
fn a_prompt_is_told_token_by_token_before_what_is_generated() {
    let sampling = SamplingParams { prompt_logprobs: Some(1), ..SamplingParams::greedy() };
    let logprobs =
        |at: u32| TokenLogprobs { chosen: f32::NEG_INFINITY, top: vec![(b'a'.into(), -(at as f32))] };
    let told = |id: u8, at: u32| PromptToken {
        bytes: vec![id],
        logprob: Some(LEAST_LOGPROB),
        top: vec![Alternative { bytes: b"a".to_vec(), logprob: -(at as f32) }],
    };
    for (answer, text, generated) in [(AnswerKind::Generated, "x", 1), (AnswerKind::Prompt, "", 0)] {
        let request = SessionRequest { sampling: sampling.clone(), answer, ..request(&[]) };
        let mut state = SessionState::new(&request, &Arc::new(byte_tokenizer().unwrap()));
        let first = PromptToken { bytes: vec![1], logprob: None, top: vec![] };
        let parts = state.push(SequenceEvent::Started { cached_tokens: 0 });
        assert_eq!(parts, [Part::Prompt(vec![first])]);
        for at in 1..=2 {
            let parts = state.push(SequenceEvent::Prompt(vec![logprobs(at)]));
            assert_eq!(parts, [Part::Prompt(vec![told(at as u8 + 1, at)])]);
        }
        let mut parts = state.push(token(b'x'.into()));
        parts.extend(state.push(finished(SequenceEnd::Length, 1)));
        assert_eq!(whole(&parts), text);
        let Some(Part::End(End::Finished { reason, usage, .. })) = parts.last() else { panic!("{parts:?}") };
        assert_eq!((*reason, usage.completion_tokens), (FinishReason::Length, generated));
    }
}

#[test]
fn tokens_leave_with_the_text_that_they_begin_in() {
    let mut state = state(&["cd"]);
    let input = "aé".bytes().chain(*b"bc").map(|byte| scored(byte.into()));
    let parts: Vec<_> = input.flat_map(|event| state.push(event)).collect();
    let expected = [(0, vec![b'a']), (1, vec![0xc3]), (1, vec![0xa9]), (2, vec![b'b'])];
    assert_eq!(tokens(&parts), expected);
    assert_eq!(whole(&parts), "aéb");
    let rest = state.push(finished(SequenceEnd::Length, 5));
    assert_eq!(tokens(&rest), [(3, vec![b'c'])]);
}

#[test]
fn tokens_of_a_stop_string_are_not_reported() {
    let mut state = state(&["bc"]);
    let parts: Vec<_> = b"abc".iter().flat_map(|&byte| state.push(scored(byte.into()))).collect();
    assert_eq!(tokens(&parts), [(0, vec![b'a'])]);
    assert!(state.is_over());
}
