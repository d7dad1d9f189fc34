//! `POST /v1/responses/input_tokens`: how long the prompt of a response would be.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::{prompt, request};
use crate::http::error::ApiError;
use crate::http::request_body::read_object;
use crate::http::state::AppState;
use crate::http::tenants::Caller;

/// Reads, encodes, counts.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let fields = read_object(&request, payload, state.body_limit).await?;
    let served = state.served()?;
    let mut request = request::read(fields)?;
    let prompt = prompt::prepare(&state, served, &tenant, &mut request).await?;
    let count = prompt.tokens.len();
    Ok(HttpResponse::Ok().json(json!({"object": "response.input_tokens", "input_tokens": count})))
}
