//! Anthropic's Messages API: `POST /v1/messages` and `POST /v1/messages/count_tokens`.
//!
//! A request becomes a chat request ([`super::as_chat`]); what is Anthropic's own is the shape of answers and errors.

mod answer;
mod asked;
mod conversation;
mod count_tokens;
mod create;
mod error;
mod request;
#[cfg(test)]
mod tests;
mod tools;

use actix_web::{HttpRequest, HttpResponse, web};

use super::error::ApiError;

#[cfg(test)]
pub(super) use request::prompt;
pub(super) use request::{EFFORTS, NAMES, RESERVED, UNIMPLEMENTED, message};

/// Registers the endpoints.
pub(super) fn configure(config: &mut web::ServiceConfig) {
    config
        .service(endpoint("/v1/messages").route(web::post().to(create::handle)))
        .service(endpoint("/v1/messages/count_tokens").route(web::post().to(count_tokens::handle)))
        .service(web::resource("/v1/messages/{rest:.*}").to(unknown_path));
}

fn endpoint(path: &str) -> actix_web::Resource {
    web::resource(path).default_service(web::to(method_not_allowed))
}

async fn unknown_path(request: HttpRequest) -> HttpResponse {
    let path = request.path().to_owned();
    error::shaped(&request, Err(ApiError::UnknownPath { path }))
}

async fn method_not_allowed(request: HttpRequest) -> HttpResponse {
    let path = request.path().to_owned();
    error::shaped(&request, Err(ApiError::MethodNotAllowed { path, allowed: "POST" }))
}
