//! `POST /v1/messages` and `POST /v1/messages/count_tokens`; readers and shapes are in `messages/`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::chat;
use super::endpoint::{Access, Endpoint, word};
use super::request::Request;
use crate::http::messages::{RESERVED, UNIMPLEMENTED};

const FAILURES: &[u16] = &[400, 401, 404, 408, 413, 415, 429, 500, 504, 529];

pub(super) fn create() -> Endpoint {
    Endpoint::post("/v1/messages", "createMessage", "generate", "The next message, as Anthropic's API has it")
        .for_whom(Access::Tenant)
        .takes(message())
        .answers::<AnthropicMessage>()
        .streams::<MessageEvent>()
        .fails_as::<AnthropicError>(FAILURES)
}

pub(super) fn count_tokens() -> Endpoint {
    let path = "/v1/messages/count_tokens";
    Endpoint::post(path, "countMessageTokens", "tokens", "How long the prompt of a message would be")
        .for_whom(Access::Tenant)
        .takes(prompt())
        .answers::<MessageTokens>()
        .fails_as::<AnthropicError>(FAILURES)
}

pub(super) fn message() -> Request {
    Request::of::<MessageRequest>()
        .and::<MessagePrompt>()
        .neutral(UNIMPLEMENTED)
        .and_rest_of(chat::request(), RESERVED)
        .example("a question", json!({"model": "", "max_tokens": 16, "messages": [question()]}))
        .example("streamed", json!({"model": "", "max_tokens": 16, "messages": [question()], "stream": true}))
}

pub(super) fn prompt() -> Request {
    Request::of::<MessageTokensRequest>()
        .and::<MessagePrompt>()
        .neutral(UNIMPLEMENTED)
        .and_rest_of(chat::request(), RESERVED)
        .example("a question", json!({"model": "", "messages": [question()]}))
}

fn question() -> Value {
    json!({"role": "user", "content": "What is the capital of France?"})
}

/// A conversation, and how to go on with it. Fields of chat that have no other name here do what they do there.
#[derive(ToSchema)]
struct MessageRequest {
    /// The most tokens of the answer.
    #[schema(minimum = 1, maximum = 4294967295u64)]
    max_tokens: i64,
    /// Strings that end the text and are not part of it.
    #[schema(max_items = 16)]
    stop_sequences: Option<Vec<String>>,
    /// `user_id`: whom the client asks for. It changes nothing.
    metadata: Option<BTreeMap<String, Option<String>>>,
}

/// A conversation to be counted.
#[derive(ToSchema)]
struct MessageTokensRequest {}

/// What makes the prompt.
#[derive(ToSchema)]
struct MessagePrompt {
    /// The model's name.
    model: String,
    /// Turns of `user` and `assistant`: a text, or blocks of it, of calls and of their results. If the assistant's is
    /// the last, it is gone on with. `system` may speak between them.
    #[schema(min_items = 1, value_type = Vec<Object>)]
    messages: Vec<Map<String, Value>>,
    /// The system prompt: a text, or text blocks.
    system: Option<Value>,
    /// Tools that the model may call.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Map<String, Value>>>,
    /// Whether it has to, and which.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Map<String, Value>>,
    /// `format`: a schema that the answer follows; `effort`.
    #[schema(value_type = Option<Object>)]
    output_config: Option<Map<String, Value>>,
    /// 0 takes the most likely token always.
    #[schema(minimum = 0, maximum = 1)]
    temperature: Option<f32>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    cache_control: Option<Map<String, Value>>,
    /// Whether the model thinks first, for how many tokens, and whether that is told.
    #[schema(value_type = Option<Object>)]
    thinking: Option<Map<String, Value>>,
}

/// The answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AnthropicMessage {
    id: String,
    #[schema(schema_with = message_word)]
    r#type: String,
    #[schema(schema_with = assistant)]
    role: String,
    model: String,
    /// Blocks of type `text`, `thinking` and `tool_use`.
    #[schema(value_type = Vec<Object>)]
    content: Vec<Map<String, Value>>,
    #[schema(schema_with = stop_reason)]
    stop_reason: String,
    #[schema(required = true)]
    stop_sequence: Option<String>,
    usage: MessageUsage,
}

/// What it took. Tokens that were read from the cache are not among the input tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MessageUsage {
    input_tokens: u32,
    cache_creation_input_tokens: u32,
    cache_read_input_tokens: u32,
    output_tokens: u32,
    output_tokens_details: MessageOutputDetails,
    service_tier: String,
}

/// What the output tokens are.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MessageOutputDetails {
    /// Those of thinking.
    thinking_tokens: u32,
}

/// One of message_start, content_block_start, content_block_delta, content_block_stop, message_delta, message_stop, ping
/// and error, with what belongs to it.
#[derive(ToSchema)]
struct MessageEvent {
    r#type: String,
}

/// The length of a prompt.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MessageTokens {
    input_tokens: u32,
}

/// Why there is no answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AnthropicError {
    #[schema(schema_with = error_word)]
    r#type: String,
    error: AnthropicErrorBody,
    /// Absent in an event.
    request_id: Option<String>,
}

/// The error.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AnthropicErrorBody {
    r#type: String,
    message: String,
    /// There if `thread` was asked for: `error_code` is `thread_unsupported_request`.
    #[schema(value_type = Option<Object>)]
    details: Option<Map<String, Value>>,
}

fn message_word() -> Object {
    word(&["message"])
}

fn assistant() -> Object {
    word(&["assistant"])
}

fn error_word() -> Object {
    word(&["error"])
}

fn stop_reason() -> Object {
    word(&["end_turn", "max_tokens", "stop_sequence", "tool_use"])
}
