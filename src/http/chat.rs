//! `POST /v1/chat/completions`: a conversation in, the assistant's next message out.

use actix_web::{HttpRequest, HttpResponse, web};

use super::answer;
use super::chat_answer::ChatAnswer;
use super::chat_request::{self, ChatRequest};
use super::error::ApiError;
use super::generate::{self, entropy};
use super::request_body::read_object;
use super::state::AppState;
use super::tenants::Caller;
use super::tokenize::encode_conversation;

/// Reads, encodes, generates, answers.
pub(super) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let fields = read_object(&request, payload, state.body_limit).await?;
    let served = state.served()?;
    let ChatRequest { conversation, mut generation } =
        chat_request::read(fields, &served.card, &tenant, entropy())?;
    tenant.sign(&mut generation.admission);
    let prompt = encode_conversation(served, conversation).await?;
    let running = generate::start(&state, served, vec![prompt], &generation, "messages")?;
    let shape = ChatAnswer {
        envelope: generate::envelope("chatcmpl", served, generation.delivery),
        logprobs: generation.sampling.logprobs.is_some(),
    };
    answer::respond(running, shape, generation.delivery).await
}
