//! The events of a streamed message, in the order of `messages/answer.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::word;
use super::message_blocks::AnswerBlock;
use super::messages::{AnthropicError, AnthropicMessage, MessageUsage, stop_reason};

/// An event of a message.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum MessageEvent {
    Start(MessageStart),
    BlockStart(BlockStart),
    BlockDelta(BlockDelta),
    BlockStop(BlockStop),
    Delta(MessageDelta),
    Bare(BareEvent),
    Error(AnthropicError),
}

/// The message with nothing in it. All of the prompt counts as input that was not read from the cache.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageStart {
    #[schema(schema_with = message_start)]
    r#type: String,
    message: AnthropicMessage,
}

/// A block begins, with nothing in it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockStart {
    #[schema(schema_with = block_start)]
    r#type: String,
    index: u32,
    content_block: AnswerBlock,
}

/// More of a block.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockDelta {
    #[schema(schema_with = block_delta)]
    r#type: String,
    index: u32,
    delta: MoreOfBlock,
}

/// What is new.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum MoreOfBlock {
    Text(TextDelta),
    Thinking(ThinkingDelta),
    Input(InputJsonDelta),
}

/// More text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextDelta {
    #[schema(schema_with = text_delta)]
    r#type: String,
    text: String,
}

/// More of what the model thinks.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThinkingDelta {
    #[schema(schema_with = thinking_delta)]
    r#type: String,
    thinking: String,
}

/// More of the JSON of a call's input.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputJsonDelta {
    #[schema(schema_with = input_json_delta)]
    r#type: String,
    partial_json: String,
}

/// A block has ended.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockStop {
    #[schema(schema_with = block_stop)]
    r#type: String,
    index: u32,
}

/// Why the message ended, and what it took.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageDelta {
    #[schema(schema_with = message_delta)]
    r#type: String,
    delta: MessageEnd,
    usage: MessageUsage,
}

/// Why the message ended.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageEnd {
    #[schema(schema_with = stop_reason)]
    stop_reason: String,
    #[schema(required = true)]
    stop_sequence: Option<String>,
}

/// The message has ended, or nothing has happened for a while.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BareEvent {
    #[schema(schema_with = bare)]
    r#type: String,
}

fn message_start() -> Object {
    word(&["message_start"])
}

fn block_start() -> Object {
    word(&["content_block_start"])
}

fn block_delta() -> Object {
    word(&["content_block_delta"])
}

fn block_stop() -> Object {
    word(&["content_block_stop"])
}

fn message_delta() -> Object {
    word(&["message_delta"])
}

fn bare() -> Object {
    word(&["message_stop", "ping"])
}

fn text_delta() -> Object {
    word(&["text_delta"])
}

fn thinking_delta() -> Object {
    word(&["thinking_delta"])
}

fn input_json_delta() -> Object {
    word(&["input_json_delta"])
}
