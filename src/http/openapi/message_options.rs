//! Tools, thinking and what an answer is worth as Anthropic's clients write them; the readers are `messages/tools.rs` and
//! `messages/request.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::word;
use super::generation::word_or_null;
use super::request::neutral;
use crate::http::messages::EFFORTS;

/// A tool of the client's own. Those that Anthropic's servers run, or that come with its models, are refused.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageTool {
    #[schema(schema_with = custom)]
    r#type: Option<String>,
    /// One that no other tool of the request has.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]+$")]
    name: String,
    /// When and how the model should call it.
    description: Option<String>,
    /// A JSON schema of an object.
    #[schema(value_type = Object)]
    input_schema: Map<String, Value>,
    /// Whether the input is held to the schema where no call is forced. Absent: false.
    strict: Option<bool>,
    /// Every prefix is cached; this changes nothing.
    #[schema(value_type = Option<Object>)]
    cache_control: Option<Map<String, Value>>,
    #[schema(schema_with = direct)]
    allowed_callers: Option<Value>,
    #[schema(schema_with = not_deferred)]
    defer_loading: Option<Value>,
    /// Input is streamed as it comes in any case.
    eager_input_streaming: Option<bool>,
    #[schema(schema_with = no_examples)]
    input_examples: Option<Value>,
}

/// Which tools are called.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum MessageToolChoice {
    Any(AnyToolChoice),
    One(OneToolChoice),
}

/// As the model sees fit (`auto`), one at least (`any`), or none.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnyToolChoice {
    #[schema(schema_with = any)]
    r#type: String,
    /// Whether there is at most one call.
    disable_parallel_tool_use: Option<bool>,
}

/// One call, of a tool that is among the tools.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneToolChoice {
    #[schema(schema_with = tool)]
    r#type: String,
    name: String,
    /// It is one call in any case.
    disable_parallel_tool_use: Option<bool>,
}

/// Whether the model thinks first.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum ThinkingOptions {
    Enabled(ThinkingEnabled),
    Disabled(ThinkingDisabled),
    Adaptive(ThinkingAdaptive),
}

/// It does, for a number of tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThinkingEnabled {
    #[schema(schema_with = enabled)]
    r#type: String,
    /// Below `max_tokens`.
    #[schema(minimum = 1, maximum = 4294967295u64)]
    budget_tokens: i64,
    /// Whether thinking is told, whole, or its blocks are empty.
    #[schema(schema_with = display)]
    display: Option<String>,
}

/// It does not.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThinkingDisabled {
    #[schema(schema_with = disabled)]
    r#type: String,
}

/// As the chat template has it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThinkingAdaptive {
    #[schema(schema_with = adaptive)]
    r#type: String,
    /// Whether thinking is told, whole, or its blocks are empty.
    #[schema(schema_with = display)]
    display: Option<String>,
}

/// The form of an answer, and what it is worth.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputConfig {
    /// As chat's `reasoning_effort`; `high` is as without it where the model has no setting for it.
    #[schema(schema_with = effort)]
    effort: Option<String>,
    /// A schema that the answer follows.
    format: Option<OutputFormat>,
}

/// JSON by a schema.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputFormat {
    #[schema(schema_with = by_schema)]
    r#type: String,
    /// A JSON schema, or the text of one.
    schema: Value,
}

/// What a client says of its request.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageMetadata {
    /// Whom the client asks for. It changes nothing.
    user_id: Option<String>,
}

fn custom() -> Object {
    word_or_null(&["custom"])
}

fn any() -> Object {
    word(&["auto", "any", "none"])
}

fn tool() -> Object {
    word(&["tool"])
}

fn enabled() -> Object {
    word(&["enabled"])
}

fn disabled() -> Object {
    word(&["disabled"])
}

fn adaptive() -> Object {
    word(&["adaptive"])
}

fn display() -> Object {
    word_or_null(&["summarized", "omitted"])
}

fn effort() -> Object {
    word_or_null(&EFFORTS)
}

fn by_schema() -> Object {
    word(&["json_schema"])
}

fn direct() -> Object {
    neutral(&[r#"["direct"]"#])
}

fn not_deferred() -> Object {
    neutral(&["false"])
}

fn no_examples() -> Object {
    neutral(&["[]"])
}
