//! `POST /detokenize`; the reader is beside the handler.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use serde_json::json;
use utoipa::ToSchema;

use super::endpoint::{Access, Endpoint};
use super::request::Request;

pub(super) fn endpoint() -> Endpoint {
    Endpoint::post("/detokenize", "detokenize", "tokens", "The text of tokens")
        .for_whom(Access::Tenant)
        .takes(request())
        .answers::<Text>()
        .fails(&[400, 401, 404, 408, 413, 415, 500, 503])
}

pub(super) fn request() -> Request {
    Request::of::<DetokenizeRequest>().example("two tokens", json!({"tokens": [33, 28]}))
}

/// Tokens.
#[derive(ToSchema)]
struct DetokenizeRequest {
    /// The model's name. Absent: the one that is served.
    model: Option<String>,
    /// Each below the size of the vocabulary.
    tokens: Vec<u32>,
}

/// Their text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    /// Special tokens included.
    prompt: String,
}
