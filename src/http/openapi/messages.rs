//! `POST /v1/messages` and `POST /v1/messages/count_tokens`; readers and shapes are in `messages/`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::chat;
use super::endpoint::{Access, Endpoint, word};
use super::generation::word_or_null;
use super::message_blocks::{AnswerBlock, MessageTurn, SystemText, assistant};
use super::message_events::MessageEvent;
use super::message_options::{
    MessageMetadata, MessageTool, MessageToolChoice, OutputConfig, ThinkingOptions,
};
use super::request::Request;
use crate::http::messages::{RESERVED, UNIMPLEMENTED};

const FAILURES: &[u16] = &[400, 401, 404, 408, 413, 415, 429, 500, 504, 529];

pub(super) fn create() -> Endpoint {
    Endpoint::post("/v1/messages", "createMessage", "generate", "The next message, as Anthropic's API has it")
        .for_whom(Access::Tenant)
        .takes(message())
        .answers::<AnthropicMessage>()
        .streams_events::<MessageEvent>()
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
    /// It changes nothing.
    metadata: Option<MessageMetadata>,
}

/// A conversation to be counted.
#[derive(ToSchema)]
struct MessageTokensRequest {}

/// What makes the prompt.
#[derive(ToSchema)]
struct MessagePrompt {
    /// The model's name.
    model: String,
    /// The conversation so far, of at most 4096 messages.
    #[schema(min_items = 1)]
    messages: Vec<MessageTurn>,
    /// The system prompt.
    system: Option<SystemText>,
    /// Tools that the model may call.
    #[schema(max_items = 128)]
    tools: Option<Vec<MessageTool>>,
    /// Whether it has to, and which.
    tool_choice: Option<MessageToolChoice>,
    /// The form of the answer, and what it is worth.
    output_config: Option<OutputConfig>,
    /// 0 takes the most likely token always.
    #[schema(minimum = 0, maximum = 1)]
    temperature: Option<f32>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    cache_control: Option<Map<String, Value>>,
    /// Whether the model thinks first, for how many tokens, and whether that is told.
    thinking: Option<ThinkingOptions>,
}

/// The answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnthropicMessage {
    id: String,
    #[schema(schema_with = message_word)]
    r#type: String,
    #[schema(schema_with = assistant)]
    role: String,
    model: String,
    content: Vec<AnswerBlock>,
    /// Null while it is streamed.
    #[schema(required = true, schema_with = stop_reason_or_null)]
    stop_reason: Option<String>,
    #[schema(required = true)]
    stop_sequence: Option<String>,
    usage: MessageUsage,
}

/// What it took. Tokens that were read from the cache are not among the input tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageUsage {
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

/// The length of a prompt.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MessageTokens {
    input_tokens: u32,
}

/// Why there is no answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnthropicError {
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
    details: Option<AnthropicErrorDetails>,
}

/// What a program can read of an error.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AnthropicErrorDetails {
    error_code: String,
    /// The fields that are not implemented.
    unsupported: Vec<String>,
}

fn message_word() -> Object {
    word(&["message"])
}

fn error_word() -> Object {
    word(&["error"])
}

const STOP_REASONS: [&str; 4] = ["end_turn", "max_tokens", "stop_sequence", "tool_use"];

/// Why a message ended.
pub(super) fn stop_reason() -> Object {
    word(&STOP_REASONS)
}

fn stop_reason_or_null() -> Object {
    word_or_null(&STOP_REASONS)
}
