//! What the grammars' compiler makes of them: each format's examples may be said token by token, and nothing but calls.

use std::sync::Arc;

use troupe_protocol::{TokenId, TokenMask};

use super::*;
use crate::guide::{Grammar, Guide, Progress, Vocabulary};
use crate::output_syntax::OutputSyntax;
use crate::testing::{END, byte_tokenizer_with};

mod either;

/// Spellings of control tokens that models with these formats have.
const CONTROL: &[&str] = &[
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|start|>",
    "<|call|>",
    "<|end|>",
    "<|return|>",
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[CALL_ID]",
    "[ARGS]",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<|open|>",
    "<|sep|>",
    "<|close|>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_calls_section_end|>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
];

/// A model whose tokens are bytes and these.
struct Model {
    control: &'static [&'static str],
    vocabulary: Arc<Vocabulary>,
    output: OutputSyntax,
}

impl Model {
    fn new(format: Format, control: &'static [&'static str]) -> Self {
        let tokenizer = Arc::new(byte_tokenizer_with(control).unwrap());
        let size = tokenizer.vocab_size() as u32;
        let output = OutputSyntax::new(Some(format), None, &tokenizer);
        Self { control, vocabulary: Arc::new(Vocabulary::new(tokenizer, size)), output }
    }

    fn guide(&self, tools: &[Tool], limit: CallLimit) -> Guide {
        let text = self.output.call_grammar(tools, limit).unwrap();
        let guide = Guide::new(&self.vocabulary, &Grammar::made_lark(&text).unwrap(), &[END]);
        guide.unwrap_or_else(|error| panic!("{}: {error}\n{text}", self.name()))
    }

    fn name(&self) -> &'static str {
        self.output.names().0
    }

    /// The tokens of a text: control tokens where they are spelled, the longest of several, else bytes.
    fn tokens(&self, mut text: &[u8]) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        while let Some((&byte, rest)) = text.split_first() {
            let spelled = (END + 1..).zip(self.control);
            let spelled = spelled.filter(|(_, spelling)| text.starts_with(spelling.as_bytes()));
            match spelled.max_by_key(|(_, spelling)| spelling.len()) {
                Some((token, spelling)) => {
                    tokens.push(token);
                    text = &text[spelling.len()..];
                }
                None => {
                    tokens.push(byte.into());
                    text = rest;
                }
            }
        }
        tokens
    }

    /// Says a text; whether it may be said and be all.
    fn accepts(&self, guide: &mut Guide, text: &str) -> Result<(), String> {
        let tokens = self.tokens(text.as_bytes());
        for (at, &token) in tokens.iter().enumerate() {
            if guide.is_complete() || !guide.mask().unwrap().allows(token) {
                return Err(format!("{}, token {at} of {text:?} is not allowed", self.name()));
            }
            guide.advance(token).unwrap();
        }
        match guide.is_complete() || guide.mask().unwrap().allows(END) {
            true => Ok(()),
            false => Err(format!("{}: {text:?} is not all", self.name())),
        }
    }
}

#[test]
fn each_format_s_calls_may_be_said_and_then_the_answer_ends() {
    let mut problems = Vec::new();
    for format in Format::ALL {
        for control in [&[], CONTROL] {
            let model = Model::new(*format, control);
            for (limit, fill) in [(CallLimit::One, Fill::Least), (CallLimit::Any, Fill::Most)] {
                let grammar = calls(&format.call_syntax(), &tools(), limit).unwrap();
                let guide = model.guide(&tools(), limit);
                for index in 0..tools().len() {
                    let text = example(&grammar, fill, index);
                    problems.extend(model.accepts(&mut guide.clone(), &text).err());
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn in_free_text_a_call_is_of_a_tool_from_its_marker_on() {
    let (mut problems, mut without) = (Vec::new(), Vec::new());
    for format in Format::ALL {
        for control in [&[], CONTROL] {
            let model = Model::new(*format, control);
            let Some(text) = model.output.free_grammar(&tools(), CallLimit::Any).unwrap() else {
                without.push(format.name());
                continue;
            };
            let guide = Guide::new(&model.vocabulary, &Grammar::made_lark(&text).unwrap(), &[END]);
            let guide = guide.unwrap_or_else(|error| panic!("{}: {error}\n{text}", format.name()));
            problems.extend(model.accepts(&mut guide.clone(), "").err());
            problems.extend(model.accepts(&mut guide.clone(), "Köln <b> [x] {\"a\": 1}\n").err());
            let grammar = calls(&format.call_syntax(), &tools(), CallLimit::One).unwrap();
            for index in 0..tools().len() {
                let call = example(&grammar, Fill::Most, index);
                let twice = format!("Let me see.\n{call}\n{call}");
                problems.extend(model.accepts(&mut guide.clone(), &twice).err());
                let name = &tools()[index].name;
                let other = format!("Hm. {}", call.replacen(name.as_str(), "nobody", 1));
                problems.extend(model.accepts(&mut guide.clone(), &other).ok().map(|()| other));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    without.dedup();
    assert_eq!(without, ["llama3", "pythonic", "harmony"]);
}

/// Any token that the mask allows, chosen by a counter.
fn choose(mask: &TokenMask, size: u32, seed: &mut u64) -> TokenId {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let allowed: Vec<TokenId> = (0..size).filter(|&token| mask.allows(token)).collect();
    // Ends of the text and of strings come sooner than among all bytes alike.
    let ends: Vec<TokenId> = allowed
        .iter()
        .copied()
        .filter(|&token| token >= END || b"\"<}]|`)/".map(TokenId::from).contains(&token))
        .collect();
    let among = if (*seed >> 60) < 8 && !ends.is_empty() { &ends } else { &allowed };
    among[(*seed >> 33) as usize % among.len()]
}

/// Tools whose arguments are short, whatever is chosen.
fn short_tools() -> Vec<Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"enum": ["Köln", "a \"b\""]},
            "days": {"type": "integer", "minimum": 0, "maximum": 99},
            "loud": {"type": "boolean"},
        },
        "required": ["city"],
    });
    let none = json!({"type": "object", "properties": {}});
    [("get_weather", schema), ("get", none.clone()), ("now", none)]
        .map(|(name, parameters)| Tool { name: name.to_owned(), parameters })
        .into()
}

#[test]
fn whatever_is_chosen_of_what_is_allowed_is_one_call_of_a_tool_with_valid_arguments() {
    let tools = short_tools();
    for format in Format::ALL {
        for control in [&[], CONTROL] {
            let model = Model::new(*format, control);
            let guide = model.guide(&tools, CallLimit::One);
            for mut seed in 0..6 {
                let (mut guide, mut said) = (guide.clone(), Vec::new());
                while !guide.is_complete() && said.len() < 5_000 {
                    let mask = guide.mask().unwrap();
                    let token = choose(&mask, model.vocabulary.size(), &mut seed);
                    if guide.advance(token).unwrap() != Progress::Ended {
                        said.push(token);
                    }
                }
                let text = model.text(&said);
                let (found, other) = parse_with(*format, tools.clone(), &text);
                let case = format!("{}: {text:?} is {found:?}", format.name());
                assert!(!other && found.len() == 1, "{case}");
                let (name, arguments) = &found[0];
                let known = ["city", "days", "loud"];
                match name.as_str() {
                    "get_weather" => {
                        assert!([json!("Köln"), json!("a \"b\"")].contains(&arguments["city"]), "{case}");
                        assert!(
                            arguments
                                .get("days")
                                .is_none_or(|days| days.as_u64().is_some_and(|days| days < 100))
                        );
                        assert!(arguments.get("loud").is_none_or(Json::is_boolean), "{case}");
                        assert!(arguments.keys().all(|name| known.contains(&name.as_str())), "{case}");
                    }
                    "get" | "now" => assert!(arguments.is_empty(), "{case}"),
                    other => panic!("nobody offered {other}: {case}"),
                }
            }
        }
    }
}

impl Model {
    fn text(&self, tokens: &[TokenId]) -> String {
        let bytes = tokens.iter().flat_map(|&token| match token.checked_sub(END + 1) {
            Some(control) => self.control[control as usize].as_bytes().to_vec(),
            None => vec![token as u8],
        });
        String::from_utf8(bytes.collect()).unwrap()
    }
}
