//! Errors in Anthropic's shape: `{"type": "error", "error": {type, message}, "request_id"}`.

use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderName;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, ResponseError as _};
use serde_json::{Value, json};

use super::request::THREAD;
use crate::http::error::ApiError;
use crate::http::middleware::RequestId;

/// Under this name Anthropic's clients look for the request's id.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// "The service is overloaded": what Anthropic answers where others say 503.
const OVERLOADED: u16 = 529;

/// An answer of this API, made of what a handler came to. It has the headers that any API's would have.
pub(super) fn shaped(request: &HttpRequest, result: Result<HttpResponse, ApiError>) -> HttpResponse {
    let id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let mut response = result.unwrap_or_else(|error| {
        let mut body = to_json(&error);
        body["request_id"] = id.as_ref().and_then(|id| id.to_str().ok()).into();
        let mut response = error.error_response().set_body(BoxBody::new(body.to_string()));
        *response.status_mut() = status(&error);
        response
    });
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The error as an event of a stream, and as a body but for the request's id.
pub(super) fn to_json(error: &ApiError) -> Value {
    let message = error.to_json()["error"]["message"].take();
    let mut body = json!({"type": "error", "error": {"type": kind(error), "message": message}});
    if let ApiError::Unsupported { param, .. } = error
        && param == THREAD
    {
        // Clients that ask for a thread by default look for this before they send all of the conversation.
        body["error"]["details"] =
            json!({"error_code": "thread_unsupported_request", "unsupported": [THREAD]});
    }
    body
}

fn status(error: &ApiError) -> StatusCode {
    match error.status_code() {
        StatusCode::SERVICE_UNAVAILABLE => {
            StatusCode::from_u16(OVERLOADED).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
        }
        status => status,
    }
}

fn kind(error: &ApiError) -> &'static str {
    match error.status_code() {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    }
}
