//! What a chat request says, field by field.

use serde_json::{Map, Value};
use troupe_actors::model_card::ModelCard;
use troupe_actors::template::Ending;
use troupe_protocol::sampling::MAX_LOGPROBS;

use super::error::{ApiError, echo};
use super::fields::{Fields, Unimplemented, to_list, wrong_type};
use super::params::{self, Generation};
use super::reasoning::{self, ReasoningOptions};
use super::response_format;
use super::tenants::Tenant;
use super::tools::{self, Toolbox};

/// The most messages of one conversation.
pub(super) const MAX_MESSAGES: usize = 4096;

/// Who may say a message.
pub(super) const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Fields of this endpoint that this server does not implement.
pub(super) const UNIMPLEMENTED: &[Unimplemented] = &[
    // A template writes the special tokens itself; a second BOS is always wrong.
    Unimplemented { name: "add_special_tokens", neutral: &["false"] },
    Unimplemented { name: "audio", neutral: &[] },
    Unimplemented { name: "chat_template", neutral: &[] },
    Unimplemented { name: "documents", neutral: &["[]"] },
    Unimplemented { name: "echo", neutral: &["false"] },
    Unimplemented { name: "function_call", neutral: &["\"none\""] },
    Unimplemented { name: "functions", neutral: &["[]"] },
    Unimplemented { name: "mm_processor_kwargs", neutral: &[] },
    Unimplemented { name: "modalities", neutral: &[r#"["text"]"#] },
    Unimplemented { name: "prediction", neutral: &[] },
    Unimplemented { name: "prompt_cache_retention", neutral: &["\"in_memory\"", "\"in-memory\""] },
    Unimplemented { name: "reasoning", neutral: &[] },
    Unimplemented { name: "store", neutral: &["false"] },
    Unimplemented { name: "thinking_budget_tokens", neutral: &[] },
    Unimplemented { name: "verbosity", neutral: &["\"medium\""] },
    Unimplemented { name: "web_search_options", neutral: &[] },
];

/// A chat request, validated as far as that needs no tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChatRequest {
    /// The conversation to be answered.
    pub(super) conversation: Conversation,
    /// What may be called.
    pub(super) toolbox: Toolbox,
    /// What becomes of its reasoning.
    pub(super) reasoning: ReasoningOptions,
    /// How to answer.
    pub(super) generation: Generation,
}

/// Messages, and how they become a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conversation {
    /// In OpenAI's shape; at least one.
    pub(super) messages: Vec<Value>,
    /// Definitions of tools, in OpenAI's shape.
    pub(super) tools: Vec<Value>,
    /// What the prompt ends in.
    pub(super) ending: Ending,
    /// Further variables of the template.
    pub(super) variables: Map<String, Value>,
}

impl Conversation {
    /// The text of the message that the answer continues, if it continues one.
    pub(super) fn continued(&self) -> Option<String> {
        let last = self.messages.last().filter(|_| self.ending == Ending::ContinueFinalMessage)?;
        match last.get("content")? {
            Value::String(text) => Some(text.clone()),
            Value::Array(parts) => parts.last()?.get("text")?.as_str().map(str::to_owned),
            _ => None,
        }
    }
}

/// Reads a chat request.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(
    mut fields: Fields,
    card: &ModelCard,
    tenant: &Tenant,
    entropy: u64,
) -> Result<ChatRequest, ApiError> {
    params::check_model(&mut fields, card, tenant)?;
    let mut generation = params::read(&mut fields, card, entropy)?;
    let mut toolbox = tools::read(&mut fields, &card.output, generation.format.take())?;
    generation.format = toolbox.format.take();
    let mut conversation = conversation(&mut fields)?;
    conversation.tools.clone_from(&toolbox.definitions);
    let reasoning = reasoning::read(&mut fields, card, &mut conversation.variables)?;
    generation.sampling.logprobs = logprobs(&mut fields)?;
    fields.finish(&[UNIMPLEMENTED, params::UNIMPLEMENTED, response_format::UNIMPLEMENTED].concat())?;
    Ok(ChatRequest { conversation, toolbox, reasoning, generation })
}

/// Takes the fields that make a prompt of messages.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn conversation(fields: &mut Fields) -> Result<Conversation, ApiError> {
    let messages = to_list("messages", fields.required("messages")?)?;
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        let reason = format!("{} messages are not between 1 and {MAX_MESSAGES}", messages.len());
        return Err(ApiError::invalid("messages", reason));
    }
    for (index, message) in messages.iter().enumerate() {
        check_message(&format!("messages[{index}]"), message)?;
    }
    let generation_prompt = fields.bool("add_generation_prompt")?;
    let ending = match (fields.bool("continue_final_message")?.unwrap_or(false), generation_prompt) {
        (true, Some(true)) => {
            let reason = "it cannot be true together with add_generation_prompt";
            return Err(ApiError::invalid("continue_final_message", reason));
        }
        (true, _) => Ending::ContinueFinalMessage,
        (false, Some(false)) => Ending::Closed,
        (false, _) => Ending::GenerationPrompt,
    };
    Ok(Conversation {
        messages,
        tools: Vec::new(),
        ending,
        variables: fields.object("chat_template_kwargs")?.unwrap_or_default(),
    })
}

fn check_message(param: &str, message: &Value) -> Result<(), ApiError> {
    let Value::Object(fields) = message else {
        return Err(wrong_type(param, "an object", message));
    };
    let role = match fields.get("role") {
        Some(Value::String(role)) => role.as_str(),
        None | Some(Value::Null) => return Err(ApiError::Missing { param: format!("{param}.role") }),
        Some(other) => return Err(wrong_type(&format!("{param}.role"), "a string", other)),
    };
    if !ROLES.contains(&role) {
        let reason = format!("{:?} is not one of {}", echo(role), ROLES.join(", "));
        return Err(ApiError::invalid(format!("{param}.role"), reason));
    }
    check_tool_calls(&format!("{param}.tool_calls"), fields.get("tool_calls"))?;
    let content = format!("{param}.content");
    match fields.get("content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) => {
            let mut parts = parts.iter().enumerate();
            parts.try_for_each(|(index, part)| check_part(&format!("{content}[{index}]"), part))
        }
        // An assistant's message may hold nothing but calls.
        None | Some(Value::Null) if role == "assistant" => Ok(()),
        None | Some(Value::Null) => Err(ApiError::Missing { param: content }),
        Some(other) => Err(wrong_type(&content, "a string or an array of parts", other)),
    }
}

/// What a call holds is the template's to read; that they are calls at all is not.
fn check_tool_calls(param: &str, calls: Option<&Value>) -> Result<(), ApiError> {
    match calls {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(calls)) => match calls.iter().enumerate().find(|(_, call)| !call.is_object()) {
            Some((index, call)) => Err(wrong_type(&format!("{param}[{index}]"), "an object", call)),
            None => Ok(()),
        },
        Some(other) => Err(wrong_type(param, "an array of objects", other)),
    }
}

fn check_part(param: &str, part: &Value) -> Result<(), ApiError> {
    let Value::Object(fields) = part else {
        return Err(wrong_type(param, "an object", part));
    };
    match fields.get("type") {
        Some(Value::String(kind)) if kind == "text" => match fields.get("text") {
            Some(Value::String(_)) => Ok(()),
            None | Some(Value::Null) => Err(ApiError::Missing { param: format!("{param}.text") }),
            Some(other) => Err(wrong_type(&format!("{param}.text"), "a string", other)),
        },
        Some(Value::String(kind)) => Err(ApiError::Unsupported {
            param: param.to_owned(),
            reason: format!("this model takes parts of type \"text\", not {:?}", echo(kind)),
        }),
        None | Some(Value::Null) => Err(ApiError::Missing { param: format!("{param}.type") }),
        Some(other) => Err(wrong_type(&format!("{param}.type"), "a string", other)),
    }
}

fn logprobs(fields: &mut Fields) -> Result<Option<u8>, ApiError> {
    let wanted = fields.bool("logprobs")?.unwrap_or(false);
    match (wanted, fields.unsigned("top_logprobs")?) {
        (true, top) => params::alternatives("top_logprobs", top.unwrap_or(0)).map(Some),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(ApiError::invalid(
            "top_logprobs",
            format!("up to {MAX_LOGPROBS} are given, but only when logprobs is true"),
        )),
    }
}
