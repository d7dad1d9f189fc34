//! `POST /v1/messages/count_tokens`: how long the prompt of a message would be.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::error::shaped;
use super::request;
use crate::http::as_chat;
use crate::http::error::ApiError;
use crate::http::request_body::read_object;
use crate::http::state::AppState;
use crate::http::tenants::Caller;
use crate::http::tokenize::encode_conversation;

/// Reads, encodes, counts.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    caller: Result<Caller, ApiError>,
) -> HttpResponse {
    let result = count(&request, payload, &state, caller).await;
    shaped(&request, result)
}

async fn count(
    request: &HttpRequest,
    payload: web::Payload,
    state: &AppState,
    caller: Result<Caller, ApiError>,
) -> Result<HttpResponse, ApiError> {
    let Caller(tenant) = caller?;
    let fields = read_object(request, payload, state.body_limit).await?;
    let served = state.served()?;
    let fields = request::prompt(fields)?;
    let request = as_chat::read(fields, request::NAMES, &served.card, &tenant)?;
    let tokens = encode_conversation(served, request.conversation).await?;
    Ok(HttpResponse::Ok().json(json!({"input_tokens": tokens.len()})))
}
