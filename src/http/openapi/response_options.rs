//! Tools, the form of the answer and reasoning as the Responses API writes them; the readers are `responses/tools.rs`
//! and `responses/request.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::word;
use super::generation::{only_false, word_or_null};
use super::request::neutral;
use super::tools::{PlainFormat, ToolChoiceWord, function};
use crate::http::reasoning;

/// A function that the model may call. Tools of other types, which OpenAI's servers run, are refused.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponseTool {
    #[schema(schema_with = function)]
    r#type: String,
    /// One that no other function of the request has.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]+$")]
    name: String,
    /// When and how the model should call it.
    description: Option<String>,
    /// A JSON schema of an object. Absent: it takes nothing.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Map<String, Value>>,
    /// Whether arguments are held to the schema where no call is forced. Absent: false.
    strict: Option<bool>,
    #[schema(schema_with = direct)]
    allowed_callers: Option<Value>,
    #[schema(schema_with = neither)]
    r#async: Option<Value>,
    #[schema(schema_with = neither)]
    defer_loading: Option<Value>,
}

/// Which tools are called: as the model sees fit, none, one at least, a certain one, or some of them.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum ResponseToolChoice {
    Word(ToolChoiceWord),
    Function(ResponseFunctionChoice),
    Allowed(ResponseAllowedTools),
}

/// A function that is among the tools, by its name.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponseFunctionChoice {
    #[schema(schema_with = function)]
    r#type: String,
    name: String,
}

/// Some of the tools, and whether one of them has to be called. All stand in the prompt.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponseAllowedTools {
    #[schema(schema_with = allowed)]
    r#type: String,
    #[schema(schema_with = mode)]
    mode: String,
    #[schema(min_items = 1)]
    tools: Vec<ResponseFunctionChoice>,
}

/// The text of an answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextOptions {
    /// Its form. Absent: any text.
    format: Option<TextFormat>,
    #[schema(schema_with = medium)]
    verbosity: Option<String>,
}

/// The form of an answer.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum TextFormat {
    Plain(PlainFormat),
    Schema(FlatSchemaFormat),
}

/// JSON by a schema. Answers are held to it, whether it is strict or not.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FlatSchemaFormat {
    #[schema(schema_with = by_schema)]
    r#type: String,
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]+$")]
    name: String,
    description: Option<String>,
    /// A JSON schema, or the text of one.
    schema: Value,
    strict: Option<bool>,
}

/// How much the model thinks first. Nobody summarises it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReasoningOptions {
    /// As chat's `reasoning_effort`.
    #[schema(schema_with = effort)]
    effort: Option<String>,
    #[schema(schema_with = auto)]
    summary: Option<Value>,
    #[schema(schema_with = auto)]
    generate_summary: Option<Value>,
    #[schema(schema_with = auto)]
    context: Option<Value>,
    #[schema(schema_with = standard)]
    mode: Option<Value>,
}

/// What a stream holds beside its events.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponseStreamOptions {
    /// Not implemented: false is accepted.
    #[schema(schema_with = only_false)]
    include_obfuscation: Option<bool>,
}

fn direct() -> Object {
    neutral(&[r#"["direct"]"#])
}

fn neither() -> Object {
    neutral(&["false"])
}

fn auto() -> Object {
    neutral(&[r#""auto""#])
}

fn standard() -> Object {
    neutral(&[r#""standard""#])
}

fn medium() -> Object {
    neutral(&[r#""medium""#])
}

fn effort() -> Object {
    word_or_null(&reasoning::EFFORTS)
}

fn allowed() -> Object {
    word(&["allowed_tools"])
}

fn mode() -> Object {
    word(&["auto", "required"])
}

fn by_schema() -> Object {
    word(&["json_schema"])
}
