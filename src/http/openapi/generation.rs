//! The fields that chat and text completions share: how tokens are chosen, where they end, how they are delivered,
//! how the request is scheduled. The readers are `params.rs` and `admission.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use std::collections::BTreeMap;

use serde_json::json;
use troupe_actors::session::{FinishReason, reason_name};
use troupe_protocol::Priority;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use super::endpoint::word;
use crate::http::admission::TIERS;

/// How to answer.
#[derive(ToSchema)]
pub(super) struct Generation {
    /// The model's name. Absent: the one that is served.
    model: Option<String>,
    /// Whom the client asks for. It changes nothing.
    user: Option<String>,
    /// 0 takes the most likely token always.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f32>,
    /// Keeps the most likely tokens that together have this probability.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f32>,
    /// Drops tokens below this share of the most likely one's probability.
    #[schema(minimum = 0, maximum = 1)]
    min_p: Option<f32>,
    /// Keeps so many of the most likely tokens; 0 and -1 keep all.
    #[schema(minimum = -1, maximum = 4294967295u64)]
    top_k: Option<i64>,
    /// Divides the logits of tokens that are there already; 1 does nothing.
    #[schema(minimum = 0.01, maximum = 100)]
    repetition_penalty: Option<f32>,
    /// Taken from the logits of tokens that were generated.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f32>,
    /// Taken from the logits of tokens for each time that they were generated.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f32>,
    /// Added to logits, from -100 to 100, by token id; at most 1024 entries.
    logit_bias: Option<BTreeMap<String, f32>>,
    /// Choices for each prompt.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u32>,
    /// The most tokens of a choice. Absent: as many as fit the context.
    #[schema(minimum = 1, maximum = 4294967295u64)]
    max_tokens: Option<i64>,
    /// The same under its newer name.
    #[schema(minimum = 1, maximum = 4294967295u64)]
    max_completion_tokens: Option<i64>,
    /// Makes the draws repeatable: choices count up from it.
    #[schema(schema_with = seed)]
    seed: Option<u64>,
    /// Up to 16 strings that end the text and are not part of it, each of at most 1024 bytes.
    stop: Option<Stop>,
    /// Tokens that end the text.
    #[schema(max_items = 16)]
    stop_token_ids: Option<Vec<u32>>,
    /// Goes on after the token that ends an answer, unless a format is complete.
    ignore_eos: Option<bool>,
    /// Sends the answer as it comes, as server-sent events.
    stream: Option<bool>,
    /// Only together with `stream: true`.
    stream_options: Option<StreamOptions>,
    /// Orders the tenant's own requests.
    #[schema(schema_with = priority)]
    priority: Option<String>,
    /// Seconds after which the request is given up.
    #[schema(exclusive_minimum = 0, maximum = 86400)]
    timeout: Option<f64>,
    /// Requests with different salts share no cached prefix.
    cache_salt: Option<String>,
}

/// A string, or several.
#[derive(ToSchema)]
#[serde(untagged)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

/// What a stream tells beside the text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct StreamOptions {
    /// A last chunk tells the usage.
    include_usage: Option<bool>,
    /// Not implemented: false is accepted.
    #[schema(schema_with = only_false)]
    continuous_usage_stats: Option<bool>,
    /// Not implemented: false is accepted.
    #[schema(schema_with = only_false)]
    include_obfuscation: Option<bool>,
}

/// The type, or null.
pub(super) fn nullable(kind: Type) -> SchemaType {
    SchemaType::from_iter([kind, Type::Null])
}

/// Any integer of 64 bits; a negative one stands for its two's complement.
fn seed() -> Object {
    let schema = ObjectBuilder::new().schema_type(nullable(Type::Integer));
    schema.minimum(Some(i64::MIN)).maximum(Some(u64::MAX)).build()
}

fn priority() -> Object {
    let words = Priority::ALL.map(|priority| json!(priority.as_str()));
    let values = words.into_iter().chain([json!(null)]);
    ObjectBuilder::new().schema_type(nullable(Type::String)).enum_values(Some(values)).build()
}

/// False, or null.
pub(super) fn only_false() -> Object {
    let values = [json!(false), json!(null)];
    ObjectBuilder::new().schema_type(nullable(Type::Boolean)).enum_values(Some(values)).build()
}

/// The versions of Mirostat that there are.
pub(super) fn mirostat() -> Object {
    let values = [json!(0), json!(2), json!(null)];
    ObjectBuilder::new().schema_type(nullable(Type::Integer)).enum_values(Some(values)).build()
}

/// The tiers that a request may ask for.
pub(super) fn service_tier() -> Object {
    word_or_null(&TIERS.map(|(tier, _)| tier))
}

/// Why a choice ended.
pub(super) fn finish_reason() -> Object {
    word(&[FinishReason::Stop, FinishReason::Length, FinishReason::ToolCalls].map(reason_name))
}

/// One of a set of words, or null, which counts as absent.
pub(super) fn word_or_null(words: &[&str]) -> Object {
    let mut object = word(words);
    object.schema_type = nullable(Type::String);
    object.enum_values.get_or_insert_default().push(json!(null));
    object
}

/// Why a choice ended, in a chunk: null until it has.
pub(super) fn finish_reason_or_null() -> Object {
    let mut reason = finish_reason();
    reason.schema_type = nullable(Type::String);
    reason.enum_values.get_or_insert_default().push(json!(null));
    reason
}
