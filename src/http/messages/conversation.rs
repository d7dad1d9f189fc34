//! System prompt and messages as Anthropic's clients write them, as chat's messages.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::http::as_chat::{AssistantTurn, content, message, text_part, tool_message};
use crate::http::chat_request::MAX_MESSAGES;
use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, Unimplemented, to_list, to_string, wrong_type};

/// Of blocks' fields.
const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "caller", neutral: &[r#"{"type":"direct"}"#] },
    Unimplemented { name: "citations", neutral: &["[]"] },
    Unimplemented { name: "toolset_name", neutral: &[] },
];

/// Takes `system` and `messages`. A last message of the assistant's is one to be continued.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(fields: &mut Fields, chat: &mut Map<String, Value>) -> Result<(), ApiError> {
    let mut reader = Reader::default();
    if let Some(system) = fields.take("system") {
        reader.system(texts("system", system)?);
    }
    let messages = to_list("messages", fields.required("messages")?)?;
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        let reason = format!("{} messages are not between 1 and {MAX_MESSAGES}", messages.len());
        return Err(ApiError::invalid("messages", reason));
    }
    let last = format!("messages[{}]", messages.len() - 1);
    for (index, message) in messages.into_iter().enumerate() {
        reader.message(&format!("messages[{index}]"), message)?;
    }
    match reader.finish(&last)? {
        (messages, LastTurn::User) => chat.insert("messages".to_owned(), messages.into()),
        (messages, LastTurn::Assistant) => {
            chat.insert("continue_final_message".to_owned(), true.into());
            chat.insert("messages".to_owned(), messages.into())
        }
    };
    Ok(())
}

/// Who spoke last.
enum LastTurn {
    User,
    Assistant,
}

/// Neighbours of the same role are one turn.
#[derive(Default)]
struct Reader {
    messages: Vec<Value>,
    /// Text of a user's turn that is not over.
    user: Vec<Value>,
    /// An assistant's turn that is not over.
    assistant: AssistantTurn,
    /// Ids of calls so far.
    calls: HashSet<String>,
}

impl Reader {
    fn message(&mut self, param: &str, message: Value) -> Result<(), ApiError> {
        let mut fields = Fields::of(message, param)?;
        let within = |error: ApiError| error.within(param);
        let role = fields.required("role").and_then(|role| to_string("role", role)).map_err(within)?;
        let blocks = fields.required("content").map_err(within)?;
        fields.finish(&[]).map_err(within)?;
        let param = format!("{param}.content");
        if role == "system" {
            self.end_user();
            self.end_assistant();
            self.system(texts(&param, blocks)?);
            return Ok(());
        }
        let blocks = match blocks {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            Value::Array(blocks) => blocks,
            other => return Err(wrong_type(&param, "a string or an array of blocks", &other)),
        };
        let blocks =
            blocks.into_iter().enumerate().map(|(index, block)| (format!("{param}[{index}]"), block));
        match role.as_str() {
            "user" => {
                self.end_assistant();
                blocks.into_iter().try_for_each(|(param, block)| self.user_block(&param, block))
            }
            "assistant" => {
                self.end_user();
                blocks.into_iter().try_for_each(|(param, block)| self.assistant_block(&param, block))
            }
            other => {
                let param = param.replace(".content", ".role");
                let reason = format!("{:?} is not one of user, assistant, system", echo(other));
                Err(ApiError::invalid(param, reason))
            }
        }
    }

    /// Nothing is no message.
    fn system(&mut self, parts: Vec<Value>) {
        if !parts.is_empty() {
            self.messages.push(message("system", parts));
        }
    }

    fn user_block(&mut self, param: &str, block: Value) -> Result<(), ApiError> {
        let mut block = Block::read(param, block)?;
        match block.kind.as_str() {
            "text" => self.user.push(block.text()?),
            "tool_result" => {
                let id = block.required_string("tool_use_id")?;
                if !self.calls.contains(&id) {
                    let reason = format!("no tool_use block before it has the id {:?}", echo(&id));
                    return Err(ApiError::invalid(format!("{param}.tool_use_id"), reason));
                }
                // Chat has no word for it: what went wrong is in the text.
                block.fields.bool("is_error").map_err(|error| error.within(param))?;
                let result = block.fields.take("content");
                let parts = result.map(|value| texts(&format!("{param}.content"), value)).transpose()?;
                self.end_user();
                self.messages.push(tool_message(&id, content(parts.unwrap_or_default())));
            }
            _ => return Err(block.unsupported("text and tool_result")),
        }
        block.finish()
    }

    fn assistant_block(&mut self, param: &str, block: Value) -> Result<(), ApiError> {
        let mut block = Block::read(param, block)?;
        match block.kind.as_str() {
            "text" => {
                let text = block.text()?;
                self.assistant.parts.push(text);
            }
            "thinking" => {
                // Empty where it was asked not to be told.
                let text = block.required_string("thinking")?;
                self.assistant.reasoning.extend((!text.is_empty()).then_some(text));
                // Nothing is signed here, so any signature is as good as none.
                block.fields.string("signature").map_err(|error| error.within(param))?;
            }
            "tool_use" => {
                let id = block.required_string("id")?;
                let name = block.required_string("name")?;
                let input = block.required("input")?;
                if !input.is_object() {
                    return Err(wrong_type(&format!("{param}.input"), "an object", &input));
                }
                self.assistant.call(&id, &name, &input.to_string());
                self.calls.insert(id);
            }
            _ => return Err(block.unsupported("text, thinking and tool_use")),
        }
        block.finish()
    }

    fn end_user(&mut self) {
        if !self.user.is_empty() {
            self.messages.push(message("user", std::mem::take(&mut self.user)));
        }
    }

    fn end_assistant(&mut self) {
        self.messages.extend(self.assistant.take());
    }

    /// `last` is the name of the last message.
    fn finish(mut self, last: &str) -> Result<(Vec<Value>, LastTurn), ApiError> {
        if !self.assistant.calls.is_empty() {
            let reason = "a tool_use block in the last message has no tool_result";
            return Err(ApiError::invalid(format!("{last}.content"), reason));
        }
        let turn = if self.assistant.parts.is_empty() { LastTurn::User } else { LastTurn::Assistant };
        self.end_user();
        self.end_assistant();
        if self.messages.is_empty() {
            return Err(ApiError::invalid(
                format!("{last}.content"),
                "there is no message with anything in it",
            ));
        }
        Ok((self.messages, turn))
    }
}

/// A content block that is being read.
struct Block<'a> {
    param: &'a str,
    kind: String,
    fields: Fields,
}

impl<'a> Block<'a> {
    fn read(param: &'a str, block: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of(block, param)?;
        let kind = fields.required("type").and_then(|kind| to_string("type", kind));
        let kind = kind.map_err(|error| error.within(param))?;
        Ok(Self { param, kind, fields })
    }

    fn required(&mut self, name: &str) -> Result<Value, ApiError> {
        self.fields.required(name).map_err(|error| error.within(self.param))
    }

    fn required_string(&mut self, name: &str) -> Result<String, ApiError> {
        to_string(&format!("{}.{name}", self.param), self.required(name)?)
    }

    fn text(&mut self) -> Result<Value, ApiError> {
        self.required_string("text").map(text_part)
    }

    fn unsupported(&self, supported: &str) -> ApiError {
        let reason = format!("blocks of type {supported} are, not {:?}", echo(&self.kind));
        ApiError::Unsupported { param: self.param.to_owned(), reason }
    }

    fn finish(mut self) -> Result<(), ApiError> {
        let end = |mut fields: Fields| {
            // It marks what is to be cached; here every prefix is.
            fields.object("cache_control")?;
            fields.finish(UNIMPLEMENTED)
        };
        end(std::mem::take(&mut self.fields)).map_err(|error| error.within(self.param))
    }
}

/// Text parts of a string, or of an array of text blocks.
fn texts(param: &str, value: Value) -> Result<Vec<Value>, ApiError> {
    match value {
        Value::String(text) => Ok(vec![text_part(text)]),
        Value::Array(blocks) => {
            let read = |(index, block): (usize, Value)| {
                let param = format!("{param}[{index}]");
                let mut block = Block::read(&param, block)?;
                match block.kind.as_str() {
                    "text" => {
                        let text = block.text()?;
                        block.finish()?;
                        Ok(text)
                    }
                    _ => Err(block.unsupported("text")),
                }
            };
            blocks.into_iter().enumerate().map(read).collect()
        }
        other => Err(wrong_type(param, "a string or an array of text blocks", &other)),
    }
}
