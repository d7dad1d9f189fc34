//! Calls and reasoning, told from the content that they stand in.

use troupe_parsers::{Format, Reasoning, Setup, Start, Tool};

use super::*;
use crate::session::{Budget, Reading};

/// A state that reads, with these stop strings and no stop tokens.
fn reading(setup: Setup, calls: CallLimit, stop: &[&str]) -> SessionState {
    let reading = Some(Reading { setup, calls, budget: None, id_seed: 0xab });
    let request = SessionRequest { reading, stop_tokens: Vec::new(), ..request(stop) };
    SessionState::new(&request, &Arc::new(byte_tokenizer().unwrap()))
}

fn hermes() -> Setup {
    let tool = |name: &str| Tool { name: name.to_owned(), parameters: serde_json::Value::Null };
    Setup {
        format: Some(Format::Hermes),
        reasoning: Some(Reasoning::THINK),
        tools: vec![tool("f"), tool("g")],
        ..Setup::default()
    }
}

/// What all parts say together: content, reasoning, calls as `name(arguments)` with their state, and the end.
fn gist(parts: &[Part]) -> (String, String, Vec<String>, Option<FinishReason>) {
    let (mut content, mut reasoning, mut calls, mut end) = (String::new(), String::new(), Vec::new(), None);
    for part in parts {
        match part {
            Part::Accepted(_) | Part::Prompt(_) => {}
            Part::Text(piece) => content += &piece.text,
            Part::Reasoning(piece) => reasoning += &piece.text,
            Part::Call(CallPart::Started { name, .. }) => calls.push(format!("{name}(")),
            Part::Call(CallPart::Arguments { index, fragment }) => calls[*index] += fragment,
            Part::Call(CallPart::Finished { index }) => calls[*index] += ")",
            Part::Call(CallPart::Broken { index }) => calls[*index] += "…",
            Part::End(End::Finished { reason, .. }) => end = Some(*reason),
            Part::End(other) => panic!("{other:?}"),
        }
    }
    (content, reasoning, calls, end)
}

const TWO_CALLS: &str = "<think>\nTwo.\n</think>\n\nLook:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x y\"}}\n\
    </tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";

fn read(mut state: SessionState, output: &str, end: SequenceEnd) -> Vec<Part> {
    let tokens = output.bytes().map(|byte| scored(byte.into()));
    let last = finished(end, output.len() as u32);
    tokens.chain([last]).flat_map(|event| state.push(event)).collect()
}

#[test]
fn the_models_id_is_the_calls_where_its_template_takes_it_back() {
    let call = |id: &str| format!("{{\"id\": \"{id}\", \"name\": \"f\", \"arguments\": {{}}}}");
    let output = format!("[TOOL_CALLS][{}, {}, {}]", call("Abc123xyZ"), call("call_1"), call("ümlautsx"));
    let setup = Setup { format: Some(Format::MistralList), ..hermes() };
    let parts = read(reading(setup, CallLimit::Any, &[]), &output, SequenceEnd::Stop);
    let id = |part: &Part| match part {
        Part::Call(CallPart::Started { id, .. }) => Some(id.clone()),
        _ => None,
    };
    let ids: Vec<String> = parts.iter().filter_map(id).collect();
    assert_eq!(ids[0], "Abc123xyZ");
    assert_eq!(ids.len(), 3);
    for id in &ids[1..] {
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    }
    assert_ne!(ids[1], ids[2]);
}

#[test]
fn c058_reasoning_content_and_calls_are_told_apart() {
    let parts = read(reading(hermes(), CallLimit::Any, &[]), TWO_CALLS, SequenceEnd::Stop);
    let calls = vec!["f({\"a\": \"x y\"})".to_owned(), "g({})".to_owned()];
    assert_eq!(gist(&parts), ("Look:".to_owned(), "Two.".to_owned(), calls, Some(FinishReason::ToolCalls)));
    let ids = parts.iter().filter_map(|part| match part {
        Part::Call(CallPart::Started { id, .. }) => Some(id.as_str()),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["call_00000000000000ab0000", "call_00000000000000ab0001"]);
    let Some(Part::End(End::Finished { usage, .. })) = parts.last() else { panic!("{parts:?}") };
    // From behind the opening tag to the end of the closing one, a token for each byte.
    assert_eq!(usage.reasoning_tokens as usize, "\nTwo.\n</think>".len());
}

#[test]
fn each_token_is_reported_with_the_text_that_it_begins_in_and_syntax_is_not() {
    let parts = read(reading(hermes(), CallLimit::Any, &[]), TWO_CALLS, SequenceEnd::Stop);
    let of = |wanted: fn(&Part) -> Option<&Piece>| {
        let tokens = parts.iter().filter_map(wanted).flat_map(|piece| &piece.tokens);
        tokens.map(|token| (token.offset, token.chosen.text())).collect::<Vec<_>>()
    };
    let letters = |text: &str| text.chars().map(String::from).enumerate().collect::<Vec<_>>();
    let content = of(|part| if let Part::Text(piece) = part { Some(piece) } else { None });
    assert_eq!(content, letters("Look:"));
    let reasoning = of(|part| if let Part::Reasoning(piece) = part { Some(piece) } else { None });
    assert_eq!(reasoning, letters("Two."));
}

#[test]
fn what_only_looks_like_a_call_keeps_its_tokens() {
    let output = "a <tool_call>é</tool_call>";
    let parts = read(reading(hermes(), CallLimit::Any, &[]), output, SequenceEnd::Stop);
    assert_eq!(whole(&parts), output);
    let bytes: Vec<u8> = tokens(&parts).into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), output);
}

#[test]
fn c205_a_cut_call_is_never_told_as_whole() {
    for (length, _) in TWO_CALLS.char_indices() {
        let parts = read(reading(hermes(), CallLimit::Any, &[]), &TWO_CALLS[..length], SequenceEnd::Length);
        let (content, reasoning, calls, end) = gist(&parts);
        // Half a tag is text.
        let tag = content.strip_prefix("Look:").unwrap_or_default().trim_start();
        assert!("<tool_call>".starts_with(tag) && TWO_CALLS.contains(&reasoning), "{content} {reasoning}");
        assert_eq!(end, Some(FinishReason::Length));
        for call in calls {
            let whole = call.ends_with(')');
            let arguments = call[2..].trim_end_matches([')', '…']);
            assert_eq!(serde_json::from_str::<serde_json::Value>(arguments).is_ok(), whole, "{call}");
        }
    }
}

#[test]
fn the_beginning_of_a_call_is_content_only_if_the_model_ended_there() {
    for (end, content) in [(SequenceEnd::Stop, "a <tool_call>\n{"), (SequenceEnd::Length, "a ")] {
        let parts = read(reading(hermes(), CallLimit::Any, &[]), "a <tool_call>\n{", end);
        assert_eq!(gist(&parts).0, content);
    }
}

#[test]
fn half_a_call_is_nothing_to_act_on() {
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    let broken = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\" 1}}\n</tool_call>";
    for (output, reason) in [
        (call.to_owned(), FinishReason::ToolCalls),
        (broken.to_owned(), FinishReason::Stop),
        (format!("{call}\n{broken}"), FinishReason::Stop),
    ] {
        let parts = read(reading(hermes(), CallLimit::Any, &[]), &output, SequenceEnd::Stop);
        assert_eq!(gist(&parts).3, Some(reason), "{output}");
    }
}

#[test]
fn an_answer_of_one_call_ends_with_it() {
    let mut state = reading(hermes(), CallLimit::One, &[]);
    let parts: Vec<_> = TWO_CALLS.bytes().flat_map(|byte| state.push(token(byte.into()))).collect();
    assert!(state.is_over());
    let (_, _, calls, end) = gist(&parts);
    assert_eq!((calls, end), (vec!["f({\"a\": \"x y\"})".to_owned()], Some(FinishReason::ToolCalls)));
}

#[test]
fn c040_c045_c046_stop_strings_are_looked_for_in_content_alone() {
    for (stop, content, reason) in [
        ("x y", "Look:", FinishReason::ToolCalls),
        ("Two", "Look:", FinishReason::ToolCalls),
        ("ok:\n<", "Look:", FinishReason::ToolCalls),
        ("k:", "Loo", FinishReason::Stop),
    ] {
        let parts = read(reading(hermes(), CallLimit::Any, &[stop]), TWO_CALLS, SequenceEnd::Stop);
        let (said, _, _, end) = gist(&parts);
        assert_eq!((said.as_str(), end), (content, Some(reason)), "{stop:?}");
    }
}

#[test]
fn c216_a_control_token_is_read_as_syntax_and_its_spelling_as_text() {
    let setup = Setup {
        reasoning: Reasoning::from_name("solar"),
        control: vec!["<|end|>".to_owned()],
        ..Setup::default()
    };
    let mut state = reading(setup.clone(), CallLimit::Any, &[]);
    let output =
        "<|think|>a<|end|>b".bytes().map(TokenId::from).chain([END]).chain("c".bytes().map(TokenId::from));
    let mut parts: Vec<_> = output.flat_map(|id| state.push(token(id))).collect();
    parts.extend(state.push(finished(SequenceEnd::Stop, 20)));
    let (content, reasoning, _, _) = gist(&parts);
    assert_eq!((content.as_str(), reasoning.as_str()), ("c", "a<|end|>b"));

    // A control token that marks nothing is not shown, as where nothing is read.
    let mut state = reading(Setup { control: Vec::new(), ..hermes() }, CallLimit::Any, &[]);
    let parts: Vec<_> =
        [b'a'.into(), END, b'b'.into()].into_iter().flat_map(|id| state.push(token(id))).collect();
    assert_eq!(whole(&parts), "ab");
}

#[test]
fn an_answer_may_begin_in_its_reasoning() {
    let setup = Setup { start: Start::Reasoning, ..hermes() };
    let parts = read(reading(setup, CallLimit::Any, &[]), "Hm.</think>So.", SequenceEnd::Stop);
    assert_eq!(gist(&parts), ("So.".to_owned(), "Hm.".to_owned(), Vec::new(), Some(FinishReason::Stop)));
}

fn bounded(tokens: u32, max_tokens: u32) -> SessionState {
    let end = "</think>".bytes().map(TokenId::from).collect();
    let budget = Some(Budget { tokens, end });
    let reading = Some(Reading { setup: hermes(), calls: CallLimit::Any, budget, id_seed: 0 });
    let request = SessionRequest { reading, max_tokens, ..request(&[]) };
    SessionState::new(&request, &Arc::new(byte_tokenizer().unwrap()))
}

#[test]
fn reasoning_is_closed_where_its_budget_ends() {
    let mut state = bounded(3, 100);
    let mut parts: Vec<_> = "<think>abc".bytes().flat_map(|byte| state.push(token(byte.into()))).collect();
    let (mut rest, tokens) = state.take_continuation().unwrap();
    assert!(state.is_over() && state.push(token(b'd'.into())).is_empty());
    let text: Vec<u8> = tokens.iter().map(|&token| token as u8).collect();
    assert_eq!(String::from_utf8(text).unwrap(), "<think>abc</think>");
    // The new sequence's own account of its prompt does not reach the client.
    parts.extend(rest.push(SequenceEvent::Accepted(RateStatuses::default())));
    parts.extend(rest.push(SequenceEvent::Started { cached_tokens: 16 }));
    parts.extend("\n\nSo.".bytes().flat_map(|byte| rest.push(token(byte.into()))));
    let usage = Usage { prompt_tokens: 21, cached_tokens: 16, completion_tokens: 5, reasoning_tokens: 0 };
    parts.extend(rest.push(SequenceEvent::Finished { reason: SequenceEnd::Stop, usage }));
    let reasoning = ("So.".to_owned(), "abc".to_owned(), Vec::new(), Some(FinishReason::Stop));
    assert_eq!(gist(&parts), reasoning);
    let usage = Usage { prompt_tokens: 3, cached_tokens: 0, completion_tokens: 23, reasoning_tokens: 11 };
    assert_eq!(
        parts.last(),
        Some(&Part::End(End::Finished { reason: FinishReason::Stop, usage, matched_stop: None }))
    );
    assert!(rest.take_continuation().is_none());
}

#[test]
fn c218_a_section_that_its_budget_closed_may_be_closed_once_more() {
    for (rest, content) in [
        ("\n\nHm.</think>\n\nSo.", "Hm.\n\nSo."),
        ("</think>\n\nSo.", "So."),
        ("\n</think>So, </think>.", "So, </think>."),
    ] {
        let mut state = bounded(3, 100);
        let mut parts: Vec<_> =
            "<think>abc".bytes().flat_map(|byte| state.push(token(byte.into()))).collect();
        let (mut state, _) = state.take_continuation().unwrap();
        parts.extend(rest.bytes().flat_map(|byte| state.push(token(byte.into()))));
        parts.extend(state.push(finished(SequenceEnd::Stop, 40)));
        let (said, reasoned, _, _) = gist(&parts);
        assert_eq!((said.as_str(), reasoned.as_str()), (content, "abc"), "{rest}");
    }
}

#[test]
fn reasoning_that_ends_by_itself_is_not_closed() {
    // It is shorter; nothing is left for an answer behind the closing tag.
    for (budget, max_tokens, output) in [(12, 100, "<think>abc</think>So."), (3, 18, "<think>abcdefghijk")] {
        let mut state = bounded(budget, max_tokens);
        for byte in output.bytes() {
            state.push(token(byte.into()));
            assert!(state.take_continuation().is_none(), "{output}");
        }
    }
}

/// What comes of an output with calls of `f`, `f_b` and `n`, which takes a whole number.
fn called(format: Format, output: &str) -> (String, Vec<String>) {
    let schema = serde_json::json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tools = ["f", "f_b", "n"].map(|name| Tool { name: name.to_owned(), parameters: schema.clone() });
    let setup = Setup { format: Some(format), tools: tools.into(), reasoning: None, ..hermes() };
    let (content, _, calls, _) = gist(&read(reading(setup, CallLimit::Any, &[]), output, SequenceEnd::Stop));
    (content, calls)
}

#[test]
fn c208u_c210u_c211u_odd_calls_are_calls() {
    let hermes = |call: &str| format!("<tool_call>\n{call}\n</tool_call>");
    let element = |name: &str, value: &str| {
        format!(
            "<tool_call>\n<function={name}>\n<parameter=n>\n{value}\n</parameter>\n</function>\n</tool_call>"
        )
    };
    for (format, output, expected) in [
        (Format::Qwen3Coder, element("n", "3.0"), "n({\"n\":3.0})"),
        (Format::Qwen3Coder, element("f_b", "1"), "f_b({\"n\":1})"),
        (Format::Qwen3Coder, "<tool_call>\n<function=f>\n</function>\n</tool_call>".to_owned(), "f({})"),
        (Format::Hermes, hermes("{\"name\": \"f_b\", \"arguments\": {}}"), "f_b({})"),
        (Format::Hermes, hermes("{\"name\": \"f\", \"arguments\": null}"), "f({})"),
        (Format::Hermes, hermes("{\"name\": \"f\"}"), "f({})"),
    ] {
        assert_eq!(called(format, &output), (String::new(), vec![expected.to_owned()]), "{output}");
    }
}

#[test]
fn c218_reasoning_is_said_once_however_its_tags_stand() {
    for (start, output, content, thought) in [
        (Start::Message, "<think>a</think>So.", "So.", "a"),
        (Start::Message, "<think>a</think><think>b</think>So.", "So.", "ab"),
        (Start::Reasoning, "a</think>So.", "So.", "a"),
        (Start::Message, "<think>a</think>\n</think>So.", "So.", "a"),
        (Start::Reasoning, "a</think></think>So.", "So.", "a"),
        (Start::Message, "</think>So.", "So.", ""),
        (Start::Message, "So.", "So.", ""),
    ] {
        let setup = Setup { start, tools: Vec::new(), ..hermes() };
        let parts = read(reading(setup, CallLimit::Any, &[]), output, SequenceEnd::Stop);
        let (said, reasoned, _, _) = gist(&parts);
        assert_eq!((said.as_str(), reasoned.as_str()), (content, thought), "{output}");
    }
}

#[test]
fn c213u_a_call_that_begins_or_ends_early_leaves_no_markup_in_the_content() {
    let calls = |calls: &[&str]| calls.iter().map(|&call| call.to_owned()).collect::<Vec<_>>();
    let whole = "<tool_call>\n<function=f>\n</function>\n</tool_call>\n";
    let bare = "<function=n>\n<parameter=n>\n1\n</parameter>\n</function>";
    for (output, expected) in [
        (format!("{whole}{bare}"), calls(&["f({})", "n({\"n\":1})"])),
        (format!("{bare}\n</tool_call>"), calls(&["n({\"n\":1})"])),
        (bare.replace("\n</function>", ""), calls(&["n({\"n\":…"])),
    ] {
        assert_eq!(called(Format::Qwen3Coder, &output), (String::new(), expected), "{output}");
    }
    for (arguments, content, expected) in [("{}}}", "", "f({})"), ("{\"n\":NaN}}", "NaN}}", "f({\"n\":…")] {
        let output = format!("<tool_call>\n{{\"name\":\"f\",\"arguments\":{arguments}\n</tool_call>");
        assert_eq!(called(Format::Hermes, &output), (content.to_owned(), calls(&[expected])), "{output}");
    }
}
