//! `POST /tokenize`: the token ids of a prompt or a conversation, in vLLM's shape.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;
use troupe_actors::model_card::ModelCard;
use troupe_actors::tokenizer::AddSpecial;
use troupe_actors::tokenizer_pool::{EncodeChat, EncodeText};
use troupe_protocol::TokenId;

use super::chat_request::{self, Conversation};
use super::error::ApiError;
use super::fields::{Fields, Unimplemented};
use super::generate::prompt_error;
use super::params::check_model;
use super::request_body::read_object;
use super::state::{AppState, Served};
use super::tenants::{Caller, Tenant};
use super::tools;

/// Fields of this endpoint that this server does not implement.
pub(super) const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "add_special_tokens", neutral: &["false"] },
    Unimplemented { name: "chat_template", neutral: &[] },
    Unimplemented { name: "mm_processor_kwargs", neutral: &[] },
];

/// A request, validated as far as that needs no tokenizer.
#[derive(Debug)]
pub(super) struct TokenizeRequest {
    input: Input,
    return_token_strs: bool,
}

/// What is to be encoded.
#[derive(Debug)]
enum Input {
    Text { text: String, add: AddSpecial },
    Conversation(Conversation),
}

/// Encodes a prompt.
pub(super) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let fields = read_object(&request, payload, state.body_limit).await?;
    let served = state.served()?;
    let TokenizeRequest { input, return_token_strs } = read(fields, &served.card, &tenant)?;
    let tokens = match input {
        Input::Text { text, add } => encode_text(served, text, add).await?,
        Input::Conversation(conversation) => encode_conversation(served, conversation).await?,
    };
    let mut answer = json!({
        "count": tokens.len(),
        "max_model_len": served.card.limits.max_model_len,
        "tokens": tokens,
    });
    if return_token_strs {
        answer["token_strs"] = tokens.iter().map(|&token| served.card.tokenizer.token_text(token)).collect();
    }
    Ok(HttpResponse::Ok().json(answer))
}

/// Reads a request.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(
    mut fields: Fields,
    card: &ModelCard,
    tenant: &Tenant,
) -> Result<TokenizeRequest, ApiError> {
    check_model(&mut fields, card, tenant)?;
    let return_token_strs = fields.bool("return_token_strs")?.unwrap_or(false);
    let input = match fields.string("prompt")? {
        Some(text) => Input::Text { text, add: add_special(&mut fields)? },
        None => {
            let mut conversation = chat_request::conversation(&mut fields)?;
            conversation.tools = tools::definitions(&mut fields)?;
            Input::Conversation(conversation)
        }
    };
    fields.finish(UNIMPLEMENTED)?;
    Ok(TokenizeRequest { input, return_token_strs })
}

/// Whether a text gets the tokenizer's special tokens: it does unless the client says otherwise.
///
/// # Errors
/// If it is no boolean.
pub(super) fn add_special(fields: &mut Fields) -> Result<AddSpecial, ApiError> {
    Ok(match fields.bool("add_special_tokens")? {
        Some(false) => AddSpecial::Never,
        Some(true) | None => AddSpecial::AsConfigured,
    })
}

/// The tokens of a text.
///
/// # Errors
/// If it cannot be encoded, or the pool is gone.
pub(super) async fn encode_text(
    served: &Served,
    text: String,
    add: AddSpecial,
) -> Result<Vec<TokenId>, ApiError> {
    let tokens = served.pool.send(EncodeText { text, add }).await;
    tokens.map_err(pool_is_gone)?.map_err(|error| prompt_error("prompt", error))
}

/// The tokens of a conversation.
///
/// # Errors
/// If the template refuses it, or the pool is gone.
pub(super) async fn encode_conversation(
    served: &Served,
    conversation: Conversation,
) -> Result<Vec<TokenId>, ApiError> {
    let Conversation { messages, tools, ending, variables } = conversation;
    let tokens = served.pool.send(EncodeChat { messages, tools, ending, variables }).await;
    tokens.map_err(pool_is_gone)?.map_err(|error| prompt_error("messages", error))
}

/// The error for a pool that does not answer.
pub(super) fn pool_is_gone(error: actix::MailboxError) -> ApiError {
    ApiError::internal(format!("the tokenizer pool did not answer: {error}"))
}
