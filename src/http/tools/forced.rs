//! The grammar of an answer that has to call.
//!
//! Schemas are enforced by it. One that is not `strict`, and cannot be, counts as far as it can: for the names of the
//! arguments and their plain types.

use serde_json::Value;
use troupe_actors::call_grammar::relaxed;
use troupe_actors::guide::Grammar;
use troupe_actors::output_syntax::OutputSyntax;
use troupe_actors::parsers::{CallBody, Tool};
use troupe_actors::session::CallLimit;

use super::{Definition, unsupported};
use crate::http::error::ApiError;
use crate::http::response_format::Format;

const PARAM: &str = "tool_choice";
/// What schemas say of texts, and formats that write texts as they stand do not enforce.
const OF_TEXTS: [&str; 4] = ["pattern", "format", "minLength", "maxLength"];

/// What an answer is held to that consists of calls of these tools.
///
/// # Errors
/// A `strict` schema that cannot be enforced, by its name; more than a grammar may hold.
pub(super) fn format(
    output: &OutputSyntax,
    callable: &[&Definition],
    calls: CallLimit,
) -> Result<Format, ApiError> {
    let (mut exact, mut loose) = (Vec::new(), Vec::new());
    for definition in callable {
        let tool = &definition.tool;
        let may_be_relaxed = || Tool { name: tool.name.clone(), parameters: relaxed(&tool.parameters) };
        if definition.is_strict {
            check_strict(definition, output)?;
            exact.push(tool.clone());
            loose.push(tool.clone());
        } else {
            let is_within_limits = Grammar::json_schema(tool.parameters.clone()).is_ok();
            exact.push(if is_within_limits { tool.clone() } else { may_be_relaxed() });
            loose.push(may_be_relaxed());
        }
    }
    let grammar = |tools: &[Tool]| {
        let text = output.call_grammar(tools, calls).map_err(|error| error.to_string())?;
        Grammar::lark(&text).map_err(|error| error.to_string())
    };
    match (grammar(&exact), grammar(&loose)) {
        (Ok(exact), loose) => Ok(Format::new(PARAM, exact, loose.ok())),
        (Err(_), Ok(loose)) => Ok(Format::new(PARAM, loose, None)),
        (Err(reason), Err(_)) => Err(ApiError::invalid(PARAM, reason)),
    }
}

/// Refuses what the grammar of a `strict` tool would leave out.
fn check_strict(Definition { param, tool, .. }: &Definition, output: &OutputSyntax) -> Result<(), ApiError> {
    if let Err(error) = Grammar::json_schema(tool.parameters.clone()) {
        return Err(ApiError::invalid(format!("{param}.parameters"), error.to_string()));
    }
    let body = output.format.map(|format| format.call_syntax().body);
    let writes_texts_as_they_stand = matches!(body, Some(CallBody::Parameters(_) | CallBody::Braced { .. }));
    match of_texts(&tool.parameters).filter(|_| writes_texts_as_they_stand) {
        Some(keyword) => {
            let reason = format!(
                "calls of this model write texts as they stand, for which {keyword:?} is not enforced"
            );
            Err(unsupported(format!("{param}.strict"), reason))
        }
        None => Ok(()),
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
