//! The shape of every refusal and fault.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use utoipa::ToSchema;

/// Why there is no answer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorResponse {
    error: ErrorBody,
}

/// The error.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ErrorBody {
    /// For a person.
    message: String,
    /// The kind, one for each status.
    r#type: String,
    /// The part of the request that is at fault, with dots and brackets for nesting.
    #[schema(required = true)]
    param: Option<String>,
    /// The reason, for a program.
    #[schema(required = true)]
    code: Option<String>,
}
