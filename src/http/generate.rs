//! From validated prompts to running sessions and the answer's frame.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use troupe_actors::guide::Guide;
use troupe_actors::session::{CHANNEL, Reading, Session, SessionContext, SessionRequest};
use troupe_actors::template::TemplateError;
use troupe_actors::tokenizer_pool::PromptError;
use troupe_protocol::{RequestPart, TokenId};

use super::answer::{Bill, Envelope, Keep, Running};
use super::error::ApiError;
use super::params::{Delivery, Generation};
use super::state::{AppState, Served};

/// Starts one session for each choice of each prompt, prompt by prompt. `part` is the parameter that the prompts
/// came in.
///
/// # Errors
/// If a prompt is empty or does not fit the context together with what is asked for, or if the format that is asked for
/// cannot be compiled.
pub(super) async fn start(
    state: &AppState,
    served: &Served,
    prompts: Vec<Vec<TokenId>>,
    generation: &Generation,
    part: &'static str,
) -> Result<Running, ApiError> {
    let limit = served.card.limits.max_model_len;
    let rooms = prompts.iter().map(|prompt| generation.room(prompt.len(), part, limit));
    let rooms = rooms.collect::<Result<Vec<_>, _>>()?;
    let guide = match &generation.format {
        Some(format) => Some(format.compile(served, &generation.stop_tokens).await?),
        None => None,
    };
    // What the model thinks first is free.
    let thinks = generation.reading.as_ref().is_some_and(Reading::begins_in_reasoning);
    let guide = if thinks { guide.map(Guide::waiting) } else { guide };
    let (client, outputs) = mpsc::channel(CHANNEL);
    let mut requests = Vec::new();
    for ((number, prompt), max_tokens) in (0..).zip(prompts).zip(rooms) {
        for choice in 0..generation.choices {
            let index = requests.len() as u32;
            let part = match (index, choice) {
                (0, _) => RequestPart::First,
                (_, 0) => RequestPart::Prompt,
                (_, _) => RequestPart::Choice,
            };
            requests.push(SessionRequest {
                choice: index,
                prompt: prompt.clone(),
                sampling: generation.sampling_of(number, choice, prompt.len()),
                max_tokens,
                answer: generation.answer,
                stop_tokens: generation.stop_tokens.clone(),
                stop: generation.stop.clone(),
                reading: generation.reading_of(index),
                guide: guide.clone(),
                admission: generation.admission,
                part,
            });
        }
    }
    let choices = requests.len() as u32;
    if !requests.is_empty() {
        let first = requests.remove(0);
        let (tokenizer, scheduler) = (Arc::clone(&served.card.tokenizer), state.scheduler.clone());
        Session::start(first, requests, SessionContext { tokenizer, scheduler, client });
    }
    Ok(Running { outputs, choices, bill: Bill::new(generation.choices), keep: Keep::All })
}

/// The frame of an answer that begins now, with an id that starts with `prefix`.
pub(super) fn envelope(prefix: &str, served: &Served, delivery: Delivery) -> Envelope {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Envelope {
        id: random_id(&format!("{prefix}-")),
        created: now.map_or(0, |since| since.as_secs()),
        model: served.card.id.clone(),
        usage_is_null: matches!(delivery, Delivery::Stream { include_usage: true }),
        service_tier: None,
    }
}

/// An id that nobody could guess.
pub(super) fn random_id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:016x}", entropy(), entropy())
}

/// 64 bits that nobody could guess.
pub(crate) fn entropy() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        // The standard library keys its hash tables from the same source, with a fallback of its own.
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    })
}

/// A prompt that the tokenizer or template refused. `part` is the parameter that it came in.
pub(super) fn prompt_error(part: &'static str, error: PromptError) -> ApiError {
    match error {
        // The template is the model's, and so is what it does for ever.
        PromptError::Template(TemplateError::Syntax { .. } | TemplateError::OutOfFuel)
        | PromptError::Panicked => ApiError::internal(error.to_string()),
        PromptError::TooLong { bytes, max_model_len } => {
            ApiError::TextTooLong { part, bytes, limit: max_model_len }
        }
        PromptError::SystemDropped { index, .. } => {
            ApiError::SystemDropped { part, param: format!("{part}[{index}]"), reason: error.to_string() }
        }
        PromptError::Template(error) => ApiError::Template { part, message: error.to_string() },
        PromptError::NoTemplate | PromptError::Tokenizer(_) => ApiError::invalid(part, error.to_string()),
    }
}
