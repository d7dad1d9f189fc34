//! `POST /v1/completions`: prompts in, their continuations out.

use actix_web::{HttpRequest, HttpResponse, web};
use troupe_actors::tokenizer::AddSpecial;
use troupe_protocol::TokenId;

use super::answer;
use super::completions_answer::TextAnswer;
use super::completions_request::{self, CompletionRequest, Prompt};
use super::error::ApiError;
use super::generate::{self, entropy};
use super::request_body::read_object;
use super::state::{AppState, Served};
use super::tenants::Caller;
use super::{detokenize, tokenize};

/// Reads, encodes, generates, answers.
pub(super) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let fields = read_object(&request, payload, state.body_limit).await?;
    let served = state.served()?;
    let request = completions_request::read(fields, &served.card, &tenant, entropy())?;
    let echo = if request.echo { echoes(served, &request.prompts).await? } else { Vec::new() };
    let CompletionRequest { prompts, add, mut generation, .. } = request;
    tenant.sign(&mut generation.admission);
    let prompts = encode(served, prompts, add).await?;
    let running = generate::start(&state, served, prompts, &generation, "prompt")?;
    let shape = TextAnswer {
        envelope: generate::envelope("cmpl", served, generation.delivery),
        logprobs: generation.sampling.logprobs.is_some(),
        echo,
        choices_per_prompt: generation.choices,
    };
    answer::respond(running, shape, generation.delivery).await
}

async fn encode(
    served: &Served,
    prompts: Vec<Prompt>,
    add: AddSpecial,
) -> Result<Vec<Vec<TokenId>>, ApiError> {
    let mut encoded = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        encoded.push(match prompt {
            Prompt::Tokens(tokens) => tokens,
            Prompt::Text(text) => tokenize::encode_text(served, text, add).await?,
        });
    }
    Ok(encoded)
}

/// The prompts as text.
async fn echoes(served: &Served, prompts: &[Prompt]) -> Result<Vec<String>, ApiError> {
    let mut echoes = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        echoes.push(match prompt {
            Prompt::Text(text) => text.clone(),
            Prompt::Tokens(tokens) => detokenize::decode(served, tokens.clone()).await?,
        });
    }
    Ok(echoes)
}
