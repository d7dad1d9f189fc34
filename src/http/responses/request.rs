//! What a Responses request says: the fields of a chat request, and what is this API's own.

use serde_json::{Map, Value, json};

use super::tools;
use crate::http::as_chat::Names;
use crate::http::error::{ApiError, echo};
use crate::http::fields::{Fields, Unimplemented, to_list, to_string, wrong_type};

/// How chat's parameters are spelled here.
pub(super) const NAMES: &Names = &[
    ("messages", "input"),
    ("max_completion_tokens", "max_output_tokens"),
    ("response_format.json_schema", "text.format"),
    ("response_format", "text.format"),
    ("verbosity", "text.verbosity"),
    ("reasoning_effort", "reasoning.effort"),
    ("logprobs", "include"),
    ("tools[].function", "tools[]"),
    ("tool_choice.function", "tool_choice"),
    ("tool_choice.allowed_tools.tools[].function", "tool_choice.tools[]"),
    ("tool_choice.allowed_tools", "tool_choice"),
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
    "max_tokens",
    "messages",
    "n",
    "reasoning_effort",
    "response_format",
    "verbosity",
];

/// Fields of these endpoints that this server does not implement.
pub(in crate::http) const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "access_programs", neutral: &[] },
    Unimplemented { name: "background", neutral: &["false"] },
    Unimplemented { name: "background_options", neutral: &[] },
    Unimplemented { name: "context_management", neutral: &["[]"] },
    Unimplemented { name: "conversation", neutral: &[] },
    Unimplemented { name: "image", neutral: &[] },
    Unimplemented { name: "max_tool_calls", neutral: &[] },
    Unimplemented { name: "moderation", neutral: &[] },
    Unimplemented { name: "personality", neutral: &[] },
    Unimplemented { name: "prompt", neutral: &[] },
    Unimplemented { name: "prompt_cache_options", neutral: &["{}", r#"{"mode":"implicit"}"#] },
];

/// A request, validated as far as that needs neither store nor model.
#[derive(Debug)]
pub(in crate::http) struct ResponseRequest {
    /// Fields of a chat request, without its messages.
    pub(super) chat: Map<String, Value>,
    /// What the response repeats of the request.
    pub(super) repeated: Map<String, Value>,
    /// The system prompt. It holds for this response only.
    pub(super) instructions: Option<String>,
    /// Items, not looked at yet.
    pub(super) input: Vec<Value>,
    /// The response that it goes on from.
    pub(super) previous: Option<String>,
    /// Whether the response is kept.
    pub(super) keeping: Keeping,
    /// What becomes of a conversation that does not fit.
    pub(super) truncation: Truncation,
}

/// Whether a response can be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Keeping {
    /// It can.
    Stored,
    /// It is gone with its answer.
    Forgotten,
}

/// What becomes of a conversation that does not fit the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Truncation {
    /// It is refused.
    Disabled,
    /// Its oldest turns are left out.
    Auto,
}

/// Reads a request.
///
/// # Errors
/// The first field that is wrong, by name.
pub(in crate::http) fn read(mut fields: Fields) -> Result<ResponseRequest, ApiError> {
    let mut reader = Reader { chat: Map::new(), repeated: Map::new() };
    let input = match fields.required("input")? {
        Value::String(text) => vec![json!({"type": "message", "role": "user", "content": text})],
        Value::Array(items) => items,
        other => return Err(wrong_type("input", "a string or an array of items", &other)),
    };
    let instructions = fields.string("instructions")?;
    let previous = fields.string("previous_response_id")?;
    let keeping = if fields.bool("store")?.unwrap_or(true) { Keeping::Stored } else { Keeping::Forgotten };
    let truncation = truncation(&mut fields)?;
    reader.repeat("instructions", instructions.clone());
    reader.repeat("previous_response_id", previous.clone());
    reader.repeat("store", keeping == Keeping::Stored);
    reader.repeat("truncation", if truncation == Truncation::Auto { "auto" } else { "disabled" });
    reader.limits(&mut fields);
    reader.text(&mut fields)?;
    reader.reasoning(&mut fields)?;
    reader.tools(&mut fields)?;
    reader.logprobs(&mut fields)?;
    reader.labels(&mut fields);
    stream_options(&mut fields)?;
    let Reader { chat, repeated } = reader;
    let chat = pass_on(fields, chat)?;
    Ok(ResponseRequest { chat, repeated, instructions, input, previous, keeping, truncation })
}

/// What is not this API's is chat's to know.
fn pass_on(mut fields: Fields, mut chat: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let mut unimplemented = Map::new();
    for &Unimplemented { name, .. } in UNIMPLEMENTED {
        unimplemented.extend(fields.take(name).map(|value| (name.to_owned(), value)));
    }
    Fields::of(Value::Object(unimplemented), "body")?.finish(UNIMPLEMENTED)?;
    chat.extend(fields.into_rest(RESERVED)?);
    Ok(chat)
}

fn truncation(fields: &mut Fields) -> Result<Truncation, ApiError> {
    match fields.string("truncation")?.as_deref() {
        None | Some("disabled") => Ok(Truncation::Disabled),
        Some("auto") => Ok(Truncation::Auto),
        Some(other) => {
            let reason = format!("{:?} is not one of auto, disabled", echo(other));
            Err(ApiError::invalid("truncation", reason))
        }
    }
}

fn stream_options(fields: &mut Fields) -> Result<(), ApiError> {
    const UNIMPLEMENTED: &[Unimplemented] =
        &[Unimplemented { name: "include_obfuscation", neutral: &["false"] }];
    let Some(options) = fields.take("stream_options") else { return Ok(()) };
    let options = Fields::of(options, "stream_options")?;
    options.finish(UNIMPLEMENTED).map_err(|error| error.within("stream_options"))
}

/// Fills both sides: what chat is asked, and what the response repeats.
struct Reader {
    chat: Map<String, Value>,
    repeated: Map<String, Value>,
}

impl Reader {
    fn repeat(&mut self, name: &str, value: impl Into<Value>) {
        self.repeated.insert(name.to_owned(), value.into());
    }

    fn ask(&mut self, name: &str, value: impl Into<Value>) {
        self.chat.insert(name.to_owned(), value.into());
    }

    /// Numbers that mean here what they mean in chat.
    fn limits(&mut self, fields: &mut Fields) {
        for (name, of_chat) in [
            ("max_output_tokens", "max_completion_tokens"),
            ("temperature", "temperature"),
            ("top_p", "top_p"),
        ] {
            let value = fields.take(name);
            self.repeat(name, value.clone());
            if let Some(value) = value {
                self.ask(of_chat, value);
            }
        }
    }

    /// `text`: the form of the answer.
    fn text(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let mut text = Fields::of(fields.take("text").unwrap_or_else(|| json!({})), "text")?;
        let format = text.take("format").unwrap_or_else(|| json!({"type": "text"}));
        let verbosity = text.take("verbosity");
        text.finish(&[]).map_err(|error| error.within("text"))?;
        let repeated = json!({
            "format": format.clone(),
            "verbosity": verbosity.clone().unwrap_or_else(|| "medium".into()),
        });
        self.repeat("text", repeated);
        if let Some(verbosity) = verbosity.filter(|verbosity| verbosity != "medium") {
            self.ask("verbosity", verbosity);
        }
        let Value::Object(mut format) = format else {
            return Err(wrong_type("text.format", "an object", &format));
        };
        match format.get("type").and_then(Value::as_str) {
            Some("text") if format.len() == 1 => {}
            // Chat keeps the schema and its name one level deeper.
            Some("json_schema") => {
                format.swap_remove("type");
                self.ask("response_format", json!({"type": "json_schema", "json_schema": format}));
            }
            Some("text" | "json_object") => self.ask("response_format", format),
            Some(other) => {
                let reason = format!("{:?} is not one of text, json_object, json_schema", echo(other));
                return Err(ApiError::invalid("text.format.type", reason));
            }
            None => return Err(ApiError::Missing { param: "text.format.type".to_owned() }),
        }
        Ok(())
    }

    /// `reasoning`: how much of it. Nobody summarises it, so only `auto`, which leaves that to the server, is taken.
    fn reasoning(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        const UNIMPLEMENTED: &[Unimplemented] = &[
            Unimplemented { name: "context", neutral: &["\"auto\""] },
            Unimplemented { name: "generate_summary", neutral: &["\"auto\""] },
            Unimplemented { name: "mode", neutral: &["\"standard\""] },
            Unimplemented { name: "summary", neutral: &["\"auto\""] },
        ];
        let mut reasoning = Fields::of(fields.take("reasoning").unwrap_or_else(|| json!({})), "reasoning")?;
        let effort = reasoning.take("effort");
        reasoning.finish(UNIMPLEMENTED).map_err(|error| error.within("reasoning"))?;
        self.repeat("reasoning", json!({"effort": effort.clone(), "summary": null}));
        if let Some(effort) = effort {
            self.ask("reasoning_effort", effort);
        }
        Ok(())
    }

    fn tools(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let tools = fields.take("tools");
        self.repeat("tools", tools.clone().unwrap_or_else(|| json!([])));
        if let Some(tools) = tools {
            self.ask("tools", tools::declarations(tools)?);
        }
        let choice = fields.take("tool_choice");
        self.repeat("tool_choice", choice.clone().unwrap_or_else(|| "auto".into()));
        if let Some(choice) = choice {
            self.ask("tool_choice", tools::choice(choice)?);
        }
        let parallel = fields.bool("parallel_tool_calls")?;
        self.repeat("parallel_tool_calls", parallel.unwrap_or(true));
        if let Some(parallel) = parallel {
            self.ask("parallel_tool_calls", parallel);
        }
        Ok(())
    }

    /// `include` and `top_logprobs`, each of which asks for log-probabilities.
    fn logprobs(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let top = fields.unsigned("top_logprobs")?;
        self.repeat("top_logprobs", top.unwrap_or(0));
        let mut wanted = top.is_some_and(|top| top > 0);
        let include = fields.take("include").map(|include| to_list("include", include)).transpose()?;
        for (index, name) in include.into_iter().flatten().enumerate() {
            let param = format!("include[{index}]");
            match to_string(&param, name)?.as_str() {
                "message.output_text.logprobs" => wanted = true,
                // It lets clients send reasoning back: here its items hold their text, and are taken back.
                "reasoning.encrypted_content" => {}
                other => {
                    let reason = format!("this server has nothing to include as {:?}", echo(other));
                    return Err(ApiError::Unsupported { param, reason });
                }
            }
        }
        if wanted {
            self.ask("logprobs", true);
            self.ask("top_logprobs", top.unwrap_or(0));
        }
        Ok(())
    }

    /// What a client calls its request: it is repeated, and changes nothing.
    fn labels(&mut self, fields: &mut Fields) {
        self.repeat("metadata", json!({}));
        for name in ["metadata", "user", "safety_identifier", "prompt_cache_key"] {
            if let Some(label) = fields.take(name) {
                self.repeat(name, label.clone());
                self.ask(name, label);
            }
        }
    }
}
