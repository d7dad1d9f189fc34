//! The HTTP surface: one endpoint, one file.
//!
//! A request is read and validated here, made into tokens by the pool, and handed to sessions; what they say is
//! shaped for the client by [`answer`] and [`sse`]. Every error leaves in OpenAI's shape ([`error`]). Nothing here
//! computes, schedules or keeps state between requests.

mod admin;
mod admission;
mod answer;
mod as_chat;
mod chat;
mod chat_answer;
mod chat_request;
mod completions;
mod completions_answer;
mod completions_request;
mod detokenize;
mod docs;
#[doc(hidden)]
pub mod doors;
mod error;
mod fields;
mod generate;
mod health;
mod messages;
mod metrics;
mod middleware;
mod models;
mod narrate;
mod openapi;
mod params;
mod rate_headers;
mod ready;
mod reasoning;
mod request_body;
mod response_format;
mod responses;
mod sampler_params;
mod server;
mod sse;
mod state;
mod tenants;
mod tokenize;
mod tools;

use actix_web::{HttpRequest, HttpResponse, Resource, ResponseError, Route, guard, web};

use error::ApiError;

#[cfg(feature = "engine")]
pub(crate) use chat_answer::scored_token;
#[cfg(feature = "engine")]
pub(crate) use generate::entropy;
pub use server::{HttpOptions, serve};
pub use state::{AppState, Served};
pub use tenants::{Directory, Tenant};

/// Registers every endpoint. Any other path, and any other method, is answered in OpenAI's error shape.
pub fn configure(config: &mut web::ServiceConfig, state: web::Data<AppState>) {
    config
        .app_data(state)
        .service(post("/v1/chat/completions", web::post().to(chat::handle)))
        .service(post("/v1/completions", web::post().to(completions::handle)))
        .service(get("/v1/models", read().to(models::list)))
        .service(get("/v1/models/{id:.*}", read().to(models::retrieve)))
        .configure(messages::configure)
        .configure(responses::configure)
        .service(post("/tokenize", web::post().to(tokenize::handle)))
        .service(post("/detokenize", web::post().to(detokenize::handle)))
        .service(get("/health", read().to(health::handle)))
        .service(get("/ready", read().to(ready::handle)))
        .service(get("/metrics", read().to(metrics::handle)))
        .service(get("/admin/scheduler", read().to(admin::scheduler)))
        .service(get("/openapi.json", read().to(openapi::handle)))
        .service(get("/docs", read().to(docs::redirect)))
        .service(get("/docs/{file:.*}", read().to(docs::handle)))
        .default_service(web::to(unknown_path));
}

/// GET, and HEAD as probes send it.
fn read() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

fn get(path: &str, route: Route) -> Resource {
    web::resource(path)
        .route(route)
        .default_service(web::to(|request| method_not_allowed(request, "GET, HEAD")))
}

fn post(path: &str, route: Route) -> Resource {
    web::resource(path).route(route).default_service(web::to(|request| method_not_allowed(request, "POST")))
}

async fn unknown_path(request: HttpRequest) -> HttpResponse {
    ApiError::UnknownPath { path: request.path().to_owned() }.error_response()
}

async fn method_not_allowed(request: HttpRequest, allowed: &'static str) -> HttpResponse {
    ApiError::MethodNotAllowed { path: request.path().to_owned(), allowed }.error_response()
}

#[cfg(test)]
mod tests;
