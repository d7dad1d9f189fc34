//! Requests of other APIs, said as chat requests: what chat takes they can ask for, what it refuses is refused under
//! the name that the client wrote.

use serde_json::{Map, Value, json};
use troupe_actors::model_card::ModelCard;

use super::chat_request::{self, ChatRequest};
use super::error::ApiError;
use super::fields::Fields;
use super::generate::entropy;
use super::tenants::Tenant;

/// Parameters of chat, and how another API spells them.
pub(super) type Names = [(&'static str, &'static str)];

/// Reads a chat request that was made of another API's.
///
/// # Errors
/// The first field that is wrong, by its name there.
pub(super) fn read(
    fields: Map<String, Value>,
    names: &Names,
    card: &ModelCard,
    tenant: &Tenant,
) -> Result<ChatRequest, ApiError> {
    let request = Fields::of(Value::Object(fields), "body")
        .and_then(|fields| chat_request::read_translated(fields, card, tenant, entropy()));
    request.map_err(|error| error.renamed(names))
}

/// A part of a message's content.
pub(super) fn text_part(text: String) -> Value {
    json!({"type": "text", "text": text})
}

/// Content of these parts: a string where one will do.
pub(super) fn content(mut parts: Vec<Value>) -> Value {
    match &mut parts[..] {
        [] => Value::Null,
        [part] => part["text"].take(),
        _ => Value::Array(parts),
    }
}

/// A message of a role.
pub(super) fn message(role: &str, parts: Vec<Value>) -> Value {
    json!({"role": role, "content": content(parts)})
}

/// The result of a call.
pub(super) fn tool_message(call: &str, content: Value) -> Value {
    let content = if content.is_null() { Value::from("") } else { content };
    json!({"role": "tool", "tool_call_id": call, "content": content})
}

/// An assistant's message, which other APIs write as several things.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AssistantTurn {
    /// Text, as parts.
    pub(super) parts: Vec<Value>,
    /// What was thought before it.
    pub(super) reasoning: Vec<String>,
    /// Calls of tools.
    pub(super) calls: Vec<Value>,
}

impl AssistantTurn {
    /// Adds a call; `arguments` is JSON text.
    pub(super) fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let function = json!({"name": name, "arguments": arguments});
        self.calls.push(json!({"id": id, "type": "function", "function": function}));
    }

    /// The message, if there is anything in it; what is left is empty.
    pub(super) fn take(&mut self) -> Option<Value> {
        let turn = std::mem::take(self);
        if turn == Self::default() {
            return None;
        }
        let mut message = message("assistant", turn.parts);
        if !turn.reasoning.is_empty() {
            message["reasoning_content"] = turn.reasoning.join("\n").into();
        }
        if !turn.calls.is_empty() {
            message["tool_calls"] = turn.calls.into();
        }
        Some(message)
    }
}
