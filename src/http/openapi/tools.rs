//! Tools as chat takes them, calls as its messages hold them, and forms of an answer; the readers are `tools.rs`,
//! `chat_request/messages.rs` and `response_format.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, SchemaType};

use super::endpoint::{one_of, word};
use super::generation::word_or_null;

/// A function that the model may call.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolDefinition {
    #[schema(schema_with = function)]
    r#type: String,
    function: FunctionDefinition,
    /// It belongs into the function: true is refused here.
    #[schema(schema_with = not_true)]
    strict: Option<bool>,
}

/// What is called, with what.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct FunctionDefinition {
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
    /// What it gives back, for templates that say so.
    r#return: Option<Value>,
    /// The same under another name.
    response: Option<Value>,
}

/// Which tools are called: as the model sees fit, none, one at least, a certain one, or some of them.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum ToolChoice {
    Word(ToolChoiceWord),
    Function(NamedFunction),
    Allowed(AllowedTools),
}

/// Which tools are called, of all.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolChoiceWord {
    None,
    Auto,
    Required,
}

/// One function, by its name.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedFunction {
    #[schema(schema_with = function)]
    r#type: String,
    function: FunctionName,
}

/// The name of a function that is among the tools.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct FunctionName {
    name: String,
}

/// Some of the tools. All stand in the prompt.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AllowedTools {
    #[schema(schema_with = allowed)]
    r#type: String,
    allowed_tools: AllowedList,
}

/// Which of them, and whether one has to be called.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AllowedList {
    #[schema(schema_with = mode)]
    mode: String,
    #[schema(min_items = 1)]
    tools: Vec<AllowedTool>,
}

/// One of them.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AllowedTool {
    #[schema(schema_with = function_or_null)]
    r#type: Option<String>,
    function: FunctionName,
}

/// A call that the assistant made. Fields beyond these are the template's to read.
#[derive(ToSchema)]
pub(super) struct CallMade {
    id: Option<String>,
    #[schema(schema_with = function_or_null)]
    r#type: Option<String>,
    function: FunctionCalled,
}

/// What was called.
#[derive(ToSchema)]
struct FunctionCalled {
    name: String,
    arguments: Arguments,
}

/// A JSON object, or the text of one; an empty text is an object without fields.
#[derive(ToSchema)]
#[serde(untagged)]
enum Arguments {
    Text(String),
    #[schema(value_type = Object)]
    Mapping(Map<String, Value>),
}

/// The form of an answer.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum ResponseFormat {
    Plain(PlainFormat),
    Schema(SchemaFormat),
}

/// Any text, or any JSON object.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainFormat {
    #[schema(schema_with = plain)]
    r#type: String,
}

/// JSON by a schema.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SchemaFormat {
    #[schema(schema_with = by_schema)]
    r#type: String,
    json_schema: NamedSchema,
}

/// A schema. Answers are held to it, whether it is strict or not.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NamedSchema {
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]+$")]
    name: String,
    description: Option<String>,
    /// A JSON schema, or the text of one.
    schema: Value,
    strict: Option<bool>,
}

/// The one type of tools.
pub(super) fn function() -> Object {
    word(&["function"])
}

fn function_or_null() -> Object {
    word_or_null(&["function"])
}

fn allowed() -> Object {
    word(&["allowed_tools"])
}

fn mode() -> Object {
    word(&["auto", "required"])
}

fn plain() -> Object {
    word(&["text", "json_object"])
}

fn by_schema() -> Object {
    word(&["json_schema"])
}

fn not_true() -> Object {
    let mut values = one_of([json!(false), json!(null)]);
    values.schema_type = SchemaType::AnyValue;
    values
}
