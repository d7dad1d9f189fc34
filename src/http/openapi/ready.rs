//! `GET /ready`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use utoipa::ToSchema;

use super::endpoint::{Access, Endpoint};

pub(super) fn endpoint() -> Endpoint {
    Endpoint::get("/ready", "ready", "operate", "Whether a request sent now would be served")
        .for_whom(Access::Open)
        .answers::<Readiness>()
        .also_answers::<Readiness>(503, "It would not.")
}

/// How the scheduler is.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Readiness {
    /// `ready`, or what it lacks.
    status: String,
    num_requests_running: u64,
    num_requests_waiting: u64,
    kv_blocks_free: u64,
    kv_blocks_total: u64,
    /// Steps since the start.
    steps: u64,
}
