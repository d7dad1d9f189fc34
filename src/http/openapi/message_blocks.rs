//! Turns and their content blocks, as `messages/conversation.rs` reads them and `messages/answer.rs` writes them.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::word;
use super::request::neutral;

/// What one side says; neighbours of one role are one turn.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum MessageTurn {
    User(UserTurn),
    Assistant(AssistantTurn),
    System(SystemTurn),
}

/// What the user says, and what came of calls.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UserTurn {
    #[schema(schema_with = user)]
    role: String,
    content: UserContent,
}

/// What the assistant said, thought and called. If it is the last turn, it is gone on with.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AssistantTurn {
    #[schema(schema_with = assistant)]
    role: String,
    content: AssistantContent,
}

/// What the system says between turns.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SystemTurn {
    #[schema(schema_with = system)]
    role: String,
    content: SystemText,
}

/// A text, or blocks.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum UserContent {
    Text(String),
    Blocks(Vec<UserBlock>),
}

/// A block of a user's turn.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum UserBlock {
    Text(TextBlock),
    Result(ToolResultBlock),
}

/// A text, or blocks.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum AssistantContent {
    Text(String),
    Blocks(Vec<AssistantBlock>),
}

/// A block of an assistant's turn.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum AssistantBlock {
    Text(TextBlock),
    Thinking(ThinkingBlock),
    Call(ToolUseBlock),
}

/// A text, or blocks of it.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum SystemText {
    Text(String),
    Blocks(Vec<TextBlock>),
}

/// Text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextBlock {
    #[schema(schema_with = text)]
    r#type: String,
    text: String,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    cache_control: Option<Map<String, Value>>,
    #[schema(schema_with = no_citations)]
    citations: Option<Value>,
}

/// What the assistant thought.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThinkingBlock {
    #[schema(schema_with = thinking)]
    r#type: String,
    thinking: String,
    /// Nothing is signed here, so any is taken.
    signature: Option<String>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    cache_control: Option<Map<String, Value>>,
}

/// A call that the assistant made.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolUseBlock {
    #[schema(schema_with = tool_use)]
    r#type: String,
    id: String,
    name: String,
    #[schema(value_type = Object)]
    input: Map<String, Value>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    cache_control: Option<Map<String, Value>>,
    #[schema(schema_with = direct_caller)]
    caller: Option<Value>,
}

/// What came of a call that stands before it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolResultBlock {
    #[schema(schema_with = tool_result)]
    r#type: String,
    tool_use_id: String,
    content: Option<SystemText>,
    /// It changes nothing: what went wrong is in the text.
    is_error: Option<bool>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    cache_control: Option<Map<String, Value>>,
    #[schema(schema_with = direct_caller)]
    caller: Option<Value>,
}

/// A block of an answer.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum AnswerBlock {
    Text(AnswerText),
    Thinking(AnswerThinking),
    Call(AnswerCall),
}

/// Text of an answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerText {
    #[schema(schema_with = text)]
    r#type: String,
    text: String,
}

/// What the model thought.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerThinking {
    #[schema(schema_with = thinking)]
    r#type: String,
    /// Empty where it was asked not to be told.
    thinking: String,
    /// Always empty.
    signature: String,
}

/// A call of a tool.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerCall {
    #[schema(schema_with = tool_use)]
    r#type: String,
    id: String,
    name: String,
    /// Not checked against the tool's schema.
    #[schema(value_type = Object)]
    input: Map<String, Value>,
}

fn user() -> Object {
    word(&["user"])
}

/// The role of answers.
pub(super) fn assistant() -> Object {
    word(&["assistant"])
}

fn system() -> Object {
    word(&["system"])
}

fn text() -> Object {
    word(&["text"])
}

fn thinking() -> Object {
    word(&["thinking"])
}

fn tool_use() -> Object {
    word(&["tool_use"])
}

fn tool_result() -> Object {
    word(&["tool_result"])
}

fn no_citations() -> Object {
    neutral(&["[]"])
}

fn direct_caller() -> Object {
    neutral(&[r#"{"type":"direct"}"#])
}
