//! What the text of an answer has to be: OpenAI's `response_format`, and vLLM's `structured_outputs` and `guided_*`.
//!
//! It is read and held against the limits here; whether a grammar can be compiled is found out by compiling it, still before
//! anything is generated.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use troupe_actors::guide::{CompileGrammar, Grammar, GrammarError, Guide};
use troupe_actors::output_syntax::OutputSyntax;
use troupe_protocol::TokenId;

use super::error::{ApiError, echo};
use super::fields::{Fields, Unimplemented, to_list, to_string, wrong_type};
use super::state::Served;
use super::tokenize::pool_is_gone;

/// The most bytes of a schema's name.
const MAX_NAME_BYTES: usize = 64;

/// What asks for a format of the content, where the other fields speak of all that is generated.
const CONTENT: &str = "response_format";

/// A format that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Format {
    grammar: Grammar,
    /// What makes one that serves if that cannot be compiled.
    fallback: Option<Fallback>,
    /// Where the request says so.
    param: &'static str,
    /// Whether any text may come first.
    is_behind_text: bool,
    /// What it was made of, if of more than that.
    sources: Vec<Source>,
}

/// Makes a grammar anew that holds to less.
#[derive(Clone)]
pub(super) struct Fallback {
    /// What it is made of, each by itself; nothing for what may not be less.
    parts: Vec<Option<Grammar>>,
    make: Arc<Make>,
}

/// The grammar by the syntax of the model's calls, of which these parts count for less.
type Make = dyn Fn(&OutputSyntax, &[bool]) -> Result<Grammar, String> + Send + Sync;

impl Fallback {
    pub(super) fn new(
        parts: Vec<Option<Grammar>>,
        make: impl Fn(&OutputSyntax, &[bool]) -> Result<Grammar, String> + Send + Sync + 'static,
    ) -> Self {
        Self { parts, make: Arc::new(make) }
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl PartialEq for Fallback {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts && Arc::ptr_eq(&self.make, &other.make)
    }
}

/// A part of a request of which, beside others, a format is made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    /// Where the request says it.
    pub(super) param: String,
    /// It alone.
    pub(super) grammar: Grammar,
}

/// Fields of vLLM's that say how it makes grammars.
pub(super) const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "guided_decoding_backend", neutral: &["\"auto\""] },
    Unimplemented { name: "guided_whitespace_pattern", neutral: &[] },
];

/// Takes the fields that ask for a format. There may be one.
///
/// # Errors
/// A field that is wrong, a grammar beyond the limits, or two that ask for different things.
pub(super) fn read(fields: &mut Fields) -> Result<Option<Format>, ApiError> {
    let asked = [
        fields.take("response_format").map(response_format).transpose()?.flatten(),
        fields.take("structured_outputs").map(structured_outputs).transpose()?,
        fields.take("guided_json").map(|value| json("guided_json", value)).transpose()?,
        fields.take("guided_regex").map(|value| regex("guided_regex", value)).transpose()?,
        fields.take("guided_choice").map(|value| choice("guided_choice", value)).transpose()?,
        fields.take("guided_grammar").map(|value| lark("guided_grammar", value)).transpose()?,
    ];
    let mut asked = asked.into_iter().flatten();
    match (asked.next(), asked.next()) {
        (Some(first), Some(second)) => {
            Err(ApiError::invalid(second.param, format!("it contradicts {}", first.param)))
        }
        (first, _) => Ok(first),
    }
}

fn response_format(value: Value) -> Result<Option<Format>, ApiError> {
    let mut fields = Fields::of(value, "response_format")?;
    let within = |error: ApiError| error.within("response_format");
    let format = match to_string("response_format.type", fields.required("type").map_err(within)?)?.as_str() {
        "text" => None,
        "json_object" => Some(Format::new(CONTENT, Grammar::json_object(), None)),
        "json_schema" => Some(json_schema(fields.required("json_schema").map_err(within)?)?),
        other => {
            let reason = format!("{:?} is not one of text, json_object, json_schema", echo(other));
            return Err(ApiError::invalid("response_format.type", reason));
        }
    };
    fields.finish(&[]).map_err(within)?;
    Ok(format)
}

/// With `strict` or without: an answer is held to its schema.
fn json_schema(value: Value) -> Result<Format, ApiError> {
    const PARAM: &str = "response_format.json_schema";
    let mut fields = Fields::of(value, PARAM)?;
    let within = |error: ApiError| error.within(PARAM);
    let name = fields.required("name").map_err(within)?;
    check_name(&to_string("response_format.json_schema.name", name)?)?;
    fields.string("description").map_err(within)?;
    fields.bool("strict").map_err(within)?;
    let schema = fields.required("schema").map_err(within)?;
    fields.finish(&[]).map_err(within)?;
    json("response_format.json_schema.schema", schema)
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    let reason = format!("{:?} is not 1 to {MAX_NAME_BYTES} letters, digits, '_' or '-'", echo(name));
    Err(ApiError::invalid("response_format.json_schema.name", reason))
}

fn structured_outputs(value: Value) -> Result<Format, ApiError> {
    const PARAM: &str = "structured_outputs";
    const OTHERS: &[Unimplemented] = &[
        Unimplemented { name: "disable_additional_properties", neutral: &["false"] },
        Unimplemented { name: "disable_any_whitespace", neutral: &["false"] },
        Unimplemented { name: "disable_fallback", neutral: &["true", "false"] },
        Unimplemented { name: "structural_tag", neutral: &[] },
        Unimplemented { name: "whitespace_pattern", neutral: &[] },
    ];
    let mut fields = Fields::of(value, PARAM)?;
    let within = |error: ApiError| error.within(PARAM);
    let object = fields.bool("json_object").map_err(within)?.unwrap_or(false);
    let object = object.then(|| Format::new("structured_outputs.json_object", Grammar::json_object(), None));
    let asked = [
        object,
        fields.take("json").map(|value| json("structured_outputs.json", value)).transpose()?,
        fields.take("regex").map(|value| regex("structured_outputs.regex", value)).transpose()?,
        fields.take("choice").map(|value| choice("structured_outputs.choice", value)).transpose()?,
        fields.take("grammar").map(|value| lark("structured_outputs.grammar", value)).transpose()?,
    ];
    fields.finish(OTHERS).map_err(within)?;
    let mut asked = asked.into_iter().flatten();
    match (asked.next(), asked.next()) {
        (Some(format), None) => Ok(format),
        (Some(first), Some(second)) => {
            Err(ApiError::invalid(second.param, format!("it contradicts {}", first.param)))
        }
        (None, _) => {
            Err(ApiError::invalid(PARAM, "it names none of json, regex, choice, grammar, json_object"))
        }
    }
}

/// A schema, as JSON or as a string of it.
fn json(param: &'static str, value: Value) -> Result<Format, ApiError> {
    let schema = match value {
        Value::String(text) => {
            let read = serde_json::from_str(&text);
            read.map_err(|error| {
                ApiError::invalid(param, format!("it is a string that is no JSON: {error}"))
            })?
        }
        schema => schema,
    };
    if !schema.is_object() && !schema.is_boolean() {
        return Err(wrong_type(param, "an object", &schema));
    }
    format(param, Grammar::json_schema(schema))
}

fn regex(param: &'static str, value: Value) -> Result<Format, ApiError> {
    format(param, Grammar::regex(&to_string(param, value)?))
}

fn lark(param: &'static str, value: Value) -> Result<Format, ApiError> {
    format(param, Grammar::lark(&to_string(param, value)?))
}

fn choice(param: &'static str, value: Value) -> Result<Format, ApiError> {
    let read = |(index, value)| to_string(&format!("{param}[{index}]"), value);
    let choices = to_list(param, value)?.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    format(param, Grammar::choice(&choices))
}

fn format(param: &'static str, grammar: Result<Grammar, GrammarError>) -> Result<Format, ApiError> {
    let grammar = grammar.map_err(|error| refusal(param, error))?;
    Ok(Format::new(param, grammar, None))
}

/// What an answer is held to that has to consist of calls, if the request asks for a format too. One of the content
/// says nothing of an answer that has none; one of all that is generated contradicts.
///
/// # Errors
/// The contradiction, by the format's name.
pub(super) fn beside_calls(calls: Format, asked: Option<&Format>) -> Result<Format, ApiError> {
    match asked.filter(|asked| !asked.param.starts_with(CONTENT)) {
        Some(asked) => Err(ApiError::invalid(asked.param, format!("it contradicts {}", calls.param))),
        None => Ok(calls),
    }
}

fn refusal(param: &str, error: GrammarError) -> ApiError {
    match error {
        GrammarError::Broken { .. } => ApiError::internal(error.to_string()),
        GrammarError::Tokenizer => {
            ApiError::Unsupported { param: param.to_owned(), reason: error.to_string() }
        }
        error => ApiError::invalid(param, error.to_string()),
    }
}

impl Format {
    /// One that `param` asks for. `fallback` serves if `grammar` cannot be compiled.
    pub(super) fn new(param: &'static str, grammar: Grammar, fallback: Option<Fallback>) -> Self {
        Self { grammar, fallback, param, is_behind_text: false, sources: Vec::new() }
    }

    /// The same, of a grammar in which any text may come first.
    #[must_use]
    pub(super) fn behind_text(self) -> Self {
        Self { is_behind_text: true, ..self }
    }

    /// Whether it says how the text begins.
    pub(super) fn holds_from_the_start(&self) -> bool {
        !self.is_behind_text
    }

    /// The same, made of `sources`: if it cannot be compiled, the first that cannot be by itself is refused.
    #[must_use]
    pub(super) fn made_of(self, sources: Vec<Source>) -> Self {
        Self { sources, ..self }
    }

    /// What it is by itself, as a source of another.
    pub(super) fn to_source(&self) -> Source {
        Source { param: self.param.to_owned(), grammar: self.grammar.clone() }
    }

    /// The schema, if it is JSON by one.
    pub(super) fn schema(&self) -> Option<&Value> {
        self.grammar.schema()
    }

    /// Where the request asks for it.
    pub(super) fn param(&self) -> &'static str {
        self.param
    }

    /// Makes a guide of it, for text that one of `ends` ends.
    ///
    /// # Errors
    /// What cannot be compiled, by its parameter; or the pool is gone.
    pub(super) async fn compile(&self, served: &Served, ends: &[TokenId]) -> Result<Guide, ApiError> {
        let compile = async |grammar: &Grammar| {
            let vocabulary = served.card.vocabulary.clone();
            let asked = CompileGrammar { vocabulary, grammar: grammar.clone(), ends: ends.to_vec() };
            served.pool.send(asked).await.map_err(pool_is_gone)
        };
        let compiled = match (compile(&self.grammar).await?, &self.fallback) {
            (Err(GrammarError::Compile { .. }), Some(Fallback { parts, make })) => {
                let mut are_broken = Vec::with_capacity(parts.len());
                for part in parts {
                    let compiled = match part {
                        Some(part) => compile(part).await?.map(drop),
                        None => Ok(()),
                    };
                    are_broken.push(compiled.is_err());
                }
                let less = make(&served.card.output, &are_broken);
                compile(&less.map_err(|reason| ApiError::invalid(self.param, reason))?).await?
            }
            (compiled, _) => compiled,
        };
        if matches!(compiled, Err(GrammarError::Compile { .. })) {
            for Source { param, grammar } in &self.sources {
                compile(grammar).await?.map_err(|error| refusal(param, error))?;
            }
        }
        compiled.map_err(|error| refusal(self.param, error))
    }
}
