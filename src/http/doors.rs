//! Doors for fuzzing: bytes of strangers into the readers, as the endpoints take them.

use actix_web::ResponseError;
use serde_json::Value;
use troupe_actors::model_card::ModelCard;
use troupe_protocol::TenantId;

use super::error::ApiError;
use super::fields::Fields;
use super::request_body::parse_object;
use super::tenants::Tenant;
use super::{as_chat, chat_request, completions_request, messages, responses};

/// A status, and the answer that goes with it.
pub type Refusal = (u16, Value);

/// Reads the body of a chat request.
///
/// # Errors
/// How it is refused.
pub fn read_chat(body: &[u8], card: &ModelCard) -> Result<(), Refusal> {
    read(body, |fields, tenant| chat_request::read(fields, card, tenant, 0))
}

/// Reads the body of a text completion request.
///
/// # Errors
/// How it is refused.
pub fn read_completion(body: &[u8], card: &ModelCard) -> Result<(), Refusal> {
    read(body, |fields, tenant| completions_request::read(fields, card, tenant, 0))
}

/// Reads the body of a Responses request; items that are stored are not there.
///
/// # Errors
/// How it is refused.
pub fn read_response(body: &[u8], card: &ModelCard) -> Result<(), Refusal> {
    read(body, |fields, tenant| responses::read_alone(fields, card, tenant))
}

/// Reads the body of a Messages request. What is refused is in OpenAI's shape, which the endpoint gives another.
///
/// # Errors
/// How it is refused.
pub fn read_message(body: &[u8], card: &ModelCard) -> Result<(), Refusal> {
    read(body, |fields, tenant| {
        as_chat::read(messages::message(fields, card)?, messages::NAMES, card, tenant)
    })
}

fn read<T>(body: &[u8], reader: impl FnOnce(Fields, &Tenant) -> Result<T, ApiError>) -> Result<(), Refusal> {
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    let request = parse_object(body).and_then(|fields| reader(fields, &tenant));
    request.map(drop).map_err(|error| (error.status_code().as_u16(), error.to_json()))
}
