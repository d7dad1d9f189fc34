//! `POST /v1/chat/completions`; the reader is `chat_request.rs`, the shape `chat_answer.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::{Access, Endpoint, word};
use super::generation::{Generation, finish_reason, finish_reason_or_null, word_or_null};
use super::request::Request;
use super::sampler::{Format, Labels, Sampler};
use super::tools::{CallMade, ToolChoice, ToolDefinition};
use super::usage::Usage;
use crate::http::{chat_request, params, reasoning, response_format};

pub(super) fn endpoint() -> Endpoint {
    Endpoint::post(
        "/v1/chat/completions",
        "createChatCompletion",
        "generate",
        "The next message of a conversation",
    )
    .for_whom(Access::Tenant)
    .takes(request())
    .answers::<ChatCompletion>()
    .streams::<ChatCompletionChunk>()
    .fails(&[400, 401, 404, 408, 413, 415, 429, 500, 503, 504])
}

pub(super) fn request() -> Request {
    Request::of::<ChatCompletionRequest>()
        .and::<Conversation>()
        .and::<Generation>()
        .and::<Sampler>()
        .and::<Format>()
        .and::<Labels>()
        .neutral(chat_request::UNIMPLEMENTED)
        .neutral(params::UNIMPLEMENTED)
        .neutral(response_format::UNIMPLEMENTED)
        .example("a question", json!({"messages": [question()], "max_tokens": 16}))
        .example(
            "streamed, with the usage",
            json!({
                "messages": [question()], "max_tokens": 16, "temperature": 0, "seed": 7,
                "stream": true, "stream_options": {"include_usage": true},
            }),
        )
        .example(
            "two choices with log-probabilities, ended by a word",
            json!({
                "messages": [question()], "max_tokens": 16, "n": 2, "logprobs": true, "top_logprobs": 2, "stop": "capital",
            }),
        )
        .example(
            "streamed choices with log-probabilities",
            json!({
                "messages": [question()], "max_tokens": 8, "n": 2, "logprobs": true, "top_logprobs": 1, "stream": true,
            }),
        )
}

fn question() -> Value {
    json!({"role": "user", "content": "What is the capital of France?"})
}

/// A conversation, and how to go on with it.
#[derive(ToSchema)]
struct ChatCompletionRequest {
    /// Report the log-probability of each token.
    logprobs: Option<bool>,
    /// So many alternatives to each token, if `logprobs` is true.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<i64>,
    /// Functions that the model may call, if it writes calls in a format that is known.
    #[schema(max_items = 128)]
    tools: Option<Vec<ToolDefinition>>,
    /// `auto`, `none`, `required`, or an object that names a function or allows some of the tools.
    tool_choice: Option<ToolChoice>,
    /// Whether it may call several at once. Absent: true.
    parallel_tool_calls: Option<bool>,
    /// How much the model thinks first, if its template knows; else only what asks for nothing is taken. `max` is `xhigh`.
    #[schema(schema_with = effort)]
    reasoning_effort: Option<String>,
    /// Whether the answer tells its reasoning. Absent: true.
    include_reasoning: Option<bool>,
    /// The most tokens of reasoning.
    #[schema(minimum = 0, maximum = 4294967295u64)]
    thinking_token_budget: Option<i64>,
}

/// Messages, and how they become a prompt.
#[derive(ToSchema)]
pub(super) struct Conversation {
    /// The conversation so far, of at most 4096 messages.
    #[schema(min_items = 1)]
    messages: Vec<Message>,
    /// Whether the prompt ends in the opening of the assistant's next message. Absent: true.
    add_generation_prompt: Option<bool>,
    /// Go on with the last message instead of answering it.
    continue_final_message: Option<bool>,
    /// Further variables of the model's template.
    #[schema(value_type = Option<Object>)]
    chat_template_kwargs: Option<Map<String, Value>>,
}

/// One message. Fields beyond these are the template's to read.
#[derive(ToSchema)]
struct Message {
    /// Who says it.
    #[schema(schema_with = role)]
    role: String,
    /// What is said. Only an assistant's message may be without, if it has something else.
    content: Option<Content>,
    /// What the assistant said instead, as a text: it becomes content.
    refusal: Option<Value>,
    /// Calls that the assistant made.
    tool_calls: Option<Vec<CallMade>>,
    /// Of which call a message of `tool` is the result: a text, which it needs.
    tool_call_id: Option<Value>,
}

/// A text, or parts of one.
#[derive(ToSchema)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(ToSchema)]
#[serde(untagged)]
enum Part {
    Text(TextPart),
    Refusal(RefusalPart),
}

/// Text.
#[derive(ToSchema)]
struct TextPart {
    #[schema(schema_with = text)]
    r#type: String,
    /// What is said.
    text: String,
}

/// What an assistant said instead of an answer: it becomes text.
#[derive(ToSchema)]
struct RefusalPart {
    #[schema(schema_with = refusal)]
    r#type: String,
    /// What was said.
    refusal: String,
}

fn refusal() -> Object {
    word(&["refusal"])
}

fn effort() -> Object {
    word_or_null(&reasoning::EFFORTS)
}

fn role() -> Object {
    word(&chat_request::ROLES)
}

fn text() -> Object {
    word(&["text"])
}

/// The answer in one document.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatCompletion {
    id: String,
    #[schema(schema_with = completion)]
    object: String,
    /// When it was asked for, in seconds since 1970.
    created: u64,
    model: String,
    choices: Vec<ChatChoice>,
    usage: Usage,
    /// There if it was asked for.
    service_tier: Option<String>,
}

/// One answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatChoice {
    index: u32,
    message: AssistantMessage,
    #[schema(required = true)]
    logprobs: Option<ChatLogprobs>,
    #[schema(schema_with = finish_reason)]
    finish_reason: String,
}

/// What the assistant says.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AssistantMessage {
    #[schema(schema_with = assistant)]
    role: String,
    /// Null if there are only calls.
    #[schema(required = true)]
    content: Option<String>,
    /// What the model thought first.
    reasoning_content: Option<String>,
    /// Calls of tools, if there are any.
    tool_calls: Option<Vec<ToolCall>>,
    /// Always null: a model that declines says so in its content.
    #[schema(required = true)]
    refusal: Option<String>,
}

/// A call of a tool.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ToolCall {
    id: String,
    #[schema(schema_with = function)]
    r#type: String,
    function: FunctionCall,
}

/// The function that is called.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct FunctionCall {
    name: String,
    /// A JSON object as text; not checked against the tool's schema.
    arguments: String,
}

fn function() -> Object {
    word(&["function"])
}

/// Log-probabilities of the tokens, in their order.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatLogprobs {
    content: Vec<TokenLogprob>,
    /// Always null.
    #[schema(required = true)]
    refusal: Option<Vec<TokenLogprob>>,
}

/// A token that was chosen.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenLogprob {
    token: String,
    /// Natural, of the model's own distribution.
    logprob: f32,
    /// The token's bytes, which may be part of a character.
    #[schema(value_type = Vec<u32>)]
    bytes: Vec<u8>,
    /// The most likely tokens at this place.
    top_logprobs: Vec<Alternative>,
}

/// A token that could have been chosen.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Alternative {
    token: String,
    logprob: f32,
    #[schema(value_type = Vec<u32>)]
    bytes: Vec<u8>,
}

/// A part of a streamed answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatCompletionChunk {
    id: String,
    #[schema(schema_with = chunk)]
    object: String,
    created: u64,
    model: String,
    /// One, but for the last chunk of a stream that tells its usage, which has none.
    choices: Vec<ChatChunkChoice>,
    /// There if it was asked for; null in all chunks but the last.
    usage: Option<Usage>,
    /// There if it was asked for.
    service_tier: Option<String>,
}

/// A part of one answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatChunkChoice {
    index: u32,
    delta: Delta,
    #[schema(required = true)]
    logprobs: Option<ChatLogprobs>,
    #[schema(required = true, schema_with = finish_reason_or_null)]
    finish_reason: Option<String>,
}

/// What is new.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Delta {
    /// In the first chunk of a choice.
    #[schema(schema_with = assistant)]
    role: Option<String>,
    content: Option<String>,
    reasoning_content: Option<String>,
    /// A call begins with its index, id and name; fragments of its arguments follow under its index.
    tool_calls: Option<Vec<ToolCallDelta>>,
}

/// What is new of a call.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ToolCallDelta {
    index: u32,
    id: Option<String>,
    #[schema(schema_with = function)]
    r#type: Option<String>,
    function: FunctionCallDelta,
}

/// What is new of the function that is called.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct FunctionCallDelta {
    name: Option<String>,
    arguments: Option<String>,
}

fn completion() -> Object {
    word(&["chat.completion"])
}

fn chunk() -> Object {
    word(&["chat.completion.chunk"])
}

fn assistant() -> Object {
    word(&["assistant"])
}
