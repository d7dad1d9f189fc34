//! `POST /tokenize`; the reader is beside the handler.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::json;
use utoipa::ToSchema;

use super::chat::Conversation;
use super::endpoint::{Access, Endpoint};
use super::request::Request;
use super::tools::ToolDefinition;
use crate::http::tokenize;

pub(super) fn endpoint() -> Endpoint {
    Endpoint::post("/tokenize", "tokenize", "tokens", "The tokens of a text or of a conversation")
        .for_whom(Access::Tenant)
        .takes(request())
        .answers::<Tokens>()
        .fails(&[400, 401, 404, 408, 413, 415, 500, 503])
}

pub(super) fn request() -> Request {
    Request::of::<TokenizeRequest>()
        .and::<Conversation>()
        .neutral(tokenize::UNIMPLEMENTED)
        .optional("messages")
        .example("a text", json!({"prompt": "1, 2, 3,", "return_token_strs": true}))
        .example("a conversation", json!({"messages": [{"role": "user", "content": "hi"}]}))
}

/// A text in `prompt`, or a conversation in `messages`.
#[derive(ToSchema)]
struct TokenizeRequest {
    /// The model's name. Absent: the one that is served.
    model: Option<String>,
    /// The text.
    prompt: Option<String>,
    /// Whether a text gets the tokenizer's special tokens. Absent: as the model is configured.
    add_special_tokens: Option<bool>,
    /// Functions that the conversation's template is told of.
    #[schema(max_items = 128)]
    tools: Option<Vec<ToolDefinition>>,
    /// Spell the tokens too.
    return_token_strs: Option<bool>,
}

/// What a prompt is made of.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Tokens {
    count: u32,
    /// The most tokens that a prompt and its answer may have together.
    max_model_len: u32,
    tokens: Vec<u32>,
    /// There if it was asked for; null where a token has no text of its own.
    token_strs: Option<Vec<Option<String>>>,
}
