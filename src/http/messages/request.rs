//! What a Messages request says, as the fields of a chat request.

use serde_json::{Map, Value, json};

use super::{conversation, tools};
use crate::http::as_chat::Names;
use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, Unimplemented, wrong_type};

/// The chat parameter that bounds a reasoning section, in tokens.
const REASONING_BUDGET: &str = "thinking_token_budget";

/// How chat's parameters are spelled here.
pub(in crate::http) const NAMES: &Names = &[
    ("stop", "stop_sequences"),
    ("user", "metadata.user_id"),
    ("response_format.json_schema", "output_config.format"),
    ("response_format", "output_config.format"),
    ("reasoning_effort", "output_config.effort"),
    ("tools[].function.parameters", "tools[].input_schema"),
    ("tools[].function", "tools[]"),
    ("tool_choice.function", "tool_choice"),
    ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
    (REASONING_BUDGET, "thinking.budget_tokens"),
];

/// What chat calls something that has another name here, or none.
pub(in crate::http) const RESERVED: &[&str] = &[
    "add_generation_prompt",
    "best_of",
    "continue_final_message",
    "echo",
    "function_call",
    "functions",
    "include_reasoning",
    "logprobs",
    "max_completion_tokens",
    "n",
    "parallel_tool_calls",
    "reasoning_effort",
    "response_format",
    "stop",
    "stream_options",
    "top_logprobs",
    "user",
    REASONING_BUDGET,
];

/// Fields of these endpoints that this server does not implement.
pub(in crate::http) const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "container", neutral: &[] },
    Unimplemented { name: "context_management", neutral: &[] },
    Unimplemented { name: "diagnostics", neutral: &[] },
    Unimplemented { name: "inference_geo", neutral: &[] },
    Unimplemented { name: "mcp_servers", neutral: &["[]"] },
    Unimplemented { name: "output_format", neutral: &[] },
    Unimplemented { name: "service_tier", neutral: &["\"auto\"", "\"standard_only\""] },
    Unimplemented { name: "speed", neutral: &["\"standard\""] },
    Unimplemented { name: "user_profile_id", neutral: &[] },
    Unimplemented { name: "workspace_id", neutral: &[] },
];

/// A request for a message.
///
/// # Errors
/// The first field that is wrong, by name.
pub(in crate::http) fn message(mut fields: Fields) -> Result<Map<String, Value>, ApiError> {
    let max_tokens = fields.required("max_tokens")?;
    let mut chat = prompt_of(&mut fields)?;
    thinking(&mut fields, &mut chat, max_tokens.as_u64())?;
    chat.insert("max_tokens".to_owned(), max_tokens);
    if let Some(stops) = fields.take("stop_sequences") {
        if !stops.is_array() {
            return Err(wrong_type("stop_sequences", "an array of strings", &stops));
        }
        chat.insert("stop".to_owned(), stops);
    }
    if let Some(temperature) = fields.take("temperature") {
        if temperature.as_f64().is_some_and(|value| value > 1.0) {
            return Err(ApiError::invalid("temperature", format!("{temperature} is not between 0 and 1")));
        }
        chat.insert("temperature".to_owned(), temperature);
    }
    metadata(&mut fields, &mut chat)?;
    pass_on(fields, chat)
}

/// A request for the length of a prompt.
///
/// # Errors
/// The first field that is wrong, by name.
pub(in crate::http) fn prompt(mut fields: Fields) -> Result<Map<String, Value>, ApiError> {
    let mut chat = prompt_of(&mut fields)?;
    thinking(&mut fields, &mut chat, None)?;
    pass_on(fields, chat)
}

/// The fields that make the prompt, and what an answer to it has to look like.
fn prompt_of(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    let mut chat = Map::new();
    chat.insert("model".to_owned(), fields.required("model")?);
    conversation::read(fields, &mut chat)?;
    tools::read(fields, &mut chat)?;
    output_config(fields, &mut chat)?;
    // It marks what is to be cached; here every prefix is.
    fields.object("cache_control")?;
    Ok(chat)
}

/// What is not Anthropic's is chat's to know.
fn pass_on(mut fields: Fields, mut chat: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let mut unimplemented = Map::new();
    for &Unimplemented { name, .. } in UNIMPLEMENTED {
        unimplemented.extend(fields.take(name).map(|value| (name.to_owned(), value)));
    }
    Fields::of(Value::Object(unimplemented), "body")?.finish(UNIMPLEMENTED)?;
    let rest = fields.into_rest(RESERVED)?;
    for (name, value) in rest {
        match (chat.get_mut(&name), value) {
            (Some(Value::Object(ours)), Value::Object(theirs)) => {
                // The client's own word about its template counts.
                ours.extend(theirs);
            }
            (_, value) => {
                chat.insert(name, value);
            }
        }
    }
    Ok(chat)
}

/// `thinking` decides whether the template opens a reasoning section, and how long it may get.
fn thinking(
    fields: &mut Fields,
    chat: &mut Map<String, Value>,
    max_tokens: Option<u64>,
) -> Result<(), ApiError> {
    let Some(thinking) = fields.take("thinking") else { return Ok(()) };
    let mut thinking = Fields::of(thinking, "thinking")?;
    let within = |error: ApiError| error.within("thinking");
    let kind = thinking.required("type").map_err(within)?;
    let is_enabled = match kind.as_str() {
        Some("enabled") => true,
        Some("disabled") => false,
        // The model's own choice is what its template does by itself.
        Some("adaptive") => return thinking.finish(&[]).map_err(within),
        Some(other) => {
            let reason = format!("{:?} is not one of enabled, disabled, adaptive", echo(other));
            return Err(ApiError::invalid("thinking.type", reason));
        }
        None => return Err(wrong_type("thinking.type", "a string", &kind)),
    };
    if is_enabled {
        let budget = thinking.required("budget_tokens").map_err(within)?;
        if let (Some(budget), Some(max_tokens)) = (budget.as_u64(), max_tokens)
            && budget >= max_tokens
        {
            let reason = format!("{budget} is not below max_tokens of {max_tokens}");
            return Err(ApiError::invalid("thinking.budget_tokens", reason));
        }
        chat.insert(REASONING_BUDGET.to_owned(), budget);
    }
    chat.insert("chat_template_kwargs".to_owned(), json!({"enable_thinking": is_enabled}));
    thinking.finish(&[]).map_err(within)
}

fn metadata(fields: &mut Fields, chat: &mut Map<String, Value>) -> Result<(), ApiError> {
    let Some(metadata) = fields.take("metadata") else { return Ok(()) };
    let mut metadata = Fields::of(metadata, "metadata")?;
    if let Some(user) = metadata.take("user_id") {
        chat.insert("user".to_owned(), user);
    }
    metadata.finish(&[]).map_err(|error| error.within("metadata"))
}

/// `output_config`: a schema that the answer follows, and how much effort it is worth.
fn output_config(fields: &mut Fields, chat: &mut Map<String, Value>) -> Result<(), ApiError> {
    let Some(config) = fields.take("output_config") else { return Ok(()) };
    let mut config = Fields::of(config, "output_config")?;
    if let Some(effort) = config.take("effort") {
        chat.insert("reasoning_effort".to_owned(), effort);
    }
    if let Some(format) = config.take("format") {
        let within = |error: ApiError| error.within("output_config.format");
        let mut format = Fields::of(format, "output_config.format")?;
        let kind = format.required("type").map_err(within)?;
        if kind != "json_schema" {
            let reason = format!("{} is not \"json_schema\"", echo(&kind.to_string()));
            return Err(ApiError::invalid("output_config.format.type", reason));
        }
        let schema = format.required("schema").map_err(within)?;
        format.finish(&[]).map_err(within)?;
        let schema = json!({"name": "output", "schema": schema, "strict": true});
        chat.insert("response_format".to_owned(), json!({"type": kind, "json_schema": schema}));
    }
    config.finish(&[]).map_err(|error| error.within("output_config"))
}
