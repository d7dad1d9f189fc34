//! `GET /v1/models` and `GET /v1/models/{id}`: what is served, with the context that is really to be had.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};
use troupe_actors::model_card::ModelCard;

use super::error::ApiError;
use super::state::AppState;

/// All models.
pub(super) async fn list(state: web::Data<AppState>) -> Result<HttpResponse, ApiError> {
    let card = &state.served()?.card;
    Ok(HttpResponse::Ok().json(json!({"object": "list", "data": [describe(card)]})))
}

/// One model.
pub(super) async fn retrieve(
    request: HttpRequest,
    state: web::Data<AppState>,
) -> Result<HttpResponse, ApiError> {
    let card = &state.served()?.card;
    let id = request.match_info().query("id");
    if !card.answers_to(id) {
        return Err(ApiError::ModelNotFound { model: id.to_owned() });
    }
    Ok(HttpResponse::Ok().json(describe(card)))
}

fn describe(card: &ModelCard) -> Value {
    json!({
        "id": card.id,
        "object": "model",
        "created": card.created,
        "owned_by": "troupe",
        "root": card.id,
        "parent": null,
        "max_model_len": card.limits.max_model_len,
    })
}
