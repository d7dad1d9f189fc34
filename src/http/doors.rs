//! Doors for fuzzing: bytes of strangers into the readers, as the endpoints take them.

use actix_web::ResponseError;
use serde_json::Value;
use troupe_actors::model_card::ModelCard;
use troupe_protocol::TenantId;

use super::error::ApiError;
use super::request_body::parse_object;
use super::tenants::Tenant;
use super::{chat_request, completions_request};

/// A status, and the answer that goes with it.
pub type Refusal = (u16, Value);

/// Reads the body of a chat request.
///
/// # Errors
/// How it is refused.
pub fn read_chat(body: &[u8], card: &ModelCard) -> Result<(), Refusal> {
    let fields = parse_object(body).map_err(|error| refusal(&error))?;
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    chat_request::read(fields, card, &tenant, 0).map(drop).map_err(|error| refusal(&error))
}

/// Reads the body of a text completion request.
///
/// # Errors
/// How it is refused.
pub fn read_completion(body: &[u8], card: &ModelCard) -> Result<(), Refusal> {
    let fields = parse_object(body).map_err(|error| refusal(&error))?;
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    completions_request::read(fields, card, &tenant, 0).map(drop).map_err(|error| refusal(&error))
}

fn refusal(error: &ApiError) -> Refusal {
    (error.status_code().as_u16(), error.to_json())
}
