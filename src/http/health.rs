//! `GET /health`: the process is alive. Says nothing about the model; `/ready` does.

use actix_web::HttpResponse;
use serde_json::json;

/// Always well.
pub(super) async fn handle() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "alive"}))
}
