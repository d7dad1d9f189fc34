//! Tools as the Responses API writes them, flat, as chat's, which have their function inside.

use serde_json::{Map, Value, json};

use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, to_list, to_string, wrong_type};

/// Chat's declarations of tools. Only a client's own functions are: what OpenAI's servers run is refused by name.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn declarations(tools: Value) -> Result<Value, ApiError> {
    let declare = |(index, tool)| declaration(&format!("tools[{index}]"), tool);
    to_list("tools", tools)?.into_iter().enumerate().map(declare).collect()
}

fn declaration(param: &str, tool: Value) -> Result<Value, ApiError> {
    let Value::Object(mut function) = tool else { return Err(wrong_type(param, "an object", &tool)) };
    match function.swap_remove("type") {
        Some(Value::String(kind)) if kind == "function" => {}
        Some(Value::String(kind)) => return Err(unsupported(&format!("{param}.type"), &kind)),
        None | Some(Value::Null) => return Err(ApiError::Missing { param: format!("{param}.type") }),
        Some(other) => return Err(wrong_type(&format!("{param}.type"), "a string", &other)),
    }
    function.retain(|_, value| !value.is_null());
    if !function.contains_key("name") {
        return Err(ApiError::Missing { param: format!("{param}.name") });
    }
    Ok(json!({"type": "function", "function": function}))
}

/// Chat's choice among them.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn choice(choice: Value) -> Result<Value, ApiError> {
    let Value::Object(map) = choice else { return Ok(choice) };
    let mut fields = Fields::of(Value::Object(map), "tool_choice")?;
    let mut read = || {
        let kind = to_string("type", fields.required("type")?)?;
        match kind.as_str() {
            "function" => Ok(named(to_string("name", fields.required("name")?)?)),
            "allowed_tools" => {
                let mode = fields.required("mode")?;
                let tools = to_list("tools", fields.required("tools")?)?;
                let tools = tools.into_iter().enumerate().map(|(index, tool)| {
                    let tool =
                        choice_of_one(tool).map_err(|error| error.within(&format!("tools[{index}]")))?;
                    Ok::<_, ApiError>(tool)
                });
                let tools = tools.collect::<Result<Vec<_>, _>>()?;
                Ok(json!({"type": kind, "allowed_tools": {"mode": mode, "tools": tools}}))
            }
            other => Err(unsupported("type", other)),
        }
    };
    let choice = read().map_err(|error| error.within("tool_choice"))?;
    fields.finish(&[]).map_err(|error| error.within("tool_choice"))?;
    Ok(choice)
}

fn choice_of_one(tool: Value) -> Result<Value, ApiError> {
    let Value::Object(tool) = tool else { return Err(wrong_type("type", "a string in an object", &tool)) };
    let text = |tool: &Map<String, Value>, name: &str| {
        let value = tool.get(name).cloned().filter(|value| !value.is_null());
        to_string(name, value.ok_or_else(|| ApiError::Missing { param: name.to_owned() })?)
    };
    match text(&tool, "type")?.as_str() {
        "function" => Ok(named(text(&tool, "name")?)),
        other => Err(unsupported("type", other)),
    }
}

fn named(name: String) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

fn unsupported(param: &str, kind: &str) -> ApiError {
    let reason = format!("this server runs no tools, so only \"function\" is, not {:?}", echo(kind));
    ApiError::Unsupported { param: param.to_owned(), reason }
}
