//! The OpenAPI 3.1 document of the whole surface, at `GET /openapi.json`: one file an endpoint.
//!
//! The types here describe what the readers and shapes beside them do; nothing is read or written through them. Tests
//! hold the two together: every field that a reader takes is in its schema, and the other way round.

mod admin;
mod chat;
mod completions;
mod detokenize;
mod endpoint;
mod error;
mod generation;
mod health;
mod message_blocks;
mod message_events;
mod message_options;
mod messages;
mod metrics;
mod models;
mod ready;
mod request;
mod response_events;
mod response_items;
mod response_options;
mod responses;
mod sampler;
mod tokenize;
mod tools;
mod usage;

use std::sync::OnceLock;

use actix_web::HttpResponse;
use bytes::Bytes;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Components, Info, License, OpenApi, PathsBuilder, Tag};

use super::error::ApiError;
use endpoint::{API_KEY, BEARER, Endpoint};

const DESCRIPTION: &str = "What clients of OpenAI's API use, as this server does it. A field that is null counts as \
    absent; a field that is not described here is refused by name. Where the server has keys, send one as \
    `Authorization: Bearer KEY` or `x-api-key: KEY`.";

/// All endpoints, in the order of the document.
fn endpoints() -> Vec<Endpoint> {
    vec![
        chat::endpoint(),
        completions::endpoint(),
        responses::create(),
        responses::input_tokens(),
        responses::retrieve(),
        responses::delete(),
        responses::cancel(),
        responses::input_items(),
        messages::create(),
        messages::count_tokens(),
        models::list(),
        models::retrieve(),
        tokenize::endpoint(),
        detokenize::endpoint(),
        health::endpoint(),
        ready::endpoint(),
        metrics::endpoint(),
        admin::scheduler(),
    ]
}

/// The document.
fn document() -> OpenApi {
    let mut paths = PathsBuilder::new();
    let mut components = Components::new();
    for endpoint in endpoints() {
        let (path, item, schemas) = endpoint.build();
        paths = paths.path(path, item);
        components.schemas.extend(schemas);
    }
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let header = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key")));
    components.security_schemes.insert(BEARER.to_owned(), bearer.into());
    components.security_schemes.insert(API_KEY.to_owned(), header.into());
    let mut info = Info::new("Troupe", env!("CARGO_PKG_VERSION"));
    info.description = Some(DESCRIPTION.to_owned());
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    info.license = Some(license);
    let mut document = OpenApi::new(info, paths);
    document.components = Some(components);
    document.tags = Some(
        [
            ("generate", "Answers, whole or streamed."),
            ("models", "What is served."),
            ("tokens", "Text to tokens and back."),
            ("operate", "For probes, Prometheus and operators."),
        ]
        .map(|(name, description)| {
            let mut tag = Tag::new(name);
            tag.description = Some(description.to_owned());
            tag
        })
        .to_vec(),
    );
    document
}

/// Answers with the document, which is made once.
///
/// # Errors
/// If it cannot be written as JSON, which would be a bug.
pub(super) async fn handle() -> Result<HttpResponse, ApiError> {
    static TEXT: OnceLock<Result<Bytes, String>> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_json().map(Bytes::from).map_err(|error| error.to_string()));
    let body = text.clone().map_err(ApiError::internal)?;
    Ok(HttpResponse::Ok().content_type("application/json").body(body))
}

/// What is wrong with a value by a schema of the document.
#[cfg(test)]
pub(super) fn faults(schema: &str, value: &serde_json::Value) -> Vec<String> {
    static COMPONENTS: OnceLock<serde_json::Value> = OnceLock::new();
    let components =
        COMPONENTS.get_or_init(|| serde_json::to_value(document()).unwrap_or_default()["components"].take());
    assert!(components["schemas"][schema].is_object(), "there is no schema {schema}");
    let whole =
        serde_json::json!({"$ref": format!("#/components/schemas/{schema}"), "components": components});
    match jsonschema::validator_for(&whole) {
        Ok(validator) => validator.iter_errors(value).map(|error| error.to_string()).collect(),
        Err(error) => vec![error.to_string()],
    }
}

#[cfg(test)]
mod tests;
