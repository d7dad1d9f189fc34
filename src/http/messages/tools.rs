//! Tools as Anthropic's clients declare them, as chat's.

use serde_json::{Map, Value, json};

use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, Unimplemented, to_list, to_string};

/// Of a tool's fields.
const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "allowed_callers", neutral: &["[\"direct\"]"] },
    Unimplemented { name: "defer_loading", neutral: &["false"] },
    Unimplemented { name: "eager_input_streaming", neutral: &["true", "false"] },
    Unimplemented { name: "input_examples", neutral: &["[]"] },
];

/// Takes `tools` and `tool_choice`.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(fields: &mut Fields, chat: &mut Map<String, Value>) -> Result<(), ApiError> {
    if let Some(tools) = fields.take("tools") {
        let tools = to_list("tools", tools)?.into_iter().enumerate();
        let tools = tools.map(|(index, tool)| read_tool(&format!("tools[{index}]"), tool));
        chat.insert("tools".to_owned(), tools.collect::<Result<Vec<_>, _>>()?.into());
    }
    match fields.take("tool_choice") {
        Some(choice) => {
            let choice = Fields::of(choice, "tool_choice")?;
            read_choice(choice, chat).map_err(|error| error.within("tool_choice"))
        }
        None => Ok(()),
    }
}

fn read_tool(param: &str, tool: Value) -> Result<Value, ApiError> {
    let mut tool = Fields::of(tool, param)?;
    let mut read = || {
        match tool.string("type")?.as_deref() {
            None | Some("custom") => {}
            Some(other) => {
                let reason = format!("only tools of clients are, not {:?}", echo(other));
                return Err(ApiError::Unsupported { param: "type".to_owned(), reason });
            }
        }
        let mut function = Map::new();
        function.insert("name".to_owned(), to_string("name", tool.required("name")?)?.into());
        if let Some(description) = tool.string("description")? {
            function.insert("description".to_owned(), description.into());
        }
        let schema = tool.object("input_schema")?;
        let schema = schema.ok_or_else(|| ApiError::Missing { param: "input_schema".to_owned() })?;
        function.insert("parameters".to_owned(), schema.into());
        if let Some(strict) = tool.bool("strict")? {
            function.insert("strict".to_owned(), strict.into());
        }
        tool.object("cache_control")?;
        Ok(json!({"type": "function", "function": function}))
    };
    let function = read().map_err(|error| error.within(param))?;
    tool.finish(UNIMPLEMENTED).map_err(|error| error.within(param))?;
    Ok(function)
}

fn read_choice(mut choice: Fields, chat: &mut Map<String, Value>) -> Result<(), ApiError> {
    let kind = to_string("type", choice.required("type")?)?;
    let choice_of_chat = match kind.as_str() {
        "auto" | "none" => json!(kind),
        "any" => json!("required"),
        "tool" => {
            let name = to_string("name", choice.required("name")?)?;
            json!({"type": "function", "function": {"name": name}})
        }
        other => {
            let reason = format!("{:?} is not one of auto, any, tool, none", echo(other));
            return Err(ApiError::invalid("type", reason));
        }
    };
    chat.insert("tool_choice".to_owned(), choice_of_chat);
    if let Some(disable) = choice.bool("disable_parallel_tool_use")? {
        chat.insert("parallel_tool_calls".to_owned(), (!disable).into());
    }
    choice.finish(&[])
}
