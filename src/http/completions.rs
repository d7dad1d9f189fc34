//! `POST /v1/completions`: prompts in, their continuations out.

use actix_web::{HttpRequest, HttpResponse, web};
use troupe_actors::tokenizer::AddSpecial;
use troupe_protocol::TokenId;

use super::answer::{self, Envelope, Keep, Running};
use super::completions_answer::{Echo, TextAnswer};
use super::completions_request::{self, CompletionRequest, Prompt, Suffix};
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
    let echo = match request.echo {
        true => echoes(served, &request.prompts, request.add).await?,
        false => Vec::new(),
    };
    let CompletionRequest { prompts, add, suffix, mut generation, best_of, .. } = request;
    tenant.sign(&mut generation);
    let prompts = match suffix {
        None => encode(served, prompts, add).await?,
        Some(suffix) => encode_around(served, prompts, suffix, add).await?,
    };
    let shape = TextAnswer {
        envelope: Envelope {
            service_tier: generation.service_tier,
            ..generate::envelope("cmpl", served, generation.delivery)
        },
        logprobs: generation.sampling.logprobs.is_some(),
        echo,
        choices_per_prompt: generation.choices,
        places: Vec::new(),
    };
    let mut keep = Keep::All;
    if let Some(of) = best_of {
        keep = Keep::Best { count: generation.choices, of };
        generation.choices = of;
        generation.sampling.logprobs.get_or_insert(0);
    }
    let running = generate::start(&state, served, prompts, &generation, "prompt").await?;
    answer::respond(Running { keep, ..running }, shape, generation.delivery).await
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

/// Prompts that ask for what is missing between theirs and a suffix.
async fn encode_around(
    served: &Served,
    prompts: Vec<Prompt>,
    Suffix { text, fill_in }: Suffix,
    add: AddSpecial,
) -> Result<Vec<Vec<TokenId>>, ApiError> {
    let frame = tokenize::encode_text(served, String::new(), add).await?;
    let after = tokenize::encode_text(served, text, AddSpecial::Never).await?;
    let before = encode(served, prompts, AddSpecial::Never).await?;
    Ok(before.iter().map(|before| [&*frame, &fill_in.prompt(before, &after)].concat()).collect())
}

/// The prompts as text.
async fn echoes(served: &Served, prompts: &[Prompt], add: AddSpecial) -> Result<Vec<Echo>, ApiError> {
    let frame = tokenize::encode_text(served, String::new(), add).await?.len();
    let mut echoes = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        echoes.push(match prompt {
            Prompt::Text(text) => Echo { text: text.clone(), frame },
            Prompt::Tokens(tokens) => {
                Echo { text: detokenize::decode(served, tokens.clone()).await?, frame: 0 }
            }
        });
    }
    Ok(echoes)
}
