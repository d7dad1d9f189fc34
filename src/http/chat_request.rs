//! What a chat request says, field by field.

use serde_json::{Map, Value};
use troupe_actors::model_card::ModelCard;
use troupe_actors::template::{Ending, SET_VARIABLES};
use troupe_protocol::sampling::MAX_LOGPROBS;

use super::error::ApiError;
use super::fields::{Fields, Unimplemented, to_list};
use super::params::{self, Generation};
use super::reasoning::{self, ReasoningOptions};
use super::response_format;
use super::tenants::Tenant;
use super::tools::{self, Toolbox};

mod messages;

pub(super) use messages::ROLES;

/// The most messages of one conversation.
pub(super) const MAX_MESSAGES: usize = 4096;

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
    Unimplemented { name: "moderation", neutral: &[] },
    Unimplemented { name: "prediction", neutral: &[] },
    Unimplemented { name: "prompt_cache_options", neutral: &["{}", r#"{"mode":"implicit"}"#] },
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
    fields: Fields,
    card: &ModelCard,
    tenant: &Tenant,
    entropy: u64,
) -> Result<ChatRequest, ApiError> {
    read_with(fields, card, tenant, entropy, conversation)
}

/// Reads a chat request that was made of another API's, whose conversations may go on from a call that was cut off.
///
/// # Errors
/// The first field that is wrong, by its name in chat.
pub(super) fn read_translated(
    fields: Fields,
    card: &ModelCard,
    tenant: &Tenant,
    entropy: u64,
) -> Result<ChatRequest, ApiError> {
    read_with(fields, card, tenant, entropy, any_conversation)
}

fn read_with(
    mut fields: Fields,
    card: &ModelCard,
    tenant: &Tenant,
    entropy: u64,
    conversation: fn(&mut Fields) -> Result<Conversation, ApiError>,
) -> Result<ChatRequest, ApiError> {
    params::check_model(&mut fields, card, tenant)?;
    let mut generation = params::read(&mut fields, card, entropy)?;
    let mut toolbox = tools::read(&mut fields, &card.output, generation.format.take())?;
    generation.format = toolbox.format.take();
    let mut conversation = conversation(&mut fields)?;
    conversation.tools.clone_from(&toolbox.definitions);
    generation.check_format()?;
    check_continuation(&conversation, &generation)?;
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
    let conversation = any_conversation(fields)?;
    messages::check_arguments(&conversation.messages)?;
    Ok(conversation)
}

fn any_conversation(fields: &mut Fields) -> Result<Conversation, ApiError> {
    let messages = to_list("messages", fields.required("messages")?)?;
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        let reason = format!("{} messages are not between 1 and {MAX_MESSAGES}", messages.len());
        return Err(ApiError::invalid("messages", reason));
    }
    let read = |(index, message)| messages::read(&format!("messages[{index}]"), message);
    let messages = messages.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
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
    if let Some(last) = messages.last().filter(|_| ending == Ending::ContinueFinalMessage) {
        messages::check_continued(last)?;
    }
    Ok(Conversation { messages, tools: Vec::new(), ending, variables: variables(fields)? })
}

/// `chat_template_kwargs`, without what the template is told of other fields.
fn variables(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    const OF_REQUESTS: [&str; 2] = ["chat_template", "continue_final_message"];
    let variables = fields.object("chat_template_kwargs")?.unwrap_or_default();
    let is_set = |name: &str| SET_VARIABLES.contains(&name) || OF_REQUESTS.contains(&name);
    match variables.iter().find(|(name, value)| is_set(name) && !value.is_null()) {
        None => Ok(variables),
        Some((name, _)) => {
            let reason = match name.as_str() {
                "strftime_now" => "it tells the server's clock".to_owned(),
                name => format!("the request's own field {name} is the one for it"),
            };
            Err(ApiError::invalid(format!("chat_template_kwargs.{name}"), reason))
        }
    }
}

/// Refuses a format for an answer of which the client wrote the beginning: a grammar speaks of a whole text.
fn check_continuation(conversation: &Conversation, generation: &Generation) -> Result<(), ApiError> {
    let format = generation.format.as_ref().filter(|format| format.holds_from_the_start());
    match format.filter(|_| conversation.ending == Ending::ContinueFinalMessage) {
        Some(format) => {
            let reason = "it holds an answer from its beginning, so not one that continues the last message";
            Err(ApiError::invalid(format.param(), reason))
        }
        None => Ok(()),
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

#[cfg(test)]
mod tests;
