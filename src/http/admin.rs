//! `GET /admin/scheduler`: everything that the scheduler knows, one line a tenant and one a sequence.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};
use troupe_actors::scheduler::{Inspect, PhaseStatus, SequenceStatus, Status, TenantStatus};
use troupe_protocol::{RateStatus, RejectReason, TenantId};

use super::error::ApiError;
use super::state::AppState;

/// The longest that the scheduler is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

const MICROS_PER_S: f64 = 1e6;

/// Names of tenants by their ids.
type Names = BTreeMap<TenantId, String>;

/// Answers operators.
pub(super) async fn scheduler(
    request: HttpRequest,
    state: web::Data<AppState>,
) -> Result<HttpResponse, ApiError> {
    let tenants = state.tenants();
    tenants.check_admin(&request)?;
    let status = tokio::time::timeout(PATIENCE, state.inspect.send(Inspect)).await;
    match status {
        Ok(Ok(Some(status))) => {
            Ok(HttpResponse::Ok().content_type("application/json").body(page(&status, &tenants.names)))
        }
        Ok(Ok(None)) => Err(ApiError::Busy(RejectReason::NotReady)),
        Ok(Err(_)) | Err(_) => Err(ApiError::internal("the scheduler does not answer")),
    }
}

/// One JSON object, broken into lines where a person would.
fn page(status: &Status, names: &Names) -> String {
    let counts = &status.counts;
    let (free, cached) = (counts.blocks.free, counts.blocks.cached);
    let (owned, quarantined) = (counts.blocks.owned, counts.blocks.quarantined);
    let sequences = json!({"waiting": counts.waiting, "running": counts.running});
    let blocks = json!({
        "free": free, "cached": cached, "owned": owned, "quarantined": quarantined, "total": counts.blocks_total,
    });
    let store = json!({
        "used": counts.store.used, "total": counts.store.total,
        "saved": counts.store.saved, "loaded": counts.store.loaded,
    });
    let fields = [
        format!("\"queues\": {sequences}"),
        format!("\"steps_in_flight\": {}", counts.in_flight),
        format!("\"blocks\": {blocks}"),
        format!("\"stored_blocks\": {store}"),
        format!("\"tenants\": {}", lines(status.tenants.iter().map(|tenant| describe_tenant(tenant, names)))),
        format!("\"sequences\": {}", lines(status.sequences.iter().map(|s| describe_sequence(s, names)))),
    ];
    format!("{{\n  {}\n}}\n", fields.join(",\n  "))
}

/// An array, one line an item.
fn lines(items: impl Iterator<Item = Value>) -> String {
    let items: Vec<String> = items.map(|item| format!("    {item}")).collect();
    if items.is_empty() { "[]".to_owned() } else { format!("[\n{}\n  ]", items.join(",\n")) }
}

fn name(id: TenantId, names: &Names) -> String {
    names.get(&id).cloned().unwrap_or_else(|| id.to_string())
}

fn describe_tenant(tenant: &TenantStatus, names: &Names) -> Value {
    let TenantStatus { policy, totals, .. } = tenant;
    json!({
        "tenant": name(policy.id, names),
        "waiting": tenant.waiting,
        "running": tenant.running,
        "weight": policy.weight,
        "max_running": policy.max_running,
        "max_queued": policy.max_queued,
        "max_priority": policy.max_priority.as_str(),
        "service": tenant.service,
        "accepted": totals.accepted,
        "refused": totals.refused,
        "prefill_tokens": totals.prefill_tokens,
        "cached_tokens": totals.cached_tokens,
        "decode_tokens": totals.decode_tokens,
        "preemptions": totals.preemptions,
        "requests_per_minute": tenant.rates.requests.map(describe_rate),
        "tokens_per_minute": tenant.rates.tokens.map(describe_rate),
    })
}

fn describe_rate(rate: RateStatus) -> Value {
    json!({
        "limit": rate.limit,
        "remaining": rate.remaining,
        "reset_seconds": rate.reset as f64 / MICROS_PER_S,
    })
}

fn describe_sequence(sequence: &SequenceStatus, names: &Names) -> Value {
    let (phase, blocks) = match sequence.phase {
        PhaseStatus::Waiting => ("waiting", 0),
        PhaseStatus::Prefilling { blocks, .. } => ("prefilling", blocks),
        PhaseStatus::Decoding { blocks } => ("decoding", blocks),
        PhaseStatus::Stalled { blocks } => ("stalled", blocks),
    };
    let mut line = json!({
        "sequence": sequence.id.to_string(),
        "tenant": name(sequence.tenant, names),
        "priority": sequence.priority.as_str(),
        "phase": phase,
        "age_seconds": sequence.age as f64 / MICROS_PER_S,
        "prompt_tokens": sequence.prompt_tokens,
        "cached_tokens": sequence.cached_tokens,
        "generated_tokens": sequence.generated_tokens,
        "blocks": blocks,
    });
    if let PhaseStatus::Prefilling { num_scheduled, .. } = sequence.phase {
        line["scheduled_tokens"] = num_scheduled.into();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use troupe_actors::scheduler::TenantTotals;
    use troupe_protocol::{Priority, RateStatuses, SequenceId, TenantPolicy};

    use super::*;

    fn tenant(id: u32) -> TenantStatus {
        TenantStatus {
            policy: TenantPolicy { max_running: NonZeroU32::new(4), ..TenantPolicy::unlimited(TenantId(id)) },
            service: 80,
            waiting: 1,
            running: 1,
            rates: RateStatuses {
                requests: Some(RateStatus { limit: 60, remaining: 59, reset: 1_500_000 }),
                tokens: None,
            },
            totals: TenantTotals { accepted: 2, ..TenantTotals::default() },
        }
    }

    fn sequence(id: u64, tenant: u32, phase: PhaseStatus) -> SequenceStatus {
        SequenceStatus {
            id: SequenceId(id),
            tenant: TenantId(tenant),
            priority: Priority::Batch,
            age: 2_250_000,
            prompt_tokens: 100,
            cached_tokens: 16,
            generated_tokens: 0,
            phase,
        }
    }

    #[test]
    fn a_tenant_and_a_sequence_have_a_line_each_and_the_whole_is_json() {
        let sequences = vec![
            sequence(7, 1, PhaseStatus::Prefilling { num_scheduled: 64, blocks: 7 }),
            sequence(8, 9, PhaseStatus::Waiting),
        ];
        // Of `Counts`, only the zero can be written down here; the contracts look at real ones.
        let status = Status { counts: Default::default(), tenants: vec![tenant(1)], sequences };
        let names = BTreeMap::from([(TenantId(1), "team \"a\"".to_owned())]);
        let text = page(&status, &names);
        for (word, count) in [("\"accepted\"", 1), ("\"sequence\"", 2)] {
            assert_eq!(text.lines().filter(|line| line.contains(word)).count(), count, "{text}");
        }
        let json: Value = serde_json::from_str(&text).unwrap();
        let tenant = &json["tenants"][0];
        assert_eq!((&tenant["tenant"], &tenant["max_running"]), (&json!("team \"a\""), &json!(4)));
        assert_eq!(
            tenant["requests_per_minute"],
            json!({"limit": 60, "remaining": 59, "reset_seconds": 1.5})
        );
        assert_eq!((&tenant["tokens_per_minute"], &tenant["max_queued"]), (&Value::Null, &Value::Null));
        let [first, second] = [&json["sequences"][0], &json["sequences"][1]];
        assert_eq!((&first["phase"], &first["scheduled_tokens"]), (&json!("prefilling"), &json!(64)));
        assert_eq!((&first["priority"], &first["age_seconds"]), (&json!("batch"), &json!(2.25)));
        assert_eq!((&second["tenant"], &second["phase"]), (&json!("tenant-9"), &json!("waiting")));
    }

    #[test]
    fn nothing_is_json_too() {
        let status = Status { counts: Default::default(), tenants: Vec::new(), sequences: Vec::new() };
        let json: Value = serde_json::from_str(&page(&status, &Names::new())).unwrap();
        assert_eq!((&json["tenants"], &json["queues"]["waiting"]), (&json!([]), &json!(0)));
    }
}
