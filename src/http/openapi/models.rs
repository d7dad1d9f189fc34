//! `GET /v1/models` and `GET /v1/models/{id}`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::{Access, Endpoint, word};

pub(super) fn list() -> Endpoint {
    Endpoint::get("/v1/models", "listModels", "models", "The models that may be asked for")
        .for_whom(Access::Tenant)
        .answers::<ModelList>()
        .fails(&[401, 503])
}

pub(super) fn retrieve() -> Endpoint {
    Endpoint::get("/v1/models/{id}", "retrieveModel", "models", "One model")
        .for_whom(Access::Tenant)
        .part("id", "Its name, or another name of it.")
        .answers::<Model>()
        .fails(&[401, 404, 503])
}

/// Models.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ModelList {
    #[schema(schema_with = list_word)]
    object: String,
    /// The first model's.
    #[schema(required = true)]
    first_id: Option<String>,
    /// The last model's.
    #[schema(required = true)]
    last_id: Option<String>,
    /// Always false: all are in one list.
    has_more: bool,
    data: Vec<Model>,
}

/// A model.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Model {
    id: String,
    #[schema(schema_with = model_word)]
    object: String,
    /// When it was loaded, in seconds since 1970.
    created: u64,
    owned_by: String,
    root: String,
    /// Always null.
    #[schema(required = true)]
    parent: Option<String>,
    /// The most tokens that a prompt and its answer may have together.
    max_model_len: u32,
    #[schema(schema_with = model_word)]
    r#type: String,
    /// The id again.
    display_name: String,
    /// `created` in RFC 3339.
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(schema_with = active_word)]
    lifecycle: String,
    /// `max_model_len` under Anthropic's names.
    max_input_tokens: u32,
    max_tokens: u32,
}

fn list_word() -> Object {
    word(&["list"])
}

fn active_word() -> Object {
    word(&["active"])
}

fn model_word() -> Object {
    word(&["model"])
}
