//! The events of a streamed response, in the order of `responses/answer.rs`. Each has its `sequence_number`, which counts
//! up from 0 without a gap.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::chat::TokenLogprob;
use super::endpoint::word;
use super::response_items::{OutputItem, OutputText, ReasoningText};
use super::responses::Response;

/// An event of a response.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum ResponseEvent {
    Response(Box<WholeEvent>),
    Item(ItemEvent),
    Part(PartEvent),
    TextDelta(TextDeltaEvent),
    Text(TextEvent),
    ReasoningDelta(ReasoningDeltaEvent),
    Reasoning(ReasoningEvent),
    ArgumentsDelta(ArgumentsDeltaEvent),
    Arguments(ArgumentsEvent),
}

/// The response as it is now: in the beginning, and in the last event.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WholeEvent {
    #[schema(schema_with = whole)]
    r#type: String,
    sequence_number: u64,
    response: Response,
}

/// An item begins, or is whole.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemEvent {
    #[schema(schema_with = item)]
    r#type: String,
    sequence_number: u64,
    output_index: u32,
    item: OutputItem,
}

/// The part of an item begins, or is whole.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PartEvent {
    #[schema(schema_with = part)]
    r#type: String,
    sequence_number: u64,
    item_id: String,
    output_index: u32,
    content_index: u32,
    part: OutputPart,
}

/// A part of an item.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum OutputPart {
    Text(OutputText),
    Reasoning(ReasoningText),
}

/// More of a text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextDeltaEvent {
    #[schema(schema_with = text_delta)]
    r#type: String,
    sequence_number: u64,
    item_id: String,
    output_index: u32,
    content_index: u32,
    delta: String,
    /// Empty unless they were asked for.
    logprobs: Vec<TokenLogprob>,
}

/// A text that is whole.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextEvent {
    #[schema(schema_with = text)]
    r#type: String,
    sequence_number: u64,
    item_id: String,
    output_index: u32,
    content_index: u32,
    text: String,
    /// Empty unless they were asked for.
    logprobs: Vec<TokenLogprob>,
}

/// More of the reasoning.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReasoningDeltaEvent {
    #[schema(schema_with = reasoning_delta)]
    r#type: String,
    sequence_number: u64,
    item_id: String,
    output_index: u32,
    content_index: u32,
    delta: String,
}

/// Reasoning that is whole.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReasoningEvent {
    #[schema(schema_with = reasoning)]
    r#type: String,
    sequence_number: u64,
    item_id: String,
    output_index: u32,
    content_index: u32,
    text: String,
}

/// More of the arguments of a call.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentsDeltaEvent {
    #[schema(schema_with = arguments_delta)]
    r#type: String,
    sequence_number: u64,
    item_id: String,
    output_index: u32,
    delta: String,
}

/// The arguments of a call that has ended.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentsEvent {
    #[schema(schema_with = arguments)]
    r#type: String,
    sequence_number: u64,
    item_id: String,
    output_index: u32,
    name: String,
    arguments: String,
}

fn whole() -> Object {
    word(&[
        "response.created",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ])
}

fn item() -> Object {
    word(&["response.output_item.added", "response.output_item.done"])
}

fn part() -> Object {
    word(&["response.content_part.added", "response.content_part.done"])
}

fn text_delta() -> Object {
    word(&["response.output_text.delta"])
}

fn text() -> Object {
    word(&["response.output_text.done"])
}

fn reasoning_delta() -> Object {
    word(&["response.reasoning_text.delta"])
}

fn reasoning() -> Object {
    word(&["response.reasoning_text.done"])
}

fn arguments_delta() -> Object {
    word(&["response.function_call_arguments.delta"])
}

fn arguments() -> Object {
    word(&["response.function_call_arguments.done"])
}
