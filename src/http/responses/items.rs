//! Items: what goes into a conversation, in the form in which it is kept, and as chat's messages.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::http::as_chat::{AssistantTurn, content, message, text_part, tool_message};
use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, Unimplemented, to_list, to_string, wrong_type};
use crate::http::generate::random_id;

/// The most items of one request.
pub(super) const MAX_ITEMS: usize = 4096;
/// The most references of one request to items that are stored. For each, a response is read.
pub(super) const MAX_REFERENCES: usize = 256;

/// Of items' fields.
const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "async", neutral: &["false"] },
    Unimplemented { name: "caller", neutral: &[r#"{"type":"direct"}"#] },
    Unimplemented { name: "namespace", neutral: &[] },
    Unimplemented { name: "phase", neutral: &[] },
];

const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];

/// An item as a conversation needs it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// What somebody said, as parts of chat.
    Message {
        /// Who.
        role: String,
        /// What.
        parts: Vec<Value>,
    },
    /// What the model thought.
    Reasoning(String),
    /// A call of a tool.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// JSON text.
        arguments: String,
    },
    /// What came of it.
    CallOutput {
        /// Of which call.
        id: String,
        /// As chat's content.
        content: Value,
    },
}

/// Reads an item that goes by `param` in errors.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(param: &str, item: &Value) -> Result<Item, ApiError> {
    let mut fields = Fields::of(item.clone(), param)?;
    let mut read = || {
        // Where it was, and how far it had come: both are the past.
        fields.string("id")?;
        fields.string("status")?;
        match fields.string("type")?.as_deref() {
            None | Some("message") => read_message(&mut fields),
            Some("reasoning") => read_reasoning(&mut fields),
            Some("function_call") => Ok(Item::Call {
                id: to_string("call_id", fields.required("call_id")?)?,
                name: to_string("name", fields.required("name")?)?,
                arguments: to_string("arguments", fields.required("arguments")?)?,
            }),
            Some("function_call_output") => Ok(Item::CallOutput {
                id: to_string("call_id", fields.required("call_id")?)?,
                content: content(parts("output", fields.required("output")?)?),
            }),
            Some(other) => {
                let supported = "message, reasoning, function_call, function_call_output and item_reference";
                let reason = format!("items of type {supported} are, not {:?}", echo(other));
                Err(ApiError::Unsupported { param: "type".to_owned(), reason })
            }
        }
    };
    let item = read().map_err(|error| error.within(param))?;
    fields.finish(UNIMPLEMENTED).map_err(|error| error.within(param))?;
    Ok(item)
}

fn read_message(fields: &mut Fields) -> Result<Item, ApiError> {
    let role = to_string("role", fields.required("role")?)?;
    if !ROLES.contains(&role.as_str()) {
        let reason = format!("{:?} is not one of {}", echo(&role), ROLES.join(", "));
        return Err(ApiError::invalid("role", reason));
    }
    if role == "assistant" {
        // What the model's makers call a part of its answer: templates have no word for it.
        fields.string("phase")?;
    }
    Ok(Item::Message { role, parts: parts("content", fields.required("content")?)? })
}

fn read_reasoning(fields: &mut Fields) -> Result<Item, ApiError> {
    if fields.take("encrypted_content").is_some() {
        let reason = "another server encrypted it".to_owned();
        return Err(ApiError::Unsupported { param: "encrypted_content".to_owned(), reason });
    }
    let mut texts = Vec::new();
    for name in ["content", "summary"] {
        let parts = fields.take(name).map(|value| to_list(name, value)).transpose()?;
        for (index, part) in parts.into_iter().flatten().enumerate() {
            let param = format!("{name}[{index}]");
            let mut part = Fields::of(part, &param)?;
            let text = part.required("text").map_err(|error| error.within(&param))?;
            let text = to_string(&format!("{param}.text"), text)?;
            // A summary repeats what the content says at length.
            if name == "content" || texts.is_empty() {
                texts.push(text);
            }
        }
    }
    Ok(Item::Reasoning(texts.join("\n")))
}

/// Chat's parts of a string or an array of parts.
fn parts(param: &str, value: Value) -> Result<Vec<Value>, ApiError> {
    match value {
        Value::String(text) => Ok(vec![text_part(text)]),
        Value::Array(parts) => {
            let read = |(index, part)| read_part(&format!("{param}[{index}]"), part);
            parts.into_iter().enumerate().map(read).collect()
        }
        other => Err(wrong_type(param, "a string or an array of parts", &other)),
    }
}

fn read_part(param: &str, part: Value) -> Result<Value, ApiError> {
    /// What answers say of their own text.
    const KNOWN: &[Unimplemented] = &[Unimplemented { name: "annotations", neutral: &["[]"] }];
    let mut part = Fields::of(part, param)?;
    let mut read = || {
        let text = match to_string("type", part.required("type")?)?.as_str() {
            "input_text" | "output_text" | "text" => "text",
            "refusal" => "refusal",
            other => {
                let supported = "input_text, output_text and refusal";
                let reason = format!("parts of type {supported} are, not {:?}", echo(other));
                return Err(ApiError::Unsupported { param: "type".to_owned(), reason });
            }
        };
        part.take("logprobs");
        // It marks what is to be cached; here every prefix is.
        part.object("prompt_cache_breakpoint")?;
        Ok(text_part(to_string(text, part.required(text)?)?))
    };
    let read = read().map_err(|error| error.within(param))?;
    part.finish(KNOWN).map_err(|error| error.within(param))?;
    Ok(read)
}

/// An item that was read, as it is kept and listed: with an id, its kind, and parts where a string was short for them.
pub(super) fn to_keep(mut item: Value) -> Value {
    let kind = item["type"].as_str().unwrap_or("message").to_owned();
    let prefix = match kind.as_str() {
        "reasoning" => "rs_",
        "function_call" => "fc_",
        "function_call_output" => "fco_",
        _ => "msg_",
    };
    if !item["id"].is_string() {
        item["id"] = random_id(prefix).into();
    }
    if kind == "message"
        && let Value::String(text) = &item["content"]
    {
        let part = if item["role"] == "assistant" {
            json!({"type": "output_text", "text": text, "annotations": []})
        } else {
            json!({"type": "input_text", "text": text})
        };
        item["content"] = json!([part]);
    }
    if kind != "reasoning" && !item["status"].is_string() {
        item["status"] = "completed".into();
    }
    item["type"] = kind.into();
    item
}

/// Makes chat's messages of items.
#[derive(Debug, Default)]
pub(super) struct Messages {
    messages: Vec<Value>,
    assistant: AssistantTurn,
    calls: HashSet<String>,
}

impl Messages {
    /// Begins with a system prompt, if there is one.
    pub(super) fn new(instructions: Option<String>) -> Self {
        let system = instructions.map(|text| message("system", vec![text_part(text)]));
        Self { messages: system.into_iter().collect(), ..Self::default() }
    }

    /// Adds an item that goes by `param` in errors.
    ///
    /// # Errors
    /// The output of a call that nobody made.
    pub(super) fn add(&mut self, param: &str, item: Item) -> Result<(), ApiError> {
        match item {
            Item::Message { role, parts } if role == "assistant" => {
                if !self.assistant.parts.is_empty() || !self.assistant.calls.is_empty() {
                    self.end_assistant();
                }
                self.assistant.parts = parts;
            }
            Item::Reasoning(text) => {
                if !self.assistant.parts.is_empty() || !self.assistant.calls.is_empty() {
                    self.end_assistant();
                }
                self.assistant.reasoning.push(text);
            }
            Item::Call { id, name, arguments } => {
                self.assistant.call(&id, &name, &arguments);
                self.calls.insert(id);
            }
            Item::Message { role, parts } => {
                self.end_assistant();
                self.messages.push(message(&role, parts));
            }
            Item::CallOutput { id, content } => {
                if !self.calls.contains(&id) {
                    let reason = format!("no function_call before it has the call_id {:?}", echo(&id));
                    return Err(ApiError::invalid(format!("{param}.call_id"), reason));
                }
                self.end_assistant();
                self.messages.push(tool_message(&id, content));
            }
        }
        Ok(())
    }

    /// All of them.
    pub(super) fn finish(mut self) -> Vec<Value> {
        self.end_assistant();
        self.messages
    }

    fn end_assistant(&mut self) {
        self.messages.extend(self.assistant.take());
    }
}
