//! `GET /ready`: whether a request sent now would be served.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde_json::json;
use troupe_actors::scheduler::{Observe, SchedulerStatus};

use super::state::AppState;

/// A scheduler that does not answer for this long is not ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// 200 if a model is loaded, steps complete and nothing is being shut down; else 503 with the reason.
pub(super) async fn handle(state: web::Data<AppState>) -> HttpResponse {
    let status = tokio::time::timeout(PATIENCE, state.observe.send(Observe)).await;
    let (code, word) = match status {
        _ if state.served.get().is_none() => (StatusCode::SERVICE_UNAVAILABLE, "loading"),
        Ok(Ok(SchedulerStatus { draining: true, .. })) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        Ok(Ok(SchedulerStatus { ready: true, .. })) => (StatusCode::OK, "ready"),
        Ok(Ok(_)) => (StatusCode::SERVICE_UNAVAILABLE, "not stepping"),
        Ok(Err(_)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the scheduler does not answer"),
    };
    let status = status.ok().and_then(Result::ok).unwrap_or_default();
    HttpResponse::build(code).json(json!({
        "status": word,
        "num_requests_running": status.num_running,
        "num_requests_waiting": status.num_waiting,
        "kv_blocks_free": status.blocks_free,
        "kv_blocks_total": status.blocks_total,
        "steps": status.steps,
    }))
}
