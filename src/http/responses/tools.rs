//! Tools as the Responses API writes them, flat, as chat's, which have their function inside.

use serde_json::{Map, Value, json};

use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, Unimplemented, to_list, to_string, wrong_type};

/// What a template is told of a tool, and chat of how far its schema is to be trusted.
const OF_FUNCTION: [&str; 4] = ["name", "description", "parameters", "strict"];
/// Of a tool's other fields.
const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "allowed_callers", neutral: &["[\"direct\"]"] },
    Unimplemented { name: "async", neutral: &["false"] },
    Unimplemented { name: "defer_loading", neutral: &["false"] },
    Unimplemented { name: "output_schema", neutral: &[] },
];

/// Chat's declarations of tools. Only a client's own functions are: what OpenAI's servers run is refused by name.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn declarations(tools: Value) -> Result<Value, ApiError> {
    let declare = |(index, tool)| declaration(&format!("tools[{index}]"), tool);
    to_list("tools", tools)?.into_iter().enumerate().map(declare).collect()
}

fn declaration(param: &str, tool: Value) -> Result<Value, ApiError> {
    let Value::Object(tool) = tool else { return Err(wrong_type(param, "an object", &tool)) };
    // In the order that the client wrote, which is the prompt's too.
    let (mut function, rest): (Map<_, _>, Map<_, _>) =
        tool.into_iter().partition(|(name, _)| OF_FUNCTION.contains(&name.as_str()));
    function.retain(|_, value| !value.is_null());
    let mut rest = Fields::of(Value::Object(rest), param)?;
    let within = |error: ApiError| error.within(param);
    let kind = rest.required("type").and_then(|kind| to_string("type", kind)).map_err(within)?;
    if kind != "function" {
        return Err(unsupported("type", &kind).within(param));
    }
    if !function.contains_key("name") {
        return Err(ApiError::Missing { param: format!("{param}.name") });
    }
    rest.finish(UNIMPLEMENTED).map_err(within)?;
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
                    let param = format!("tools[{index}]");
                    choice_of_one(Fields::of(tool, &param)?).map_err(|error| error.within(&param))
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

fn choice_of_one(mut tool: Fields) -> Result<Value, ApiError> {
    let kind = to_string("type", tool.required("type")?)?;
    if kind != "function" {
        return Err(unsupported("type", &kind));
    }
    let choice = named(to_string("name", tool.required("name")?)?);
    tool.finish(&[])?;
    Ok(choice)
}

fn named(name: String) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

fn unsupported(param: &str, kind: &str) -> ApiError {
    let reason = format!("this server runs no tools, so only \"function\" is, not {:?}", echo(kind));
    ApiError::Unsupported { param: param.to_owned(), reason }
}
