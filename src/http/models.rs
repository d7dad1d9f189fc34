//! `GET /v1/models` and `GET /v1/models/{id}`: what is served, with the context that is really to be had.

use actix_web::{HttpRequest, HttpResponse, web};
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
    Ok(HttpResponse::Ok().json(json!({"object": "list", "data": data})))
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
    })
}
