//! `POST /v1/completions`; the reader is `completions_request.rs`, the shape `completions_answer.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::{Access, Endpoint, word};
use super::generation::{Generation, finish_reason_or_null};
use super::request::Request;
use super::sampler::{Format, Labels, Sampler};
use super::usage::Usage;
use crate::http::{completions_request, params, response_format};

pub(super) fn endpoint() -> Endpoint {
    Endpoint::post("/v1/completions", "createCompletion", "generate", "The continuation of a text")
        .for_whom(Access::Tenant)
        .takes(request())
        .answers::<Completion>()
        .streams::<Completion>()
        .fails(&[400, 401, 404, 408, 413, 415, 429, 500, 503, 504])
}

pub(super) fn request() -> Request {
    Request::of::<CompletionRequest>()
        .and::<Generation>()
        .and::<Sampler>()
        .and::<Format>()
        .and::<Labels>()
        .at_least(&["max_tokens", "max_completion_tokens"], 0)
        .neutral(completions_request::UNIMPLEMENTED)
        .neutral(params::UNIMPLEMENTED)
        .neutral(response_format::UNIMPLEMENTED)
        .example("a text", json!({"prompt": "1, 2, 3,", "max_tokens": 8}))
        .example(
            "several, echoed",
            json!({"prompt": ["1, 2,", [33, 28]], "n": 2, "max_tokens": 4, "echo": true}),
        )
        .example("log-probabilities", json!({"prompt": "1, 2, 3,", "max_tokens": 4, "logprobs": 2}))
        .example(
            "how likely a text is",
            json!({"prompt": "1, 2, 3, 4", "max_tokens": 0, "echo": true, "logprobs": 0}),
        )
        .example(
            "streamed, with the usage",
            json!({
                "prompt": "1, 2, 3,", "max_tokens": 8, "logprobs": 1,
                "stream": true, "stream_options": {"include_usage": true},
            }),
        )
}

/// A text, and how to go on with it.
#[derive(ToSchema)]
struct CompletionRequest {
    /// What to complete.
    prompt: Prompt,
    /// So many choices are generated, and the `n` best of them are answered with. Absent: `n`. More are not streamed.
    #[schema(minimum = 1, maximum = 128)]
    best_of: Option<i64>,
    /// Report the log-probability of each token, and so many alternatives to it.
    #[schema(minimum = 0, maximum = 20)]
    logprobs: Option<i64>,
    /// Begin the answer with the prompt; with `logprobs`, they tell of the prompt's tokens too.
    echo: Option<bool>,
    /// What comes after the completion, for models that fill in.
    suffix: Option<String>,
    /// Whether a text gets the tokenizer's special tokens. Absent: as the model is configured.
    add_special_tokens: Option<bool>,
}

/// A text, several, one in tokens, or several in tokens.
#[derive(ToSchema)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Several(Vec<TextOrTokens>),
    Tokens(Vec<u32>),
}

/// A text, or one in tokens.
#[derive(ToSchema)]
#[serde(untagged)]
enum TextOrTokens {
    Text(String),
    Tokens(Vec<u32>),
}

/// The answer in one document, or a part of a streamed one.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Completion {
    id: String,
    #[schema(schema_with = text_completion)]
    object: String,
    /// When it was asked for, in seconds since 1970.
    created: u64,
    model: String,
    /// Prompt by prompt.
    choices: Vec<CompletionChoice>,
    /// In a stream only if it was asked for, and null in all chunks but the last.
    usage: Option<Usage>,
    /// There if it was asked for.
    service_tier: Option<String>,
}

/// One continuation.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletionChoice {
    index: u32,
    text: String,
    #[schema(required = true)]
    logprobs: Option<CompletionLogprobs>,
    /// Null in chunks but for the last of a choice.
    #[schema(required = true, schema_with = finish_reason_or_null)]
    finish_reason: Option<String>,
}

/// What is known of each token, in their order.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletionLogprobs {
    tokens: Vec<String>,
    /// Natural, of the model's own distribution.
    /// Null for the first token of a prompt, which nothing comes before.
    token_logprobs: Vec<Option<f32>>,
    /// The most likely tokens at each place. A key that begins with `bytes:` is part of a character.
    top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
    /// Where each token begins in the text, in characters.
    text_offset: Vec<u32>,
}

fn text_completion() -> Object {
    word(&["text_completion"])
}
