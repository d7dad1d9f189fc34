//! The grammars of answers that have to call, and of those that may by a schema that is `strict`.
//!
//! Schemas are enforced by them. One that is not `strict`, and cannot be, counts as far as it can: for the names of the
//! arguments and their plain types. Those of other tools are not less for that.

use serde_json::Value;
use troupe_actors::call_grammar::{CallGrammarError, relaxed};
use troupe_actors::guide::{Grammar, GrammarError};
use troupe_actors::output_syntax::OutputSyntax;
use troupe_actors::parsers::{CallBody, CallPlace, Tool};
use troupe_actors::session::CallLimit;

use super::{Definition, unsupported};
use crate::http::error::{ApiError, echo};
use crate::http::response_format::{Fallback, Format, Source, beside_calls};

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
    let text = move |output: &OutputSyntax, tools: &[Tool]| output.call_grammar(tools, calls);
    let schemas = Schemas::read(output, callable)?;
    beside_calls(schemas.format("tool_choice", output, Grammar::made_lark, text)?, asked)
}

/// What an answer is held to that is calls of these tools or else in the format that is asked for, and where the calls
/// stand in it. The format alone, and nowhere, if no grammar tells the two from each other.
///
/// # Errors
/// A `strict` schema that cannot be enforced, by its name; more than a grammar may hold.
pub(super) fn calls_or(
    output: &OutputSyntax,
    callable: &[&Definition],
    calls: CallLimit,
    asked: Format,
) -> Result<(Format, Option<CallPlace>), ApiError> {
    let Some(schema) = asked.schema().filter(|_| !callable.is_empty()).cloned() else {
        return Ok((asked, None));
    };
    let tools: Vec<Tool> = callable.iter().map(|definition| definition.tool.clone()).collect();
    let Some(place) = output.calls_beside_json(&tools, &schema) else { return Ok((asked, None)) };
    let text = move |output: &OutputSyntax, tools: &[Tool]| {
        output.calls_or_json_grammar(tools, calls, &schema, place)
    };
    let mut schemas = Schemas::read(output, callable)?;
    schemas.strict.insert(0, asked.to_source());
    let format = schemas.format(asked.param(), output, Grammar::made_lark_of_wholes, text)?;
    Ok((format, Some(place)))
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
    let free = move |output: &OutputSyntax, tools: &[Tool]| {
        Ok(output.free_grammar(tools, calls)?.unwrap_or_default())
    };
    let calls = Schemas::read(output, callable)?.format("tools", output, Grammar::made_lark, free)?;
    Ok(Some(calls.behind_text()))
}

/// A tool with its schema as it is, and with as much of it as has to be enforced.
#[derive(Clone)]
struct Candidate {
    exact: Tool,
    /// None if it is `strict`.
    loose: Option<Tool>,
}

/// What may be called.
struct Schemas {
    tools: Vec<Candidate>,
    /// The schemas of those that are `strict`, each by itself.
    strict: Vec<Source>,
}

impl Schemas {
    fn read(output: &OutputSyntax, callable: &[&Definition]) -> Result<Self, ApiError> {
        let (mut tools, mut strict) = (Vec::new(), Vec::new());
        for definition in callable {
            let tool = &definition.tool;
            if definition.is_strict {
                strict.push(read_strict(definition, output)?);
                tools.push(Candidate { exact: tool.clone(), loose: None });
                continue;
            }
            let loose = Tool { name: tool.name.clone(), parameters: relaxed(&tool.parameters) };
            let is_within_limits = Grammar::json_schema(tool.parameters.clone()).is_ok();
            let exact = if is_within_limits { tool.clone() } else { loose.clone() };
            tools.push(Candidate { exact, loose: Some(loose) });
        }
        Ok(Self { tools, strict })
    }

    /// What an answer is held to that calls them as `text` has it. If that cannot be compiled, those are held to less whose
    /// schemas cannot be.
    fn format(
        self,
        param: &'static str,
        output: &OutputSyntax,
        grammar: fn(&str) -> Result<Grammar, GrammarError>,
        text: impl Fn(&OutputSyntax, &[Tool]) -> Result<String, CallGrammarError> + Send + Sync + 'static,
    ) -> Result<Format, ApiError> {
        let Self { tools, strict } = self;
        let part = |tool: &Candidate| match tool.loose {
            Some(_) => Grammar::json_schema(tool.exact.parameters.clone()).ok(),
            None => None,
        };
        let (parts, count) = (tools.iter().map(part).collect(), tools.len());
        let make = move |output: &OutputSyntax, is_loose: &[bool]| {
            let chosen = tools.iter().zip(is_loose).map(|(tool, is_loose)| match &tool.loose {
                Some(loose) if *is_loose => loose.clone(),
                _ => tool.exact.clone(),
            });
            let text = text(output, &chosen.collect::<Vec<_>>()).map_err(|error| error.to_string())?;
            grammar(&text).map_err(|error| error.to_string())
        };
        let format = match make(output, &vec![false; count]) {
            Ok(exact) => Format::new(param, exact, Some(Fallback::new(parts, make))),
            Err(_) => {
                let loose =
                    make(output, &vec![true; count]).map_err(|reason| ApiError::invalid(param, reason))?;
                Format::new(param, loose, None)
            }
        };
        Ok(format.made_of(strict))
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
    if matches!(body, Some(CallBody::Parameters(_)))
        && let Some(name) = unwritable(&tool.parameters)
    {
        let reason = format!("calls of this model cannot write an argument of the name {:?}", echo(name));
        return Err(unsupported(format!("{param}.strict"), reason));
    }
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

/// The first property whose name would end its tag.
fn unwritable(schema: &Value) -> Option<&str> {
    let names = schema.get("properties")?.as_object()?.keys();
    names.map(String::as_str).find(|name| name.contains(['<', '>', '"', '=', '\n']))
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
