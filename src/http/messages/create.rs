//! `POST /v1/messages`: a conversation in, the assistant's next message out.

use actix_web::{HttpRequest, HttpResponse, web};

use super::answer::{MessageAnswer, Thinking};
use super::asked::Asked;
use super::error::shaped;
use super::request;
use crate::http::chat;
use crate::http::chat_request::ChatRequest;
use crate::http::error::ApiError;
use crate::http::generate::{self, random_id};
use crate::http::narrate;
use crate::http::state::AppState;
use crate::http::tenants::Caller;
use crate::http::tokenize::encode_conversation;

/// Reads, encodes, generates, answers.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    caller: Result<Caller, ApiError>,
) -> HttpResponse {
    let result = answer(&request, payload, &state, caller).await;
    shaped(&request, result)
}

async fn answer(
    request: &HttpRequest,
    payload: web::Payload,
    state: &AppState,
    caller: Result<Caller, ApiError>,
) -> Result<HttpResponse, ApiError> {
    let Asked { tenant, served, chat: asked } =
        Asked::read(request, payload, state, caller, request::message).await?;
    let ChatRequest { conversation, toolbox, reasoning, mut generation } = asked;
    tenant.sign(&mut generation);
    let continued = conversation.continued();
    let prompt = encode_conversation(served, conversation).await;
    let prompt = prompt.map_err(|error| error.renamed(request::NAMES))?;
    generation.reading =
        chat::reading(&served.card, toolbox, reasoning.budget, &prompt, continued.as_deref())?;
    let thinking = if reasoning.is_shown { Thinking::Told } else { Thinking::Omitted };
    let narrator = MessageAnswer::new(
        random_id("msg_"),
        served.card.id.clone(),
        generation.stop.clone(),
        thinking,
        prompt.len() as u32,
    );
    let running = generate::start(state, served, vec![prompt], &generation, "messages").await;
    let running = running.map_err(|error| error.renamed(request::NAMES))?;
    let answer = narrate::respond(running, narrator, generation.delivery).await;
    answer.map_err(|error| error.renamed(request::NAMES))
}
