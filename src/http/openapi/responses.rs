//! The endpoints of `/v1/responses`; readers and shapes are in `responses/`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::chat;
use super::endpoint::{Access, Endpoint, word};
use super::generation::nullable;
use super::request::Request;
use super::response_events::ResponseEvent;
use super::response_items::{InputItem, OutputItem};
use super::response_options::{
    ReasoningOptions, ResponseStreamOptions, ResponseTool, ResponseToolChoice, TextOptions,
};
use crate::http::responses::{RESERVED, UNIMPLEMENTED};

const ID: &str = "The id of a response that is kept.";

pub(super) fn create() -> Endpoint {
    Endpoint::post("/v1/responses", "createResponse", "generate", "A response, which may go on from another")
        .for_whom(Access::Tenant)
        .takes(
            request()
                .example("streamed", json!({"input": QUESTION, "max_output_tokens": 16, "stream": true})),
        )
        .answers::<Response>()
        .streams_events::<ResponseEvent>()
        .fails(&[400, 401, 404, 408, 413, 415, 429, 500, 503, 504])
}

pub(super) fn input_tokens() -> Endpoint {
    let path = "/v1/responses/input_tokens";
    Endpoint::post(path, "countResponseTokens", "tokens", "How long the prompt of a response would be")
        .for_whom(Access::Tenant)
        .takes(request())
        .answers::<InputTokens>()
        .fails(&[400, 401, 404, 408, 413, 415, 500, 503])
}

pub(super) fn retrieve() -> Endpoint {
    Endpoint::get(
        "/v1/responses/{id}",
        "retrieveResponse",
        "generate",
        "A response that is kept, or in the making",
    )
    .for_whom(Access::Tenant)
    .part("id", ID)
    .answers::<Response>()
    .fails(&[400, 401, 404, 500])
}

pub(super) fn delete() -> Endpoint {
    Endpoint::delete("/v1/responses/{id}", "deleteResponse", "generate", "Forgets a response")
        .for_whom(Access::Tenant)
        .part("id", ID)
        .answers::<Deleted>()
        .fails(&[400, 401, 404, 500])
}

pub(super) fn cancel() -> Endpoint {
    let path = "/v1/responses/{id}/cancel";
    Endpoint::post(path, "cancelResponse", "generate", "Ends a response that is being streamed")
        .for_whom(Access::Tenant)
        .part("id", ID)
        .answers::<Response>()
        .fails(&[400, 401, 404, 500])
}

pub(super) fn input_items() -> Endpoint {
    let limit = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(100)).build();
    Endpoint::get("/v1/responses/{id}/input_items", "listInputItems", "generate", "What a response answers")
        .for_whom(Access::Tenant)
        .part("id", ID)
        .query("order", word(&["asc", "desc"]), "Oldest first, or newest first as without it.")
        .query("limit", limit, "The most items. Absent: 20.")
        .query("after", Object::with_type(Type::String), "Those behind the item with this id.")
        .answers::<ItemList>()
        .fails(&[400, 401, 404, 500])
}

const QUESTION: &str = "What is the capital of France?";

pub(super) fn request() -> Request {
    Request::of::<ResponseRequest>()
        .neutral(UNIMPLEMENTED)
        .and_rest_of(chat::request(), RESERVED)
        .example("a question", json!({"input": QUESTION, "max_output_tokens": 16}))
}

/// What to answer, and how. Fields of chat that have no other name here do what they do there.
#[derive(ToSchema)]
struct ResponseRequest {
    /// A text, or items: messages, calls of functions, their outputs, reasoning.
    input: Input,
    /// The system prompt. It holds for this response only.
    instructions: Option<String>,
    /// The response that this one goes on from.
    previous_response_id: Option<String>,
    /// Whether it can be asked for again. Absent: true.
    store: Option<bool>,
    /// What becomes of a conversation that does not fit: refused, or without its oldest turns.
    #[schema(schema_with = truncation)]
    truncation: Option<String>,
    /// The most tokens of the answer.
    #[schema(minimum = 1, maximum = 4294967295u64)]
    max_output_tokens: Option<i64>,
    /// 0 takes the most likely token always.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f32>,
    /// Keeps the most likely tokens that together have this probability.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f32>,
    /// The form of the answer.
    text: Option<TextOptions>,
    /// How much the model thinks first.
    reasoning: Option<ReasoningOptions>,
    /// Functions that the model may call.
    #[schema(max_items = 128)]
    tools: Option<Vec<ResponseTool>>,
    /// Whether it has to, and which.
    tool_choice: Option<ResponseToolChoice>,
    /// Whether it may call several at once.
    parallel_tool_calls: Option<bool>,
    /// So many alternatives to each token.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<i64>,
    /// What the answer holds beside its text.
    include: Option<Vec<Includable>>,
    /// Up to 16 pairs that the response repeats.
    metadata: Option<BTreeMap<String, String>>,
    /// Repeated in the response.
    #[schema(max_length = 512)]
    user: Option<String>,
    /// Repeated in the response.
    #[schema(max_length = 512)]
    safety_identifier: Option<String>,
    /// Repeated in the response.
    #[schema(max_length = 512)]
    prompt_cache_key: Option<String>,
    /// What a stream holds beside its events.
    stream_options: Option<ResponseStreamOptions>,
}

/// What an answer can hold beside its text. Reasoning is never encrypted here: its items hold its text.
#[derive(ToSchema)]
enum Includable {
    #[serde(rename = "message.output_text.logprobs")]
    Logprobs,
    #[serde(rename = "reasoning.encrypted_content")]
    EncryptedReasoning,
}

/// A text, or items.
#[derive(ToSchema)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<InputItem>),
}

/// A response as it is now. It repeats what its request said, or what held without a word.
#[derive(ToSchema)]
pub(super) struct Response {
    id: String,
    #[schema(schema_with = response_word)]
    object: String,
    /// In seconds since 1970.
    created_at: u64,
    #[schema(schema_with = status)]
    status: String,
    model: String,
    output: Vec<OutputItem>,
    #[schema(required = true)]
    error: Option<ResponseError>,
    #[schema(required = true)]
    incomplete_details: Option<IncompleteDetails>,
    /// Null until it has ended.
    #[schema(required = true)]
    usage: Option<ResponseUsage>,
    background: bool,
    service_tier: String,
    #[schema(required = true)]
    instructions: Option<String>,
    #[schema(required = true)]
    previous_response_id: Option<String>,
    store: bool,
    #[schema(required = true, schema_with = truncation)]
    truncation: String,
    #[schema(required = true)]
    max_output_tokens: Option<i64>,
    temperature: f32,
    top_p: f32,
    text: TextOptions,
    reasoning: ReasoningOptions,
    tools: Vec<ResponseTool>,
    tool_choice: ResponseToolChoice,
    parallel_tool_calls: bool,
    top_logprobs: u32,
    metadata: BTreeMap<String, String>,
    user: Option<String>,
    safety_identifier: Option<String>,
    prompt_cache_key: Option<String>,
}

/// Why a response failed.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ResponseError {
    code: String,
    message: String,
}

/// Why a response is not complete.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct IncompleteDetails {
    reason: String,
}

/// What a response took.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ResponseUsage {
    input_tokens: u32,
    input_tokens_details: InputTokensDetails,
    output_tokens: u32,
    output_tokens_details: OutputTokensDetails,
    total_tokens: u32,
}

/// Where the input's tokens came from.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct InputTokensDetails {
    /// Those that had been computed before.
    cached_tokens: u32,
    /// Always 0: every prefix is cached, and nobody pays for it.
    cache_write_tokens: u32,
}

/// What the output's tokens are.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct OutputTokensDetails {
    /// Those of reasoning.
    reasoning_tokens: u32,
}

/// The length of a prompt.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct InputTokens {
    #[schema(schema_with = input_tokens_word)]
    object: String,
    input_tokens: u32,
}

/// What was forgotten.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Deleted {
    id: String,
    #[schema(schema_with = response_word)]
    object: String,
    deleted: bool,
}

/// A page of items.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ItemList {
    #[schema(schema_with = list_word)]
    object: String,
    #[schema(required = true)]
    first_id: Option<String>,
    #[schema(required = true)]
    last_id: Option<String>,
    has_more: bool,
    data: Vec<InputItem>,
}

fn truncation() -> Object {
    let values = [json!("auto"), json!("disabled"), json!(null)];
    ObjectBuilder::new().schema_type(nullable(Type::String)).enum_values(Some(values)).build()
}

fn status() -> Object {
    word(&["in_progress", "completed", "incomplete", "failed", "cancelled"])
}

fn response_word() -> Object {
    word(&["response"])
}

fn input_tokens_word() -> Object {
    word(&["response.input_tokens"])
}

fn list_word() -> Object {
    word(&["list"])
}
