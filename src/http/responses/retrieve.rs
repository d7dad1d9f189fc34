//! `GET /v1/responses/{id}`: a response that is kept, or in the making.

use actix_web::{HttpRequest, HttpResponse, web};
use troupe_actors::response_store::Fetch;

use super::{kept, key_of, query};
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::http::tenants::Caller;

/// Asks the store.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    for (name, value) in query(&request)? {
        match name.as_str() {
            "stream" if value == "false" => {}
            "stream" | "starting_after" | "include_obfuscation" | "include" | "include[]" => {
                let reason = "a response is given whole, as it was made".to_owned();
                return Err(ApiError::Unsupported { param: name, reason });
            }
            _ => return Err(ApiError::Unrecognized { param: name }),
        }
    }
    let key = key_of(&request, &state, &tenant);
    let id = key.id.clone();
    let document = kept(state.responses.send(Fetch(key)).await)?;
    Ok(HttpResponse::Ok().json(document.ok_or(ApiError::ResponseNotFound { id })?))
}
