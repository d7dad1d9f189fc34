//! `GET /metrics`: Prometheus text.

use actix_web::{HttpResponse, web};

use super::state::AppState;

/// All metrics as they are now.
pub(super) async fn handle(state: web::Data<AppState>) -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(state.metrics.render())
}
