//! The messages of a chat request, as clients write them.
//!
//! What an API defines is checked here, so that no template fails on it; what else a message holds is the template's to
//! read.

use serde_json::{Map, Value, json};
use troupe_actors::template::{REASONING_FIELDS, parse_arguments};

use crate::http::as_chat::text_part;
use crate::http::error::{ApiError, echo};
use crate::http::fields::{to_string, wrong_type};

/// Who may say a message.
pub(in crate::http) const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Checks a message that goes by `param` in errors. What an assistant declined becomes its content.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(param: &str, message: Value) -> Result<Value, ApiError> {
    let Value::Object(mut fields) = message else {
        return Err(wrong_type(param, "an object", &message));
    };
    let role = role(param, &fields)?;
    check_calls(&format!("{param}.tool_calls"), &fields)?;
    match role.as_str() {
        "assistant" => read_assistant(param, &mut fields)?,
        "tool" => drop(required_string(param, &fields, "tool_call_id")?),
        _ => {}
    }
    check_content(param, &role, &fields)?;
    Ok(Value::Object(fields))
}

fn role(param: &str, fields: &Map<String, Value>) -> Result<String, ApiError> {
    let role = required_string(param, fields, "role")?;
    if ROLES.contains(&role) {
        return Ok(role.to_owned());
    }
    let reason = format!("{:?} is not one of {}", echo(role), ROLES.join(", "));
    Err(ApiError::invalid(format!("{param}.role"), reason))
}

/// Puts what was declined where templates look for what was said.
fn read_assistant(param: &str, fields: &mut Map<String, Value>) -> Result<(), ApiError> {
    if get(fields, "function_call").is_some() {
        let reason = "tool_calls has taken its place".to_owned();
        return Err(ApiError::Unsupported { param: format!("{param}.function_call"), reason });
    }
    if let Some(Value::Array(parts)) = fields.get_mut("content") {
        for (index, part) in parts.iter_mut().enumerate().filter(|(_, part)| part["type"] == "refusal") {
            let refusal = part["refusal"].take();
            *part = text_part(refusal_of(&format!("{param}.content[{index}].refusal"), refusal)?);
        }
    }
    let refusal = fields.shift_remove("refusal").filter(|refusal| !refusal.is_null());
    let Some(refusal) = refusal else { return Ok(()) };
    let refusal = refusal_of(&format!("{param}.refusal"), refusal)?;
    let content = match fields.get_mut("content").map(Value::take) {
        None | Some(Value::Null) => Value::String(refusal),
        Some(Value::String(text)) => json!([text_part(text), text_part(refusal)]),
        Some(Value::Array(parts)) => parts.into_iter().chain([text_part(refusal)]).collect(),
        Some(other) => other,
    };
    fields.insert("content".to_owned(), content);
    Ok(())
}

fn refusal_of(param: &str, refusal: Value) -> Result<String, ApiError> {
    match refusal {
        Value::Null => Err(ApiError::Missing { param: param.to_owned() }),
        refusal => to_string(param, refusal),
    }
}

fn check_content(param: &str, role: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    let content = format!("{param}.content");
    match get(fields, "content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) => {
            let mut parts = parts.iter().enumerate();
            parts.try_for_each(|(index, part)| check_part(&format!("{content}[{index}]"), part))
        }
        Some(other) => Err(wrong_type(&content, "a string or an array of parts", other)),
        // An assistant's message may hold nothing but calls, or thoughts.
        None if role == "assistant" && (has_calls(fields) || has_reasoning(fields)) => Ok(()),
        None => Err(ApiError::Missing { param: content }),
    }
}

fn check_part(param: &str, part: &Value) -> Result<(), ApiError> {
    let Value::Object(fields) = part else {
        return Err(wrong_type(param, "an object", part));
    };
    match required_string(param, fields, "type")? {
        "text" => required_string(param, fields, "text").map(drop),
        kind => Err(ApiError::Unsupported {
            param: param.to_owned(),
            reason: format!("this model takes parts of type \"text\", not {:?}", echo(kind)),
        }),
    }
}

/// Templates fail on a call without its parts, and those that print no calls do not tell.
fn check_calls(param: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    match get(fields, "tool_calls") {
        None => Ok(()),
        Some(Value::Array(calls)) => {
            let mut calls = calls.iter().enumerate();
            calls.try_for_each(|(index, call)| check_call(&format!("{param}[{index}]"), call))
        }
        Some(other) => Err(wrong_type(param, "an array of objects", other)),
    }
}

fn check_call(param: &str, call: &Value) -> Result<(), ApiError> {
    let Value::Object(fields) = call else { return Err(wrong_type(param, "an object", call)) };
    match get(fields, "id") {
        None | Some(Value::String(_)) => {}
        Some(other) => return Err(wrong_type(&format!("{param}.id"), "a string", other)),
    }
    match get(fields, "type") {
        None => {}
        Some(Value::String(kind)) if kind == "function" => {}
        Some(Value::String(kind)) => {
            let reason = format!("calls of type \"function\" are, not {:?}", echo(kind));
            return Err(ApiError::Unsupported { param: format!("{param}.type"), reason });
        }
        Some(other) => return Err(wrong_type(&format!("{param}.type"), "a string", other)),
    }
    let param = format!("{param}.function");
    match get(fields, "function") {
        Some(Value::Object(function)) => {
            required_string(&param, function, "name")?;
            match get(function, "arguments") {
                Some(Value::String(_) | Value::Object(_)) => Ok(()),
                Some(other) => Err(wrong_type(&format!("{param}.arguments"), "a string", other)),
                None => Err(ApiError::Missing { param: format!("{param}.arguments") }),
            }
        }
        Some(other) => Err(wrong_type(&param, "an object", other)),
        None => Err(ApiError::Missing { param }),
    }
}

/// Checks that the arguments of all calls are objects, as templates expect them.
///
/// # Errors
/// The first that is none, by name.
pub(super) fn check_arguments(messages: &[Value]) -> Result<(), ApiError> {
    for (index, message) in messages.iter().enumerate() {
        for (call, value) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
            if value["function"]["arguments"].as_str().is_some_and(|text| parse_arguments(text).is_none()) {
                let param = format!("messages[{index}].tool_calls[{call}].function.arguments");
                return Err(ApiError::invalid(param, "it is not the text of a JSON object"));
            }
        }
    }
    Ok(())
}

/// Checks that an answer can go on with this message.
///
/// # Errors
/// If it has calls, which would be lost, or no text.
pub(super) fn check_continued(message: &Value) -> Result<(), ApiError> {
    let refuse = |reason: &str| Err(ApiError::invalid("continue_final_message", reason));
    let Value::Object(fields) = message else { return Ok(()) };
    if has_calls(fields) {
        return refuse("the last message ends in tool_calls, which nothing can follow");
    }
    match get(fields, "content") {
        None => refuse("the last message has no content to go on with"),
        Some(Value::Array(parts)) if parts.is_empty() => {
            refuse("the last message has no content to go on with")
        }
        Some(_) => Ok(()),
    }
}

fn has_calls(fields: &Map<String, Value>) -> bool {
    matches!(fields.get("tool_calls"), Some(Value::Array(calls)) if !calls.is_empty())
}

fn has_reasoning(fields: &Map<String, Value>) -> bool {
    REASONING_FIELDS.iter().any(|name| get(fields, name).is_some())
}

/// A field that is there; null counts as absent.
fn get<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn required_string<'a>(param: &str, fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, ApiError> {
    match get(fields, name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong_type(&format!("{param}.{name}"), "a string", other)),
        None => Err(ApiError::Missing { param: format!("{param}.{name}") }),
    }
}
