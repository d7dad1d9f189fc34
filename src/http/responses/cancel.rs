//! `POST /v1/responses/{id}/cancel`: ends a response that is being streamed. What was said of it so far is kept.

use actix_web::{HttpRequest, HttpResponse, web};
use troupe_actors::response_store::{Cancel, Cancelled};

use super::{kept, key_of};
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::http::tenants::Caller;

/// Tells the store, and waits for the end.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let key = key_of(&request, &state, &tenant);
    let id = key.id.clone();
    match kept(state.responses.send(Cancel(key)).await)? {
        // Dropped if its client went away, and the response with it.
        Cancelled::Ending(end) => match end.await {
            Ok(document) => Ok(HttpResponse::Ok().json(document)),
            Err(_) => Err(ApiError::ResponseNotFound { id }),
        },
        Cancelled::Over => Err(ApiError::invalid("response_id", "the response has ended already")),
        Cancelled::Unknown => Err(ApiError::ResponseNotFound { id }),
    }
}
