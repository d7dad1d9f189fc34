//! `GET /docs/`: a page that shows the OpenAPI document and sends requests. All of it comes out of this program: the
//! page asks no other host for anything.

use std::sync::{Arc, OnceLock};

use actix_web::http::header;
use actix_web::{HttpResponse, web};
use utoipa_swagger_ui::Config;

use super::error::ApiError;

/// Sends `/docs` to where the page's own links work, whatever stands before it in the path.
pub(super) async fn redirect() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((header::LOCATION, "docs/")).finish()
}

/// A file of the page.
///
/// # Errors
/// If there is no such file.
pub(super) async fn handle(file: web::Path<String>) -> Result<HttpResponse, ApiError> {
    static CONFIG: OnceLock<Arc<Config<'static>>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        // Without this the page would show the document to a validator on the internet.
        let config = Config::new(["../openapi.json"]).validator_url("none");
        Arc::new(config.use_base_layout().try_it_out_enabled(true).display_request_duration(true))
    });
    match utoipa_swagger_ui::serve(&file, Arc::clone(config)) {
        Ok(Some(file)) => {
            let mut response = HttpResponse::Ok();
            response.content_type(file.content_type);
            Ok(response.body(file.bytes.into_owned()))
        }
        Ok(None) => Err(ApiError::UnknownPath { path: format!("/docs/{file}") }),
        Err(error) => Err(ApiError::internal(format!("the page cannot be shown: {error}"))),
    }
}
