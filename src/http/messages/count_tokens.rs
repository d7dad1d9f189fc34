//! `POST /v1/messages/count_tokens`: how long the prompt of a message would be.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::asked::Asked;
use super::error::shaped;
use super::request;
use crate::http::error::ApiError;
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
    let asked = Asked::read(request, payload, state, caller, request::prompt).await?;
    let tokens = encode_conversation(asked.served, asked.chat.conversation).await;
    let tokens = tokens.map_err(|error| error.renamed(request::NAMES))?;
    Ok(HttpResponse::Ok().json(json!({"input_tokens": tokens.len()})))
}
