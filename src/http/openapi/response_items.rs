//! Items: what goes into a conversation, and what an answer holds; the reader is `responses/items.rs`, the shape
//! `responses/answer.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::chat::TokenLogprob;
use super::endpoint::word;
use super::generation::word_or_null;
use super::request::neutral;

/// What somebody said, thought or called, or an item of these that is stored.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum InputItem {
    Message(InputMessage),
    Answer(InputAnswer),
    Reasoning(InputReasoning),
    Call(InputCall),
    Output(InputCallOutput),
    Reference(ItemReference),
}

/// What a user or the system says.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputMessage {
    #[schema(schema_with = message_or_null)]
    r#type: Option<String>,
    id: Option<String>,
    status: Option<String>,
    #[schema(schema_with = asking)]
    role: String,
    content: InputContent,
}

/// What the assistant said.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputAnswer {
    #[schema(schema_with = message_or_null)]
    r#type: Option<String>,
    id: Option<String>,
    status: Option<String>,
    #[schema(schema_with = assistant)]
    role: String,
    content: InputContent,
    /// It changes nothing.
    phase: Option<String>,
}

/// A text, or parts of one.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum InputContent {
    Text(String),
    Parts(Vec<InputPart>),
}

/// A part of a text.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum InputPart {
    Text(InputText),
    Refusal(InputRefusal),
}

/// Text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputText {
    #[schema(schema_with = text)]
    r#type: String,
    text: String,
    #[schema(schema_with = no_annotations)]
    annotations: Option<Value>,
    /// It changes nothing.
    logprobs: Option<Value>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    prompt_cache_breakpoint: Option<Map<String, Value>>,
}

/// What an assistant said instead of an answer: it becomes text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputRefusal {
    #[schema(schema_with = refusal)]
    r#type: String,
    refusal: String,
    #[schema(schema_with = no_annotations)]
    annotations: Option<Value>,
    /// It changes nothing.
    logprobs: Option<Value>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    prompt_cache_breakpoint: Option<Map<String, Value>>,
}

/// What the model thought: the texts of `content`, or of `summary` if it has none.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputReasoning {
    #[schema(schema_with = reasoning)]
    r#type: String,
    id: Option<String>,
    status: Option<String>,
    summary: Option<Vec<InputThought>>,
    content: Option<Vec<InputThought>>,
    #[schema(schema_with = nothing)]
    encrypted_content: Option<Value>,
}

/// A text of reasoning. Other fields change nothing.
#[derive(ToSchema)]
pub(super) struct InputThought {
    /// `reasoning_text` or `summary_text`.
    r#type: Option<Value>,
    text: String,
}

/// A call that the model made.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputCall {
    #[schema(schema_with = call)]
    r#type: String,
    id: Option<String>,
    status: Option<String>,
    call_id: String,
    name: String,
    /// A JSON object as text.
    arguments: String,
    #[schema(schema_with = not_async)]
    r#async: Option<Value>,
    #[schema(schema_with = direct_caller)]
    caller: Option<Value>,
}

/// What came of a call that stands before it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputCallOutput {
    #[schema(schema_with = call_output)]
    r#type: String,
    id: Option<String>,
    status: Option<String>,
    call_id: String,
    output: InputContent,
    #[schema(schema_with = not_async)]
    r#async: Option<Value>,
    #[schema(schema_with = direct_caller)]
    caller: Option<Value>,
}

/// An item that is stored.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemReference {
    #[schema(schema_with = reference_or_null)]
    r#type: Option<String>,
    id: String,
}

/// What an answer holds.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum OutputItem {
    Message(OutputMessage),
    Reasoning(OutputReasoning),
    Call(OutputCall),
}

/// What the assistant says.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputMessage {
    id: String,
    #[schema(schema_with = message)]
    r#type: String,
    #[schema(schema_with = status)]
    status: String,
    #[schema(schema_with = assistant)]
    role: String,
    content: Vec<OutputText>,
}

/// Text of an answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputText {
    #[schema(schema_with = output_text)]
    r#type: String,
    text: String,
    /// Always empty.
    #[schema(value_type = Vec<Object>, max_items = 0)]
    annotations: Vec<Map<String, Value>>,
    /// Empty unless they were asked for.
    logprobs: Vec<TokenLogprob>,
}

/// What the model thought.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputReasoning {
    id: String,
    #[schema(schema_with = reasoning)]
    r#type: String,
    #[schema(schema_with = status)]
    status: String,
    /// Always empty.
    #[schema(value_type = Vec<Object>, max_items = 0)]
    summary: Vec<Map<String, Value>>,
    content: Vec<ReasoningText>,
}

/// Text of reasoning.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReasoningText {
    #[schema(schema_with = reasoning_text)]
    r#type: String,
    text: String,
}

/// A call of a function. One that is incomplete was cut off, or its syntax was wrong: it is not to be acted on.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputCall {
    id: String,
    #[schema(schema_with = call)]
    r#type: String,
    #[schema(schema_with = status)]
    status: String,
    call_id: String,
    name: String,
    /// A JSON object as text; not checked against the tool's schema.
    arguments: String,
}

fn message() -> Object {
    word(&["message"])
}

fn message_or_null() -> Object {
    word_or_null(&["message"])
}

fn asking() -> Object {
    word(&["user", "system", "developer"])
}

fn assistant() -> Object {
    word(&["assistant"])
}

fn text() -> Object {
    word(&["input_text", "output_text", "text"])
}

fn refusal() -> Object {
    word(&["refusal"])
}

fn reasoning() -> Object {
    word(&["reasoning"])
}

fn call() -> Object {
    word(&["function_call"])
}

fn call_output() -> Object {
    word(&["function_call_output"])
}

fn reference_or_null() -> Object {
    word_or_null(&["item_reference"])
}

fn status() -> Object {
    word(&["in_progress", "completed", "incomplete"])
}

fn output_text() -> Object {
    word(&["output_text"])
}

fn reasoning_text() -> Object {
    word(&["reasoning_text"])
}

fn no_annotations() -> Object {
    neutral(&["[]"])
}

fn not_async() -> Object {
    neutral(&["false"])
}

fn nothing() -> Object {
    neutral(&[])
}

fn direct_caller() -> Object {
    neutral(&[r#"{"type":"direct"}"#])
}
