//! `GET /health`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::{Access, Endpoint, word};

pub(super) fn endpoint() -> Endpoint {
    Endpoint::get("/health", "health", "operate", "Whether the process is alive")
        .for_whom(Access::Open)
        .answers::<Health>()
}

/// Always well.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Health {
    #[schema(schema_with = alive)]
    status: String,
}

fn alive() -> Object {
    word(&["alive"])
}
