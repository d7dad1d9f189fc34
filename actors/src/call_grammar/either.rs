//! Answers that are either calls or JSON by a schema.

use serde_json::{Map, Value as Json, json};
use troupe_parsers::{CallBody, CallPlace, CallSyntax, JsonName, Tool};
use troupe_protocol::TokenId;

use super::likeness::may_look_like_a_call;
use super::values::closed;
use super::{CallGrammarError, Term, all, calls, text};
use crate::guide::MAX_GRAMMAR_BYTES;
use crate::session::CallLimit;

/// The tokens by which messages in channels are told from what they say.
const CHANNEL_TOKENS: [&str; 6] =
    ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>"];

/// What a document in a message of its own stands behind.
const FINAL: &str = "<|channel|>final<|message|>";

/// The words of JSON.
const WORDS: [&str; 3] = ["true", "false", "null"];

/// Where calls of these tools may stand in an answer that is either those or JSON by a schema. `control` are the control
/// tokens with their spellings. None if the two cannot be told from each other.
pub fn beside_json(
    syntax: &CallSyntax,
    tools: &[Tool],
    schema: &Json,
    control: &[(String, TokenId)],
) -> Option<CallPlace> {
    if syntax.body == CallBody::Channels {
        let has = |token: &&str| control.iter().any(|(spelling, _)| spelling == token);
        return CHANNEL_TOKENS.iter().all(has).then_some(CallPlace::Start);
    }
    let bare_is_told = match syntax.body {
        // No JSON holds a name and a parenthesis behind the bracket.
        CallBody::Pythonic(_) => true,
        CallBody::JsonObject(body) => {
            !may_look_like_a_call(&body, tools, schema) && calls_as_schemas(syntax, tools, schema).is_some()
        }
        _ => false,
    };
    if syntax.bare.is_some() && bare_is_told {
        return Some(CallPlace::Start);
    }
    is_told_from_json(marker(syntax), control).then_some(CallPlace::MarkedStart)
}

/// An answer of calls there, or of JSON.
///
/// # Errors
/// No tools, or more than a grammar may hold.
pub fn calls_or_json(
    syntax: &CallSyntax,
    tools: &[Tool],
    limit: CallLimit,
    schema: &Json,
    place: CallPlace,
    control: &[(String, TokenId)],
) -> Result<Term, CallGrammarError> {
    let json = Term::Json(schema.clone());
    if syntax.body == CallBody::Channels {
        return Ok(Term::Any(vec![calls(syntax, tools, limit)?, all([text(FINAL), json])]));
    }
    let marked = apart(calls(&CallSyntax { bare: None, ..*syntax }, tools, limit)?, control);
    if syntax.bare.is_none() || place == CallPlace::MarkedStart {
        return Ok(Term::Any(vec![marked, json]));
    }
    if let CallBody::Pythonic(_) = syntax.body {
        return Ok(Term::Any(vec![marked, calls(syntax, tools, limit)?, json]));
    }
    let too_large = CallGrammarError::TooLarge { limit: MAX_GRAMMAR_BYTES };
    let either = calls_as_schemas(syntax, tools, schema).ok_or(too_large)?;
    match either.to_string().len() {
        bytes if bytes > MAX_GRAMMAR_BYTES => Err(too_large),
        _ => Ok(Term::Any(vec![marked, Term::Json(either)])),
    }
}

/// The marker that calls begin with.
fn marker(syntax: &CallSyntax) -> &'static str {
    if syntax.section.begin.is_empty() { syntax.call.begin } else { syntax.section.begin }
}

/// Whether no JSON begins as this marker does, which is a control token or read from text.
fn is_told_from_json(marker: &str, control: &[(String, TokenId)]) -> bool {
    if begins_with_a_token(marker, control) {
        return true;
    }
    let begins_a_value = |c: char| c.is_whitespace() || "{[\"-0123456789tfn".contains(c);
    let mut characters = marker.chars();
    match characters.next() {
        None => false,
        Some('[') => characters.next().is_some_and(|c| !begins_a_value(c) && c != ']'),
        Some('t' | 'f' | 'n') => {
            !WORDS.iter().any(|word| word.starts_with(marker) || marker.starts_with(word))
        }
        Some(first) => !begins_a_value(first),
    }
}

fn begins_with_a_token(text: &str, control: &[(String, TokenId)]) -> bool {
    control.iter().any(|(spelling, _)| !spelling.is_empty() && text.starts_with(spelling))
}

/// The same with its bracket by itself: a longer lexeme would be looked for where JSON has the bracket alone, and the lexer
/// does not go back.
fn apart(term: Term, control: &[(String, TokenId)]) -> Term {
    let Term::All(mut terms) = term else { return term };
    if let Some(Term::Text(first)) = terms.first_mut()
        && first.starts_with('[')
        && first.len() > 1
        && !begins_with_a_token(first, control)
    {
        first.remove(0);
        terms.insert(0, text("["));
    }
    Term::All(terms)
}

/// The schema of a document by `schema`, or of one bare call: as schemas of one, both have the same lexemes, so that none has
/// to be chosen before they differ. None if a reference of theirs cannot be moved along.
fn calls_as_schemas(syntax: &CallSyntax, tools: &[Tool], schema: &Json) -> Option<Json> {
    let CallBody::JsonObject(body) = syntax.body else { return None };
    let JsonName::Under { name_key, arguments_key } = body.name else { return None };
    let call = |(index, tool): (usize, &Tool)| {
        let place = format!("/anyOf/{index}/properties/{arguments_key}");
        let arguments = moved(&closed(&tool.parameters), &place)?;
        Some(json!({
            "type": "object",
            "properties": {name_key: {"const": tool.name}, arguments_key: arguments},
            "required": [name_key, arguments_key],
            "additionalProperties": false,
        }))
    };
    let mut either = tools.iter().enumerate().map(call).collect::<Option<Vec<_>>>()?;
    either.push(moved(schema, &format!("/anyOf/{}", tools.len()))?);
    Some(json!({"anyOf": either}))
}

/// A schema that is to stand at this place of another, with its references to itself. None if it has other ones, or says
/// what counts only at the top.
fn moved(schema: &Json, place: &str) -> Option<Json> {
    const AT_THE_TOP: [&str; 7] =
        ["$schema", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];
    const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
    const OF_NAMES: [&str; 5] =
        ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
    let moved_within = |fields: &Map<String, Json>| {
        let moved = fields.iter().map(|(key, value)| Some((key.clone(), moved(value, place)?)));
        moved.collect::<Option<Map<_, _>>>().map(Json::Object)
    };
    match schema {
        Json::Array(items) => {
            items.iter().map(|item| moved(item, place)).collect::<Option<Vec<_>>>().map(Json::Array)
        }
        Json::Object(fields) => {
            let field = |(key, value): (&String, &Json)| {
                let value = match (key.as_str(), value) {
                    (key, _) if AT_THE_TOP.contains(&key) => return None,
                    (key, _) if DATA.contains(&key) => value.clone(),
                    (key, Json::Object(named)) if OF_NAMES.contains(&key) => moved_within(named)?,
                    ("$ref", Json::String(reference)) => match reference.strip_prefix('#')? {
                        rest if rest.is_empty() || rest.starts_with('/') => format!("#{place}{rest}").into(),
                        _ => return None,
                    },
                    (_, value) => moved(value, place)?,
                };
                Some((key.clone(), value))
            };
            fields.iter().map(field).collect::<Option<Map<_, _>>>().map(Json::Object)
        }
        other => Some(other.clone()),
    }
}
