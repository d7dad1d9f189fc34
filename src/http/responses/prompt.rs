//! From a request to a prompt: the conversation that it goes on from, its items, and what is left out to make it fit.

use serde_json::{Map, Value};
use troupe_actors::model_card::ModelCard;
use troupe_actors::response_store::{Conversation as Kept, FindItem, Key, MAX_CHAIN, Recall};
use troupe_protocol::TokenId;

use super::items::{self, MAX_ITEMS, MAX_REFERENCES, Messages};
use super::request::{self, ResponseRequest, Truncation};
use super::{id_of, kept};
use crate::http::as_chat;
use crate::http::chat;
use crate::http::chat_request::{ChatRequest, Conversation};
use crate::http::error::{ApiError, echo};
use crate::http::fields::Fields;
use crate::http::params::Generation;
use crate::http::state::{AppState, Served};
use crate::http::tenants::Tenant;
use crate::http::tokenize::encode_conversation;

/// A prompt, and how to answer it.
pub(super) struct Prompt {
    /// Its tokens.
    pub(super) tokens: Vec<TokenId>,
    /// How to answer.
    pub(super) generation: Generation,
    /// The request's own items, as they are kept.
    pub(super) input: Vec<Value>,
}

/// Makes the prompt of a request.
///
/// # Errors
/// The first field that is wrong, by name; a conversation that is not there.
pub(super) async fn prepare(
    state: &AppState,
    served: &Served,
    tenant: &Tenant,
    request: &mut ResponseRequest,
) -> Result<Prompt, ApiError> {
    let mut messages = Messages::new(request.instructions.take());
    if let Some(previous) = &request.previous {
        for item in recall(state, tenant, previous).await? {
            messages.add("previous_response_id", items::read("previous_response_id", &item)?)?;
        }
    }
    let mut input = take_input(request)?;
    for (index, item) in input.iter_mut().enumerate() {
        let param = format!("input[{index}]");
        if is_reference(item) {
            *item = find(state, tenant, &param, id_of(item)).await?;
        }
        messages.add(&param, items::read(&param, item)?)?;
    }
    let chat = std::mem::take(&mut request.chat);
    let ChatRequest { conversation, toolbox, reasoning, mut generation } =
        read_chat(chat, messages, &served.card, tenant)?;
    tenant.sign(&mut generation);
    let tokens = match request.truncation {
        Truncation::Disabled => encode_conversation(served, conversation).await,
        Truncation::Auto => encode_what_fits(served, conversation, &generation).await,
    };
    let tokens = tokens.map_err(|error| error.renamed(request::NAMES))?;
    generation.reading = chat::reading(&served.card, toolbox, reasoning.budget, &tokens, None)?;
    let input = input.into_iter().map(items::to_keep).collect();
    Ok(Prompt { tokens, generation, input })
}

/// Reads a request that needs nothing from the store.
///
/// # Errors
/// The first field that is wrong, by name.
pub(in crate::http) fn read_alone(
    fields: Fields,
    card: &ModelCard,
    tenant: &Tenant,
) -> Result<ChatRequest, ApiError> {
    let mut request = request::read(fields)?;
    let mut messages = Messages::new(request.instructions.take());
    for (index, item) in take_input(&mut request)?.iter().enumerate() {
        let param = format!("input[{index}]");
        messages.add(&param, items::read(&param, item)?)?;
    }
    read_chat(request.chat, messages, card, tenant)
}

/// The request's own items, within the limits of their number.
fn take_input(request: &mut ResponseRequest) -> Result<Vec<Value>, ApiError> {
    let input = std::mem::take(&mut request.input);
    if input.len() > MAX_ITEMS {
        return Err(ApiError::invalid("input", format!("{} items are more than {MAX_ITEMS}", input.len())));
    }
    let references = input.iter().filter(|item| is_reference(item)).count();
    if references > MAX_REFERENCES {
        let reason = format!("{references} items of type item_reference are more than {MAX_REFERENCES}");
        return Err(ApiError::invalid("input", reason));
    }
    Ok(input)
}

fn read_chat(
    mut chat: Map<String, Value>,
    messages: Messages,
    card: &ModelCard,
    tenant: &Tenant,
) -> Result<ChatRequest, ApiError> {
    chat.insert("messages".to_owned(), messages.finish().into());
    as_chat::read(chat, request::NAMES, card, tenant)
}

/// Items of the conversation up to a response.
async fn recall(state: &AppState, tenant: &Tenant, id: &str) -> Result<Vec<Value>, ApiError> {
    let key = Key { tenant: state.tenant_name(tenant), id: id.to_owned() };
    match kept(state.responses.send(Recall(key)).await)? {
        Kept::Whole(items) => Ok(items),
        Kept::Broken { missing, .. } => Err(ApiError::PreviousResponseNotFound { id: missing }),
        Kept::InProgress => {
            let reason = "the response is still in progress: wait for its end, or cancel it";
            Err(ApiError::invalid("previous_response_id", reason))
        }
        Kept::TooLong => {
            let reason = format!("the conversation has more than {MAX_CHAIN} turns, or too much text");
            Err(ApiError::invalid("previous_response_id", reason))
        }
    }
}

/// Whether an item stands for one that is stored. Its type may be left out: nothing else is an id and no more.
fn is_reference(item: &Value) -> bool {
    let is_bare = || item.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("id"));
    item["type"] == "item_reference" || is_bare()
}

/// The item of this id.
async fn find(state: &AppState, tenant: &Tenant, param: &str, id: &str) -> Result<Value, ApiError> {
    let key = Key { tenant: state.tenant_name(tenant), id: id.to_owned() };
    let found = kept(state.responses.send(FindItem(key)).await)?;
    found.ok_or_else(|| {
        ApiError::invalid(format!("{param}.id"), format!("no stored item has the id {:?}", echo(id)))
    })
}

/// Encodes as much of a conversation as fits the context with what is asked for: what the system says, and the newest
/// turns, of which the first is a user's.
///
/// # Errors
/// If not even the last turn fits.
async fn encode_what_fits(
    served: &Served,
    conversation: Conversation,
    generation: &Generation,
) -> Result<Vec<TokenId>, ApiError> {
    let limit = served.card.limits.max_model_len;
    let is_of = |message: &Value, roles: &[&str]| roles.iter().any(|role| message["role"] == *role);
    let messages = &conversation.messages;
    let head = messages.iter().take_while(|message| is_of(message, &["system", "developer"])).count();
    let turns = (head + 1..messages.len()).filter(|&at| is_of(&messages[at], &["user"]));
    // Where the rest may begin: the first leaves nothing out.
    let cuts: Vec<usize> = std::iter::once(head).chain(turns).collect();
    let encode_from = async |cut: usize| {
        let mut rest = conversation.clone();
        rest.messages.drain(head..cut);
        let tokens = encode_conversation(served, rest).await?;
        generation.room(tokens.len(), "input", limit).map(|_| tokens)
    };
    let mut refusal = match encode_from(head).await {
        Err(error) if is_too_long(&error) => error,
        encoded => return encoded,
    };
    // The longer the prompt the less it fits, so the first cut that does is found by halving.
    let (mut low, mut high) = (1, cuts.len());
    let mut best = None;
    while low < high {
        let middle = (low + high) / 2;
        match encode_from(cuts[middle]).await {
            Ok(tokens) => {
                best = Some(tokens);
                high = middle;
            }
            Err(error) if is_too_long(&error) => {
                refusal = error;
                low = middle + 1;
            }
            Err(error) => return Err(error),
        }
    }
    best.ok_or(refusal)
}

fn is_too_long(error: &ApiError) -> bool {
    matches!(error, ApiError::ContextLength { .. } | ApiError::TextTooLong { .. })
}
