//! From a session's outputs to an answer: whole or streamed, the same text either way.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use troupe_actors::session::{End, Output, Part, Piece};
use troupe_protocol::{FinishReason, RateStatuses, Usage};

use super::error::ApiError;
use super::params::Delivery;
use super::rate_headers;
use super::sse::EventStream;

/// How long a stream's first output is waited for before its headers go out. A rejection comes at once and still
/// gets its own status; a long queue or prefill does not keep the client without a word.
const HEADERS_AFTER: Duration = Duration::from_secs(1);

/// What one API makes of outputs.
pub(super) trait Shape {
    /// The chunk that opens a choice, if there is one.
    fn opening(&mut self, choice: u32) -> Option<Value>;
    /// The chunk of a piece.
    fn chunk(&mut self, choice: u32, piece: Piece) -> Value;
    /// The chunk that ends a choice.
    fn closing(&mut self, choice: u32, reason: FinishReason) -> Value;
    /// The last chunk of a stream that tells its usage.
    fn usage_chunk(&mut self, usage: Usage) -> Value;
    /// The answer in one document.
    fn document(&mut self, choices: Vec<Choice>, usage: Usage) -> Value;
}

/// A choice that came to its end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    /// All of its pieces in one.
    pub(super) piece: Piece,
    /// Why it ended.
    pub(super) reason: FinishReason,
}

/// What all chunks of an answer have in common.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    /// The answer's id.
    pub(super) id: String,
    /// When it was asked for, in seconds since 1970.
    pub(super) created: u64,
    /// The model that gives it.
    pub(super) model: String,
    /// Chunks say that their usage is null, as OpenAI's do if the usage is asked for.
    pub(super) usage_is_null: bool,
}

impl Envelope {
    /// A chunk of a stream with one choice in it.
    pub(super) fn chunk(&self, object: &str, choice: Value) -> Value {
        let mut chunk = self.wrap(object, vec![choice]);
        if self.usage_is_null {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// A document, or a stream's last chunk, with the usage.
    pub(super) fn with_usage(&self, object: &str, choices: Vec<Value>, usage: Usage) -> Value {
        let mut whole = self.wrap(object, choices);
        whole["usage"] = json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        });
        whole
    }

    fn wrap(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }
}

/// Adds up what the choices took. A prompt counts once, however many choices it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bill {
    choices_per_prompt: u32,
    total: Usage,
}

impl Bill {
    /// Nothing yet.
    pub(super) fn new(choices_per_prompt: u32) -> Self {
        Self { choices_per_prompt, total: Usage::default() }
    }

    /// Adds a choice.
    pub(super) fn add(&mut self, choice: u32, usage: Usage) {
        if choice.is_multiple_of(self.choices_per_prompt) {
            self.total.prompt_tokens += usage.prompt_tokens;
            self.total.cached_tokens += usage.cached_tokens;
        }
        self.total.completion_tokens += usage.completion_tokens;
    }

    /// All of it.
    pub(super) fn total(self) -> Usage {
        self.total
    }
}

/// The sessions of one request, as the one who answers sees them.
#[derive(Debug)]
pub(super) struct Running {
    /// What they say. Dropping it cancels them.
    pub(super) outputs: Receiver<Output>,
    /// How many there are.
    pub(super) choices: u32,
    /// What they take.
    pub(super) bill: Bill,
}

/// Answers in the way that was asked for.
///
/// # Errors
/// A rejection or fault that comes before anything was sent.
pub(super) async fn respond<S: Shape + Unpin + 'static>(
    running: Running,
    shape: S,
    delivery: Delivery,
) -> Result<HttpResponse, ApiError> {
    match delivery {
        Delivery::Whole => respond_whole(running, shape).await,
        Delivery::Stream { include_usage } => respond_stream(running, shape, include_usage).await,
    }
}

async fn respond_whole(mut running: Running, mut shape: impl Shape) -> Result<HttpResponse, ApiError> {
    let mut pieces = vec![Piece::default(); running.choices as usize];
    let mut reasons = vec![None; running.choices as usize];
    let mut rates = RateStatuses::default();
    while reasons.contains(&None) {
        let Some(Output { choice, part }) = running.outputs.recv().await else {
            return Err(ApiError::internal("a session ended without a word"));
        };
        match part {
            Part::Accepted(left) => rates = rates.least(left),
            Part::Text(piece) => {
                let whole = &mut pieces[choice as usize];
                whole.text += &piece.text;
                whole.tokens.extend(piece.tokens);
            }
            Part::End(end) => {
                let (reason, usage) = finished(end)?;
                reasons[choice as usize] = Some(reason);
                running.bill.add(choice, usage);
            }
        }
    }
    let choices = pieces.into_iter().zip(reasons.into_iter().flatten());
    let choices = choices.map(|(piece, reason)| Choice { piece, reason }).collect();
    let mut response = HttpResponse::Ok().json(shape.document(choices, running.bill.total()));
    rate_headers::insert(response.headers_mut(), &rates);
    Ok(response)
}

async fn respond_stream<S: Shape + Unpin + 'static>(
    mut running: Running,
    shape: S,
    include_usage: bool,
) -> Result<HttpResponse, ApiError> {
    let mut rates = RateStatuses::default();
    let first = first_output(&mut running.outputs, &mut rates);
    let first = tokio::time::timeout(HEADERS_AFTER, first).await.ok().transpose()?;
    let mut response = HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-cache")))
        .insert_header((HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")))
        .streaming(EventStream::new(running, first, shape, include_usage));
    rate_headers::insert(response.headers_mut(), &rates);
    Ok(response)
}

/// The first that a client gets to see. On the way there, `rates` become what the choices that were taken leave.
///
/// # Errors
/// A rejection or a fault.
async fn first_output(outputs: &mut Receiver<Output>, rates: &mut RateStatuses) -> Result<Output, ApiError> {
    loop {
        let Some(Output { choice, part }) = outputs.recv().await else {
            return Err(ApiError::internal("a session ended without a word"));
        };
        let part = match part {
            Part::Accepted(left) => {
                *rates = rates.least(left);
                continue;
            }
            Part::Text(piece) => Part::Text(piece),
            Part::End(end) => {
                let (reason, usage) = finished(end)?;
                Part::End(End::Finished { reason, usage })
            }
        };
        return Ok(Output { choice, part });
    }
}

/// How a choice ended, if as it should.
///
/// # Errors
/// Otherwise.
pub(super) fn finished(end: End) -> Result<(FinishReason, Usage), ApiError> {
    match end {
        End::Finished { reason, usage } => Ok((reason, usage)),
        End::Rejected(reason) => Err(reason.into()),
        End::Failed(fault) => Err(fault.into()),
    }
}
