//! `GET /admin/scheduler`; the shape is in `admin.rs` beside the handler.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use troupe_protocol::Priority;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::endpoint::{Access, Endpoint, word};

pub(super) fn scheduler() -> Endpoint {
    Endpoint::get("/admin/scheduler", "scheduler", "operate", "Everything that the scheduler knows")
        .for_whom(Access::Operator)
        .answers::<SchedulerReport>()
        .fails(&[401, 404, 500, 503])
}

/// Everything that the scheduler knows. Without an admin key there is no such path.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct SchedulerReport {
    queues: Queues,
    steps_in_flight: u64,
    blocks: Blocks,
    stored_blocks: StoredBlocks,
    tenants: Vec<TenantReport>,
    sequences: Vec<SequenceReport>,
}

/// Sequences.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Queues {
    waiting: u64,
    running: u64,
}

/// Blocks of KV memory; the first four sum to the total.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Blocks {
    free: u64,
    cached: u64,
    owned: u64,
    quarantined: u64,
    total: u64,
}

/// Blocks of the second tier.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct StoredBlocks {
    used: u64,
    total: u64,
    saved: u64,
    loaded: u64,
}

/// A tenant. A limit that it does not have is null.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct TenantReport {
    tenant: String,
    waiting: u64,
    running: u64,
    weight: u32,
    #[schema(required = true)]
    max_running: Option<u32>,
    #[schema(required = true)]
    max_queued: Option<u32>,
    #[schema(schema_with = priority)]
    max_priority: String,
    /// Weighted tokens that it was served.
    service: u64,
    accepted: u64,
    refused: u64,
    prefill_tokens: u64,
    cached_tokens: u64,
    decode_tokens: u64,
    preemptions: u64,
    #[schema(required = true)]
    requests_per_minute: Option<Rate>,
    #[schema(required = true)]
    tokens_per_minute: Option<Rate>,
}

/// A limit, and what is left of it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Rate {
    limit: u64,
    remaining: u64,
    /// Until all of it is there again.
    reset_seconds: f64,
}

/// A sequence.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct SequenceReport {
    sequence: String,
    tenant: String,
    #[schema(schema_with = priority)]
    priority: String,
    #[schema(schema_with = phase)]
    phase: String,
    age_seconds: f64,
    prompt_tokens: u32,
    cached_tokens: u32,
    generated_tokens: u32,
    blocks: u64,
    /// While it is prefilling.
    scheduled_tokens: Option<u32>,
}

fn priority() -> Object {
    word(&Priority::ALL.map(Priority::as_str))
}

fn phase() -> Object {
    word(&["waiting", "prefilling", "decoding", "stalled"])
}
