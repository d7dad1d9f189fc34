//! OpenAI's Responses API: answers made of items, kept by the response store so that they can be gone on with.
//!
//! A request becomes a chat request ([`super::as_chat`]); what is this API's own is items, events and what is kept.

mod answer;
mod cancel;
mod create;
mod delete;
mod input_items;
mod input_tokens;
mod items;
mod keeper;
mod prompt;
mod request;
mod retrieve;
#[cfg(test)]
mod tests;
mod tools;

use actix_web::{HttpRequest, guard, web};
use serde_json::Value;
use troupe_actors::response_store::{Key, StoreError};

use super::error::ApiError;
use super::state::AppState;
use super::tenants::Tenant;
use super::{get, method_not_allowed, post, read, unknown_path};

pub(super) use prompt::read_alone;
#[cfg(test)]
pub(super) use request::read as read_request;
pub(super) use request::{RESERVED, UNIMPLEMENTED};

/// Registers the endpoints.
pub(super) fn configure(config: &mut web::ServiceConfig) {
    let one = web::resource("/v1/responses/{id}")
        .route(read().to(retrieve::handle))
        .route(web::route().guard(guard::Delete()).to(delete::handle))
        .default_service(web::to(|request| method_not_allowed(request, "GET, HEAD, DELETE")));
    // It is no response's id.
    let compact = web::resource("/v1/responses/compact").to(unknown_path);
    config
        .service(compact)
        .service(post("/v1/responses", web::post().to(create::handle)))
        .service(post("/v1/responses/input_tokens", web::post().to(input_tokens::handle)))
        .service(one)
        .service(post("/v1/responses/{id}/cancel", web::post().to(cancel::handle)))
        .service(get("/v1/responses/{id}/input_items", read().to(input_items::handle)));
}

/// The response that a path names, as its tenant's.
fn key_of(request: &HttpRequest, state: &AppState, tenant: &Tenant) -> Key {
    Key { tenant: state.tenant_name(tenant), id: request.match_info().query("id").to_owned() }
}

/// The parameters of a query, in order.
fn query(request: &HttpRequest) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string());
    pairs.map(web::Query::into_inner).map_err(|error| ApiError::invalid("query", error.to_string()))
}

/// What the store said to one who found it at home.
fn kept<T>(answer: Result<Result<T, StoreError>, actix::MailboxError>) -> Result<T, ApiError> {
    let answer =
        answer.map_err(|error| ApiError::internal(format!("the response store did not answer: {error}")))?;
    answer.map_err(|error| ApiError::internal(error.to_string()))
}

/// The id of an item.
fn id_of(item: &Value) -> &str {
    item["id"].as_str().unwrap_or_default()
}
