//! How the answers of the served model mark reasoning and write tool calls. Chosen once, from its chat template or by
//! the operator.

use serde_json::Value;
use thiserror::Error;
use troupe_model_files::SpecialTokens;
use troupe_parsers::{CallPlace, Format, Reasoning, Setup, Start, Tool};
use troupe_protocol::TokenId;

use crate::call_grammar::{self, CallGrammarError};
use crate::session::CallLimit;
use crate::tokenizer::Tokenizer;

/// What to look for in a model's answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputSyntax {
    /// How calls are written; `None` if the model knows none.
    pub format: Option<Format>,
    /// The tags around reasoning; `None` if there is none, or the format marks it itself.
    pub reasoning: Option<Reasoning>,
    /// The control tokens of the vocabulary that mean something to these two, with their spellings.
    control: Vec<(String, TokenId)>,
    /// The tokens that end an answer by its format.
    ends: Vec<TokenId>,
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option}: {name:?} is not one of auto, none, {known}")]
pub struct UnknownFormat {
    option: &'static str,
    name: String,
    known: String,
}

impl OutputSyntax {
    /// Chooses by name (`auto` looks at the template's source, `none` looks for nothing).
    ///
    /// # Errors
    /// A name that no format has.
    pub fn choose(
        tool_format: &str,
        reasoning_format: &str,
        template: Option<&str>,
        tokenizer: &Tokenizer,
    ) -> Result<Self, UnknownFormat> {
        let format = match tool_format {
            "auto" => template.and_then(Format::detect),
            "none" => None,
            name => Some(Format::from_name(name).ok_or_else(|| {
                let known = Format::ALL.iter().map(|format| format.name()).collect();
                unknown("model.tool_format", name, known)
            })?),
        };
        let reasoning = match reasoning_format {
            "auto" => template.and_then(Reasoning::detect),
            "none" => None,
            name => Some(
                Reasoning::from_name(name)
                    .ok_or_else(|| unknown("model.reasoning_format", name, Reasoning::names().collect()))?,
            ),
        };
        Ok(Self::new(format, reasoning, tokenizer))
    }

    /// What a model with this vocabulary writes.
    pub fn new(format: Option<Format>, reasoning: Option<Reasoning>, tokenizer: &Tokenizer) -> Self {
        let control = tokenizer.template_tokens(&SpecialTokens::default()).control.into_iter();
        let control = control.filter(|spelling| {
            format.is_some_and(|format| format.reads(spelling))
                || reasoning.is_some_and(|tags| tags.reads(spelling))
        });
        let control = control.filter_map(|spelling| {
            let token = tokenizer.token_id(&spelling)?;
            Some((spelling, token))
        });
        let ends = format.map_or(&[][..], Format::ends).iter();
        let ends = ends.filter_map(|spelling| tokenizer.token_id(spelling)).collect();
        Self { format, reasoning, control: control.collect(), ends }
    }

    /// The tokens that end an answer by its format, whatever the model's makers say.
    pub fn ends(&self) -> &[TokenId] {
        &self.ends
    }

    /// The names that configuration knows both by.
    pub fn names(&self) -> (&'static str, &'static str) {
        let format = self.format.map_or("none", Format::name);
        (format, self.reasoning.and_then(|tags| tags.name()).unwrap_or("none"))
    }

    /// Whether answers may hold reasoning.
    pub fn has_reasoning(&self) -> bool {
        self.reasoning.is_some() || self.has_channels()
    }

    /// Whether answers consist of messages in channels, so that even plain text has syntax around it.
    fn has_channels(&self) -> bool {
        self.format.is_some_and(Format::has_channels)
    }

    /// What a parser is made for, if these tools are offered after this prompt; `None` if all of an answer is content.
    pub fn setup(&self, tools: Vec<Tool>, start: Start) -> Option<Setup> {
        let format = self.format.filter(|_| !tools.is_empty() || self.has_channels());
        if format.is_none() && self.reasoning.is_none() {
            return None;
        }
        let means_something = |spelling: &&String| {
            format.is_some_and(|format| format.reads(spelling))
                || self.reasoning.is_some_and(|tags| tags.reads(spelling))
        };
        let control = self.control.iter().map(|(spelling, _)| spelling);
        let control = control.filter(means_something).cloned().collect();
        Some(Setup { format, reasoning: self.reasoning, start, tools, control, ..Setup::default() })
    }

    /// The grammar, as Lark text, of an answer that consists of calls of these tools, one at least.
    ///
    /// # Errors
    /// No tools or no format, or more than a grammar may hold.
    pub fn call_grammar(&self, tools: &[Tool], limit: CallLimit) -> Result<String, CallGrammarError> {
        let format = self.format.ok_or(CallGrammarError::NoTools)?;
        let calls = call_grammar::calls(&format.call_syntax(), tools, limit)?;
        Ok(call_grammar::lark(&calls, &self.control))
    }

    /// The same of any answer, in which calls are whole and of these tools. None if no grammar tells where a call of the
    /// format begins.
    ///
    /// # Errors
    /// No tools or no format, or more than a grammar may hold.
    pub fn free_grammar(&self, tools: &[Tool], limit: CallLimit) -> Result<Option<String>, CallGrammarError> {
        let format = self.format.ok_or(CallGrammarError::NoTools)?;
        let free = call_grammar::free(&format.call_syntax(), tools, limit)?;
        Ok(free.map(|free| call_grammar::lark(&free, &self.control)))
    }

    /// Where calls of these tools may stand in an answer that is either those or JSON by a schema; none if the two
    /// cannot be told from each other.
    pub fn calls_beside_json(&self, tools: &[Tool], schema: &Value) -> Option<CallPlace> {
        call_grammar::beside_json(&self.format?.call_syntax(), tools, schema, &self.control)
    }

    /// The grammar of such an answer, with the calls where [`Self::calls_beside_json`] says.
    ///
    /// # Errors
    /// No tools or no format, or more than a grammar may hold.
    pub fn calls_or_json_grammar(
        &self,
        tools: &[Tool],
        limit: CallLimit,
        schema: &Value,
        place: CallPlace,
    ) -> Result<String, CallGrammarError> {
        let format = self.format.ok_or(CallGrammarError::NoTools)?;
        let syntax = format.call_syntax();
        let either = call_grammar::calls_or_json(&syntax, tools, limit, schema, place, &self.control)?;
        Ok(call_grammar::lark(&either, &self.control))
    }

    /// Where an answer begins that follows a prompt with this end. `continued` is the text of the assistant's message
    /// that it continues, if it does.
    pub fn start(&self, prompt_end: &str, continued: Option<&str>) -> Start {
        let Some(tags) = self.reasoning else { return Start::Message };
        let is_open = match continued {
            Some(text) => text.rfind(tags.begin).is_some_and(|open| !text[open..].contains(tags.end)),
            None => tags.is_open_at_end_of(prompt_end),
        };
        if is_open { Start::Reasoning } else { Start::Message }
    }
}

fn unknown(option: &'static str, name: &str, known: Vec<&str>) -> UnknownFormat {
    UnknownFormat { option, name: name.to_owned(), known: known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::byte_tokenizer;

    fn choose(tool: &str, reasoning: &str, template: Option<&str>) -> Result<OutputSyntax, UnknownFormat> {
        OutputSyntax::choose(tool, reasoning, template, &byte_tokenizer().unwrap())
    }

    #[test]
    fn the_template_decides_unless_the_operator_does() {
        let template = "{{ '<tool_call>' }} {{ '<think>' }}";
        for (tool, reasoning, template, expected) in [
            ("auto", "auto", Some(template), ("hermes", "think")),
            ("none", "none", Some(template), ("none", "none")),
            ("auto", "auto", Some("{{ messages }}"), ("none", "none")),
            ("auto", "auto", None, ("none", "none")),
            ("pythonic", "cohere", Some(template), ("pythonic", "cohere")),
        ] {
            assert_eq!(choose(tool, reasoning, template).unwrap().names(), expected, "{tool}, {reasoning}");
        }
        for format in Format::ALL {
            assert_eq!(choose(format.name(), "none", None).unwrap().format, Some(*format));
        }
        for (name, tags) in Reasoning::names().zip(Reasoning::known()) {
            assert_eq!(choose("none", name, None).unwrap().reasoning, Some(tags));
        }
        let error = choose("hermez", "auto", None).unwrap_err().to_string();
        assert!(
            error.starts_with("model.tool_format: \"hermez\" is not one of auto, none, hermes, "),
            "{error}"
        );
        let error = choose("auto", "thought", None).unwrap_err().to_string();
        assert!(
            error.starts_with("model.reasoning_format: \"thought\" is not one of auto, none, "),
            "{error}"
        );
    }

    #[test]
    fn nothing_is_looked_for_that_cannot_be_there() {
        let tool = || vec![Tool { name: "f".to_owned(), parameters: serde_json::Value::Null }];
        for (format, reasoning, tools, is_read) in [
            ("none", "none", tool(), false),
            ("hermes", "none", Vec::new(), false),
            ("hermes", "none", tool(), true),
            ("none", "think", Vec::new(), true),
            ("harmony", "none", Vec::new(), true),
        ] {
            let syntax = choose(format, reasoning, None).unwrap();
            assert_eq!(syntax.setup(tools, Start::Message).is_some(), is_read, "{format}, {reasoning}");
            assert_eq!(syntax.has_reasoning(), reasoning == "think" || format == "harmony");
        }
    }

    #[test]
    fn an_answer_begins_where_its_prompt_ends() {
        let syntax = choose("none", "think", None).unwrap();
        for (prompt, continued, start) in [
            ("assistant\n", None, Start::Message),
            ("assistant\n<think>\n", None, Start::Reasoning),
            ("assistant\n<think>\n\n</think>\n\n", None, Start::Message),
            ("<think>hm", Some("<think>hm"), Start::Reasoning),
            ("<think>hm</think>So", Some("<think>hm</think>So"), Start::Message),
            ("So", Some("So"), Start::Message),
        ] {
            assert_eq!(syntax.start(prompt, continued), start, "{prompt:?}");
        }
        assert_eq!(OutputSyntax::default().start("<think>", None), Start::Message);
    }
}
