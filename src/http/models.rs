//! `GET /v1/models` and `GET /v1/models/{id}`: what is served, with the context that is really to be had.
//!
//! OpenAI's and Anthropic's clients ask under the same paths, so the answer has the fields of both.

use actix_web::{HttpRequest, HttpResponse, web};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};
use troupe_actors::model_card::ModelCard;

use super::error::ApiError;
use super::state::AppState;
use super::tenants::Caller;

/// All models that the tenant may ask for, each by the first name that it may use.
pub(super) async fn list(
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let card = &state.served()?.card;
    let name = std::iter::once(&card.id).chain(&card.aliases).find(|name| tenant.may_ask_for(name));
    let data: Vec<Value> = name.map(|name| describe(card, name)).into_iter().collect();
    Ok(HttpResponse::Ok().json(json!({
        "object": "list",
        "first_id": name,
        "last_id": name,
        "has_more": false,
        "data": data,
    })))
}

/// One model.
pub(super) async fn retrieve(
    request: HttpRequest,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let card = &state.served()?.card;
    let id = request.match_info().query("id");
    if !card.answers_to(id) || !tenant.may_ask_for(id) {
        return Err(ApiError::ModelNotFound { model: id.to_owned() });
    }
    let name = if tenant.may_ask_for(&card.id) { &card.id } else { id };
    Ok(HttpResponse::Ok().json(describe(card, name)))
}

fn describe(card: &ModelCard, name: &str) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": card.created,
        "owned_by": "troupe",
        "root": name,
        "parent": null,
        "max_model_len": card.limits.max_model_len,
        "type": "model",
        "display_name": name,
        "created_at": rfc3339(card.created),
        "lifecycle": "active",
        "max_input_tokens": card.limits.max_model_len,
        "max_tokens": card.limits.max_model_len,
    })
}

/// A time in seconds since 1970, in UTC.
fn rfc3339(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true)
}
