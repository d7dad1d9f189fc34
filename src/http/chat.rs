//! `POST /v1/chat/completions`: a conversation in, the assistant's next message out.

use actix_web::{HttpRequest, HttpResponse, web};
use troupe_actors::model_card::ModelCard;
use troupe_actors::parsers::Setup;
use troupe_actors::session::{Budget, Reading};
use troupe_actors::tokenizer::{AddSpecial, ParseSpecial, SpecialText};
use troupe_protocol::TokenId;

use super::answer::{self, Envelope};
use super::chat_answer::ChatAnswer;
use super::chat_request::{self, ChatRequest};
use super::error::ApiError;
use super::generate::{self, entropy};
use super::request_body::read_object;
use super::state::AppState;
use super::tenants::Caller;
use super::tokenize::encode_conversation;
use super::tools::Toolbox;

/// So many tokens of a prompt's end are looked at to see whether it opens a reasoning section.
const PROMPT_END: usize = 32;

/// Reads, encodes, generates, answers.
pub(super) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let fields = read_object(&request, payload, state.body_limit).await?;
    let served = state.served()?;
    let ChatRequest { conversation, toolbox, reasoning, mut generation } =
        chat_request::read(fields, &served.card, &tenant, entropy())?;
    tenant.sign(&mut generation);
    let continued = conversation.continued();
    let prompt = encode_conversation(served, conversation).await?;
    generation.reading = reading(&served.card, toolbox, reasoning.budget, &prompt, continued.as_deref())?;
    let running = generate::start(&state, served, vec![prompt], &generation, "messages").await?;
    let shape = ChatAnswer {
        envelope: Envelope {
            service_tier: generation.service_tier,
            ..generate::envelope("chatcmpl", served, generation.delivery)
        },
        logprobs: generation.sampling.logprobs.is_some(),
        reasoning: reasoning.is_shown,
    };
    answer::respond(running, shape, generation.delivery).await
}

/// How the answer to a prompt is read, which may continue a message of this text. `budget` bounds its reasoning, in
/// tokens.
///
/// # Errors
/// If the tag that closes the reasoning has no tokens, which is a bug.
pub(super) fn reading(
    card: &ModelCard,
    toolbox: Toolbox,
    budget: Option<u32>,
    prompt: &[TokenId],
    continued: Option<&str>,
) -> Result<Option<Reading>, ApiError> {
    let end = &prompt[prompt.len().saturating_sub(PROMPT_END)..];
    let start = card.output.start(&card.tokenizer.decode(end, SpecialText::Show), continued);
    let Some(setup) = card.output.setup(toolbox.callable, start) else { return Ok(None) };
    let setup = Setup { place: toolbox.place, ..setup };
    let budget = budget.map(|tokens| budget_of(card, tokens)).transpose()?;
    Ok(Some(Reading { setup, calls: toolbox.calls, budget, id_seed: entropy() }))
}

/// A bound of so many tokens on the reasoning of a model that marks it by tags.
fn budget_of(card: &ModelCard, tokens: u32) -> Result<Budget, ApiError> {
    let end = card.output.reasoning.map_or("", |tags| tags.end);
    let end = card.tokenizer.encode(end, AddSpecial::Never, ParseSpecial::AsTokens);
    Ok(Budget { tokens, end: end.map_err(|error| ApiError::internal(error.to_string()))? })
}
