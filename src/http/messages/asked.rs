//! What both endpoints begin with.

use std::sync::Arc;

use actix_web::{HttpRequest, web};
use serde_json::{Map, Value};
use troupe_actors::model_card::ModelCard;

use super::request::NAMES;
use crate::http::as_chat;
use crate::http::chat_request::ChatRequest;
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::request_body::read_object;
use crate::http::state::{AppState, Served};
use crate::http::tenants::{Caller, Tenant};

/// What makes the fields of a chat request of a body.
pub(super) type Read = fn(Fields, &ModelCard) -> Result<Map<String, Value>, ApiError>;

/// What somebody asks of a model.
pub(super) struct Asked<'a> {
    pub(super) tenant: Arc<Tenant>,
    pub(super) served: &'a Served,
    pub(super) chat: ChatRequest,
}

impl<'a> Asked<'a> {
    /// Reads a body; `read` makes the fields of a chat request of it.
    ///
    /// # Errors
    /// A client that is not known, a server that is not ready, or the first field that is wrong.
    pub(super) async fn read(
        request: &HttpRequest,
        payload: web::Payload,
        state: &'a AppState,
        caller: Result<Caller, ApiError>,
        read: Read,
    ) -> Result<Self, ApiError> {
        let Caller(tenant) = caller?;
        let fields = read_object(request, payload, state.body_limit).await?;
        let served = state.served()?;
        let chat = as_chat::read(read(fields, &served.card)?, NAMES, &served.card, &tenant)?;
        Ok(Self { tenant, served, chat })
    }
}
