//! `POST /detokenize`: the text of token ids, in vLLM's shape.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;
use troupe_actors::model_card::ModelCard;
use troupe_actors::tokenizer_pool::Decode;
use troupe_protocol::TokenId;

use super::error::ApiError;
use super::fields::Fields;
use super::generate::prompt_error;
use super::params::{check_model, token_ids};
use super::request_body::read_object;
use super::state::{AppState, Served};
use super::tenants::{Caller, Tenant};
use super::tokenize::pool_is_gone;

/// Decodes tokens.
pub(super) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let fields = read_object(&request, payload, state.body_limit).await?;
    let served = state.served()?;
    let tokens = read(fields, &served.card, &tenant)?;
    let prompt = decode(served, tokens).await?;
    Ok(HttpResponse::Ok().json(json!({ "prompt": prompt })))
}

/// Reads a request: the tokens to decode.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(mut fields: Fields, card: &ModelCard, tenant: &Tenant) -> Result<Vec<TokenId>, ApiError> {
    check_model(&mut fields, card, tenant)?;
    let tokens = token_ids("tokens", fields.required("tokens")?, card.limits.vocab_size)?;
    fields.finish(&[])?;
    Ok(tokens)
}

/// The text of `tokens`, special ones included.
///
/// # Errors
/// If they cannot be decoded, or the pool is gone.
pub(super) async fn decode(served: &Served, tokens: Vec<TokenId>) -> Result<String, ApiError> {
    let text = served.pool.send(Decode { tokens }).await;
    text.map_err(pool_is_gone)?.map_err(|error| prompt_error("tokens", error))
}
