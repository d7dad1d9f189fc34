//! `DELETE /v1/responses/{id}`: forgets a response. Those that went on from it cannot be gone on with either.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;
use troupe_actors::response_store::{Delete, Deleted};

use super::{kept, key_of};
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::http::tenants::Caller;

/// Tells the store.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let key = key_of(&request, &state, &tenant);
    let id = key.id.clone();
    match kept(state.responses.send(Delete(key)).await)? {
        Deleted::Gone => {
            Ok(HttpResponse::Ok().json(json!({"id": id, "object": "response", "deleted": true})))
        }
        Deleted::InProgress => {
            Err(ApiError::invalid("response_id", "the response is still in progress: cancel it first"))
        }
        Deleted::Unknown => Err(ApiError::ResponseNotFound { id }),
    }
}
