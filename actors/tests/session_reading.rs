//! A session over a real tokenizer: what a client gets of calls is the same however their text falls into tokens.

mod support;

use std::sync::Arc;

use serde_json::json;
use troupe_actors::output_syntax::OutputSyntax;
use troupe_actors::session::{
    Admission, AnswerKind, CallLimit, CallPart, End, FinishReason, Part, Reading, SessionRequest,
    SessionState,
};
use troupe_actors::tokenizer::{AddSpecial, ParseSpecial, Tokenizer};
use troupe_parsers::{Event, Format, Parser, Piece, Reasoning, Setup, Start, Tool};
use troupe_protocol::{
    FinishReason as SequenceEnd, RequestPart, SampledToken, SamplingParams, SequenceEvent, TokenId,
    TokenLogprobs, Usage,
};

fn tokenizer() -> Arc<Tokenizer> {
    let files = support::default_model();
    let source = files.tokenizer().expect("a tokenizer");
    Arc::new(Tokenizer::load(&source, files.special_tokens()).expect("a usable tokenizer"))
}

fn tools() -> Vec<Tool> {
    let weather =
        json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
    let tool = |name: &str, parameters| Tool { name: name.to_owned(), parameters };
    vec![tool("get_weather", weather), tool("now", json!({"type": "object", "properties": {}}))]
}

/// Outputs of models, one of each kind of syntax. Each has the thought, the content and both calls.
const OUTPUTS: &[(Format, &str)] = &[
    (
        Format::Hermes,
        "<think>\nThey want a forecast.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": \
         {\"city\": \"Köln 🙂\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
    ),
    (
        Format::Qwen3Coder,
        "<think>\nThey want a forecast.\n</think>\n\nLet me look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln 🙂\n\
         </parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
    ),
    (
        Format::MistralNamed,
        "<think>They want a forecast.</think>Let me look.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Köln 🙂\", \"days\": 3}\
         [TOOL_CALLS]now[ARGS]{}",
    ),
    (
        Format::Glm,
        "<think>They want a forecast.</think>\nLet me look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Köln 🙂\
         </arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
    ),
    (
        Format::Lfm2,
        "<think>They want a forecast.</think>Let me look.\n<|tool_call_start|>[get_weather(city=\"Köln 🙂\", days=3), now()]\
         <|tool_call_end|>",
    ),
    (
        Format::Gemma4,
        "<think>They want a forecast.</think>Let me look.\n<|tool_call>call:get_weather{city:<|\"|>Köln 🙂<|\"|>,days:3}<tool_call|>\
         <|tool_call>call:now{}<tool_call|>",
    ),
    (
        Format::Harmony,
        "<|channel|>analysis<|message|>They want a forecast.<|end|><|start|>assistant<|channel|>commentary<|message|>Let me look.\
         <|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Köln 🙂\", \
         \"days\": 3}<|call|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>",
    ),
];

#[derive(Debug, Default, PartialEq)]
struct Answer {
    content: String,
    reasoning: String,
    /// Name, arguments, and whether it is whole.
    calls: Vec<(String, String, bool)>,
    reason: Option<FinishReason>,
    /// The bytes of the tokens that are reported with the content.
    tokens: Vec<u8>,
}

/// What a session makes of these tokens, if the sequence ends so after them.
fn parts(tokenizer: &Arc<Tokenizer>, format: Format, tokens: &[TokenId], reason: SequenceEnd) -> Vec<Part> {
    let syntax = OutputSyntax::new(Some(format), Some(Reasoning::THINK), tokenizer);
    let setup = syntax.setup(tools(), Start::Message).expect("something to look for");
    let request = SessionRequest {
        guide: None,
        choice: 0,
        prompt: vec![1],
        sampling: SamplingParams::greedy(),
        max_tokens: 1000,
        answer: AnswerKind::Generated,
        stop_tokens: Vec::new(),
        stop: Vec::new(),
        reading: Some(Reading { setup, calls: CallLimit::Any, budget: None, id_seed: 1 }),
        admission: Admission::default(),
        part: RequestPart::First,
    };
    let mut state = SessionState::new(&request, tokenizer);
    let logprobs = || Some(TokenLogprobs { chosen: -0.5, top: Vec::new() });
    let events = tokens.iter().map(|&id| SequenceEvent::Token(SampledToken { id, logprobs: logprobs() }));
    let end = SequenceEvent::Finished { reason, usage: Usage::default() };
    events.chain([end]).flat_map(|event| state.push(event)).collect()
}

impl Answer {
    fn of(parts: Vec<Part>) -> Self {
        let mut answer = Self::default();
        parts.into_iter().for_each(|part| answer.add(part));
        answer
    }

    fn add(&mut self, part: Part) {
        match part {
            Part::Text(piece) => {
                self.content += &piece.text;
                self.tokens.extend(piece.tokens.iter().flat_map(|token| &token.chosen.bytes));
            }
            Part::Reasoning(piece) => self.reasoning += &piece.text,
            Part::Call(CallPart::Started { name, .. }) => self.calls.push((name, String::new(), false)),
            Part::Call(CallPart::Arguments { index, fragment }) => self.calls[index].1 += &fragment,
            Part::Call(CallPart::Finished { index }) => self.calls[index].2 = true,
            Part::End(End::Finished { reason, .. }) => self.reason = Some(reason),
            Part::Call(CallPart::Broken { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn calls_in_tokens_are_those_in_the_text() {
    let tokenizer = tokenizer();
    for &(format, output) in OUTPUTS {
        let whole = tokenizer.encode(output, AddSpecial::Never, ParseSpecial::AsText).unwrap();
        // The tokens of the text, and of the same text cut at every so many characters.
        let cut = |length: usize| -> Vec<TokenId> {
            let characters: Vec<char> = output.chars().collect();
            let pieces = characters.chunks(length).map(|piece| piece.iter().collect::<String>());
            let encode = |piece: String| {
                tokenizer.encode(&piece, AddSpecial::Never, ParseSpecial::AsText).expect("encodable text")
            };
            pieces.flat_map(encode).collect()
        };
        for tokens in [whole, cut(1), cut(2), cut(5), cut(13)] {
            let found = Answer::of(parts(&tokenizer, format, &tokens, SequenceEnd::Stop));
            let name = format.name();
            assert_eq!(found.content, "Let me look.", "{name}");
            assert_eq!(found.reasoning, "They want a forecast.", "{name}");
            let calls: Vec<_> = found
                .calls
                .iter()
                .map(|(name, arguments, is_whole)| {
                    let arguments: serde_json::Value = serde_json::from_str(arguments).expect("JSON");
                    (name.as_str(), arguments, *is_whole)
                })
                .collect();
            let weather = json!({"city": "Köln 🙂", "days": 3});
            assert_eq!(calls, [("get_weather", weather, true), ("now", json!({}), true)], "{name}");
            assert_eq!(found.reason, Some(FinishReason::ToolCalls), "{name}");
            // A token may begin in the content and end in what follows.
            let tokens = String::from_utf8(found.tokens).expect("whole characters");
            assert!(tokens.starts_with("Let me look."), "{name}: {tokens:?}");
            assert!(tokens.trim_end_matches(['\n', '<', '[', '|']) == "Let me look.", "{name}: {tokens:?}");
        }
    }
}

#[test]
fn a_session_says_what_a_parser_of_the_whole_text_says() {
    let tokenizer = tokenizer();
    for &(format, output) in OUTPUTS {
        let tokens = tokenizer.encode(output, AddSpecial::Never, ParseSpecial::AsText).unwrap();
        for length in 0..=tokens.len() {
            let tokens = &tokens[..length];
            let found = Answer::of(parts(&tokenizer, format, tokens, SequenceEnd::Length));
            let arguments = found.calls.into_iter().map(|(_, arguments, _)| arguments).collect();
            let found = (found.content, found.reasoning, arguments);
            let bytes: Vec<u8> =
                tokens.iter().filter_map(|&id| tokenizer.token_bytes(id)).flatten().copied().collect();
            let expected = parsed(format, &String::from_utf8_lossy(&bytes));
            assert_eq!(found, expected, "{} after {length} tokens", format.name());
        }
    }
}

/// Content, reasoning, and the arguments of calls, whole or not, that a parser finds in a text that is cut off.
fn parsed(format: Format, output: &str) -> (String, String, Vec<String>) {
    let setup =
        Setup { format: Some(format), reasoning: Some(Reasoning::THINK), tools: tools(), ..Setup::default() };
    let mut parser = Parser::new(setup);
    let mut events = parser.push(Piece::Text(output));
    events.extend(parser.finish().0);
    let (mut content, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for event in events {
        match event {
            Event::Content(text) => content += &text,
            Event::Reasoning(text) => reasoning += &text,
            Event::CallStarted { .. } => calls.push(String::new()),
            Event::Arguments { index, fragment } => calls[index] += &fragment,
            Event::CallFinished { .. } | Event::CallBroken { .. } => {}
        }
    }
    (content, reasoning, calls)
}

#[test]
fn the_documentation_names_every_format() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tools.md");
    let page = std::fs::read_to_string(page).expect("a readable page");
    for name in Format::ALL.iter().map(|format| format.name()).chain(Reasoning::names()) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
