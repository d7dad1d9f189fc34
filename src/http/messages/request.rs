//! What a Messages request says, as the fields of a chat request.

use serde_json::{Map, Value, json};
use troupe_actors::model_card::ModelCard;

use super::{conversation, tools};
use crate::http::as_chat::Names;
use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, Unimplemented, to_string, wrong_type};
use crate::http::reasoning::{self, Switch};

/// The chat parameter that bounds a reasoning section, in tokens.
const REASONING_BUDGET: &str = "thinking_token_budget";

/// The chat parameter that keeps reasoning back if it is false.
const SHOWS_REASONING: &str = "include_reasoning";
/// How much an answer may be worth.
pub(in crate::http) const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// What Anthropic takes for an effort that is left out.
const DEFAULT_EFFORT: &str = "high";

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
    SHOWS_REASONING,
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

/// The field by which a conversation is held by the server. No server has to: clients fall back to sending all of it.
pub(super) const THREAD: &str = "thread";

/// Fields of these endpoints that this server does not implement.
pub(in crate::http) const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "billing_policy", neutral: &[] },
    Unimplemented { name: "compaction", neutral: &[] },
    Unimplemented { name: "container", neutral: &[] },
    Unimplemented { name: "context_management", neutral: &[] },
    Unimplemented { name: "diagnostics", neutral: &[] },
    Unimplemented { name: "fallback_credit_token", neutral: &[] },
    Unimplemented { name: "fallbacks", neutral: &["[]"] },
    Unimplemented { name: "inference_geo", neutral: &[] },
    Unimplemented { name: "mcp_servers", neutral: &["[]"] },
    Unimplemented { name: "output_format", neutral: &[] },
    Unimplemented { name: "service_tier", neutral: &["\"auto\"", "\"standard_only\""] },
    Unimplemented { name: "speed", neutral: &["\"standard\""] },
    Unimplemented { name: THREAD, neutral: &[] },
    Unimplemented { name: "user_profile_id", neutral: &[] },
    Unimplemented { name: "workspace_id", neutral: &[] },
];

/// A request for a message.
///
/// # Errors
/// The first field that is wrong, by name.
pub(in crate::http) fn message(mut fields: Fields, card: &ModelCard) -> Result<Map<String, Value>, ApiError> {
    let max_tokens = fields.required("max_tokens")?;
    let mut chat = prompt_of(&mut fields, card)?;
    thinking(&mut fields, &mut chat, card, max_tokens.as_u64())?;
    chat.insert("max_tokens".to_owned(), max_tokens);
    if let Some(stops) = fields.take("stop_sequences") {
        if !stops.is_array() {
            return Err(wrong_type("stop_sequences", "an array of strings", &stops));
        }
        chat.insert("stop".to_owned(), stops);
    }
    metadata(&mut fields, &mut chat)?;
    pass_on(fields, chat)
}

/// A request for the length of a prompt.
///
/// # Errors
/// The first field that is wrong, by name.
pub(in crate::http) fn prompt(mut fields: Fields, card: &ModelCard) -> Result<Map<String, Value>, ApiError> {
    let mut chat = prompt_of(&mut fields, card)?;
    thinking(&mut fields, &mut chat, card, None)?;
    pass_on(fields, chat)
}

/// The fields that make the prompt, and what an answer to it has to look like.
fn prompt_of(fields: &mut Fields, card: &ModelCard) -> Result<Map<String, Value>, ApiError> {
    let mut chat = Map::new();
    chat.insert("model".to_owned(), fields.required("model")?);
    conversation::read(fields, &mut chat)?;
    tools::read(fields, &mut chat)?;
    output_config(fields, &mut chat, card)?;
    if let Some(temperature) = fields.take("temperature") {
        // Chat's goes to 2.
        if temperature.as_f64().is_some_and(|value| !(0.0..=1.0).contains(&value)) {
            return Err(ApiError::invalid("temperature", format!("{temperature} is not between 0 and 1")));
        }
        chat.insert("temperature".to_owned(), temperature);
    }
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

/// `thinking` decides whether the template opens a reasoning section, how long it may get, and whether it is told.
fn thinking(
    fields: &mut Fields,
    chat: &mut Map<String, Value>,
    card: &ModelCard,
    max_tokens: Option<u64>,
) -> Result<(), ApiError> {
    let Some(thinking) = fields.take("thinking") else { return Ok(()) };
    let mut thinking = Fields::of(thinking, "thinking")?;
    let within = |error: ApiError| error.within("thinking");
    let kind = to_string("type", thinking.required("type").map_err(within)?).map_err(within)?;
    let wanted = match kind.as_str() {
        "enabled" => Some(Switch::On),
        "disabled" => Some(Switch::Off),
        // The model's own choice is what its template does by itself.
        "adaptive" => None,
        other => {
            let reason = format!("{:?} is not one of enabled, disabled, adaptive", echo(other));
            return Err(ApiError::invalid("thinking.type", reason));
        }
    };
    if wanted == Some(Switch::On) {
        let budget = thinking.required("budget_tokens").map_err(within)?;
        if let (Some(budget), Some(max_tokens)) = (budget.as_u64(), max_tokens)
            && budget >= max_tokens
        {
            let reason = format!("{budget} is not below max_tokens of {max_tokens}");
            return Err(ApiError::invalid("thinking.budget_tokens", reason));
        }
        chat.insert(REASONING_BUDGET.to_owned(), budget);
    }
    if wanted != Some(Switch::Off) {
        let is_shown = is_displayed(&mut thinking).map_err(within)?;
        chat.extend(is_shown.map(|is_shown| (SHOWS_REASONING.to_owned(), is_shown.into())));
    }
    if let Some(wanted) = wanted {
        let mut variables = Map::new();
        reasoning::switch("thinking", wanted, card, &mut variables)?;
        chat.insert("chat_template_kwargs".to_owned(), variables.into());
    }
    thinking.finish(&[]).map_err(within)
}

/// `display`. What is summarised elsewhere is told whole here: the word asks for thinking to be told at all.
fn is_displayed(thinking: &mut Fields) -> Result<Option<bool>, ApiError> {
    match thinking.string("display")?.as_deref() {
        None => Ok(None),
        Some("summarized") => Ok(Some(true)),
        Some("omitted") => Ok(Some(false)),
        Some(other) => {
            let reason = format!("{:?} is not one of summarized, omitted", echo(other));
            Err(ApiError::invalid("display", reason))
        }
    }
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
fn output_config(
    fields: &mut Fields,
    chat: &mut Map<String, Value>,
    card: &ModelCard,
) -> Result<(), ApiError> {
    let Some(config) = fields.take("output_config") else { return Ok(()) };
    let mut config = Fields::of(config, "output_config")?;
    let effort = config.string("effort").map_err(|error| error.within("output_config"))?;
    if let Some(effort) = effort {
        if !EFFORTS.contains(&effort.as_str()) {
            let reason = format!("{:?} is not one of {}", echo(&effort), EFFORTS.join(", "));
            return Err(ApiError::invalid("output_config.effort", reason));
        }
        // Clients send it whatever the model is; a template that knows no effort makes its usual one.
        if effort != DEFAULT_EFFORT || reasoning::has_efforts(card) {
            chat.insert("reasoning_effort".to_owned(), effort.into());
        }
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
