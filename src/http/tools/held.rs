//! The grammars of answers that have to call, and of those that may by a schema that is `strict`.
//!
//! Schemas are enforced by them. One that is not `strict`, and cannot be, counts as far as it can: for the names of the
//! arguments and their plain types.

use serde_json::Value;
use troupe_actors::call_grammar::{CallGrammarError, relaxed};
use troupe_actors::guide::{Grammar, GrammarError};
use troupe_actors::output_syntax::OutputSyntax;
use troupe_actors::parsers::{CallBody, Tool};
use troupe_actors::session::CallLimit;

use super::{Definition, unsupported};
use crate::http::error::ApiError;
use crate::http::response_format::{Format, Source, beside_calls};

/// What schemas say of texts, and formats that write texts as they stand do not enforce.
const OF_TEXTS: [&str; 4] = ["pattern", "format", "minLength", "maxLength"];

/// What an answer is held to that consists of calls of these tools.
///
/// # Errors
/// A `strict` schema that cannot be enforced, by its name; more than a grammar may hold; a format that contradicts.
pub(super) fn answer(
    output: &OutputSyntax,
    callable: &[&Definition],
    calls: CallLimit,
    asked: Option<&Format>,
) -> Result<Format, ApiError> {
    let text = |tools: &[Tool]| output.call_grammar(tools, calls);
    let schemas = Schemas::read(output, callable)?;
    let calls = format("tool_choice", schemas.grammars(text, Grammar::made_lark))?;
    beside_calls(calls.made_of(schemas.strict), asked)
}

/// What an answer is held to that is calls of these tools or else in the format that is asked for. The format alone, if no
/// grammar tells the two from each other.
///
/// # Errors
/// A `strict` schema that cannot be enforced, by its name; more than a grammar may hold.
pub(super) fn calls_or(
    output: &OutputSyntax,
    callable: &[&Definition],
    calls: CallLimit,
    asked: Format,
) -> Result<Format, ApiError> {
    let may_call = !callable.is_empty() && output.tells_calls_from_json();
    let Some(schema) = asked.schema().filter(|_| may_call) else { return Ok(asked) };
    let text = |tools: &[Tool]| output.calls_or_json_grammar(tools, calls, schema);
    let mut schemas = Schemas::read(output, callable)?;
    let either = schemas.grammars(text, Grammar::made_lark_of_wholes);
    schemas.strict.insert(0, asked.to_source());
    Ok(format(asked.param(), either)?.made_of(schemas.strict))
}

/// What an answer is held to that may call these tools, if one of them is `strict`. None if none is, or if no grammar
/// tells where a call of this model's begins.
///
/// # Errors
/// A `strict` schema that cannot be enforced, by its name; more than a grammar may hold.
pub(super) fn calls(
    output: &OutputSyntax,
    callable: &[&Definition],
    calls: CallLimit,
) -> Result<Option<Format>, ApiError> {
    let begins_with_a_marker =
        output.format.is_some_and(|format| !format.has_channels() && format.call_syntax().bare.is_none());
    if !begins_with_a_marker || !callable.iter().any(|definition| definition.is_strict) {
        return Ok(None);
    }
    let free = |tools: &[Tool]| Ok(output.free_grammar(tools, calls)?.unwrap_or_default());
    let schemas = Schemas::read(output, callable)?;
    let calls = format("tools", schemas.grammars(free, Grammar::made_lark))?;
    Ok(Some(calls.behind_text().made_of(schemas.strict)))
}

/// A grammar by the schemas as they are, and one by as much of them as has to be enforced.
type Grammars = [Result<Grammar, String>; 2];

fn format(param: &'static str, [exact, loose]: Grammars) -> Result<Format, ApiError> {
    match (exact, loose) {
        (Ok(exact), loose) => Ok(Format::new(param, exact, loose.ok())),
        (Err(_), Ok(loose)) => Ok(Format::new(param, loose, None)),
        (Err(reason), Err(_)) => Err(ApiError::invalid(param, reason)),
    }
}

/// The tools with their schemas as they are, and with as much of them as has to be enforced.
struct Schemas {
    exact: Vec<Tool>,
    loose: Vec<Tool>,
    /// The schemas of those that are `strict`, each by itself.
    strict: Vec<Source>,
}

impl Schemas {
    fn read(output: &OutputSyntax, callable: &[&Definition]) -> Result<Self, ApiError> {
        let (mut exact, mut loose, mut strict) = (Vec::new(), Vec::new(), Vec::new());
        for definition in callable {
            let tool = &definition.tool;
            if definition.is_strict {
                strict.push(read_strict(definition, output)?);
                exact.push(tool.clone());
                loose.push(tool.clone());
            } else {
                let relaxed = Tool { name: tool.name.clone(), parameters: relaxed(&tool.parameters) };
                let is_within_limits = Grammar::json_schema(tool.parameters.clone()).is_ok();
                exact.push(if is_within_limits { tool.clone() } else { relaxed.clone() });
                loose.push(relaxed);
            }
        }
        Ok(Self { exact, loose, strict })
    }

    fn grammars(
        &self,
        text: impl Fn(&[Tool]) -> Result<String, CallGrammarError>,
        grammar: impl Fn(&str) -> Result<Grammar, GrammarError>,
    ) -> Grammars {
        [&self.exact, &self.loose].map(|tools| {
            let text = text(tools).map_err(|error| error.to_string())?;
            grammar(&text).map_err(|error| error.to_string())
        })
    }
}

/// The schema of a `strict` tool, unless the grammar would leave something of it out.
fn read_strict(
    Definition { param, tool, .. }: &Definition,
    output: &OutputSyntax,
) -> Result<Source, ApiError> {
    let schema = format!("{param}.parameters");
    let grammar = Grammar::json_schema(tool.parameters.clone())
        .map_err(|error| ApiError::invalid(&schema, error.to_string()))?;
    let body = output.format.map(|format| format.call_syntax().body);
    let writes_texts_as_they_stand = matches!(body, Some(CallBody::Parameters(_) | CallBody::Braced { .. }));
    match of_texts(&tool.parameters).filter(|_| writes_texts_as_they_stand) {
        Some(keyword) => {
            let reason = format!(
                "calls of this model write texts as they stand, for which {keyword:?} is not enforced"
            );
            Err(unsupported(format!("{param}.strict"), reason))
        }
        None => Ok(Source { param: schema, grammar }),
    }
}

/// The first of such keywords in a schema. What has one of these names, but is none, has another type.
fn of_texts(schema: &Value) -> Option<&'static str> {
    match schema {
        Value::Object(fields) => {
            let is_said = |keyword: &&str| {
                fields.get(*keyword).is_some_and(|value| value.is_string() || value.is_number())
            };
            OF_TEXTS
                .into_iter()
                .find(|keyword| is_said(keyword))
                .or_else(|| fields.values().find_map(of_texts))
        }
        Value::Array(items) => items.iter().find_map(of_texts),
        _ => None,
    }
}
