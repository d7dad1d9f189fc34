//! From a session's outputs to an answer: whole or streamed, the same text either way.

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use troupe_actors::session::{CallPart, End, FinishReason, Output, Part, Piece, PromptToken};
use troupe_protocol::{RateStatuses, Usage};

use super::admission::ServiceTier;
use super::error::ApiError;
use super::params::Delivery;
use super::rate_headers;
use super::sse::EventStream;

/// What one API makes of outputs.
pub(super) trait Shape {
    /// The chunk that opens a choice, if there is one.
    fn opening(&mut self, choice: u32) -> Option<Value>;
    /// The chunk of tokens of the prompt, if they are shown.
    fn prompt_chunk(&mut self, _choice: u32, _tokens: Vec<PromptToken>) -> Option<Value> {
        None
    }
    /// The chunk of a piece.
    fn chunk(&mut self, choice: u32, piece: Piece) -> Value;
    /// The chunk of a piece of reasoning, if it is shown.
    fn reasoning_chunk(&mut self, _choice: u32, _piece: Piece) -> Option<Value> {
        None
    }
    /// The chunk of a part of a call, if there is something to say of it.
    fn call_chunk(&mut self, _choice: u32, _part: CallPart) -> Option<Value> {
        None
    }
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
    /// What it says.
    pub(super) message: Message,
    /// Why it ended.
    pub(super) reason: FinishReason,
}

/// What a choice says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message {
    /// The tokens of its prompt, if they are told.
    pub(super) prompt: Vec<PromptToken>,
    /// All pieces of its content in one.
    pub(super) piece: Piece,
    /// Its reasoning.
    pub(super) reasoning: String,
    /// Its calls, broken ones included.
    pub(super) calls: Vec<Call>,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// Its id.
    pub(super) id: String,
    /// The tool's name.
    pub(super) name: String,
    /// Its arguments: a JSON object, or the beginning of one if the call is broken.
    pub(super) arguments: String,
}

impl Message {
    fn add_text(&mut self, piece: Piece) {
        self.piece.text += &piece.text;
        self.piece.tokens.extend(piece.tokens);
    }

    fn add_call(&mut self, part: CallPart) {
        match part {
            CallPart::Started { id, name, .. } => {
                self.calls.push(Call { id, name, arguments: String::new() });
            }
            CallPart::Arguments { index, fragment } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments += &fragment;
                }
            }
            // The reason of the choice's end tells.
            CallPart::Finished { .. } | CallPart::Broken { .. } => {}
        }
    }
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
    /// The class of service, if the request named one: that one, or the lower one that its tenant may have.
    pub(super) service_tier: Option<ServiceTier>,
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
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        });
        whole
    }

    fn wrap(&self, object: &str, choices: Vec<Value>) -> Value {
        let mut whole = json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(tier) = self.service_tier {
            whole["service_tier"] = tier.as_str().into();
        }
        whole
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
        self.total.reasoning_tokens += usage.reasoning_tokens;
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
    /// Which of them are answered with.
    pub(super) keep: Keep,
}

/// Which of a prompt's choices are answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// All.
    All,
    /// The likeliest: those whose tokens have the highest mean log-probability.
    Best {
        /// How many.
        count: u32,
        /// Of how many for each prompt.
        of: u32,
    },
}

impl Keep {
    fn of(self, choices: Vec<Choice>) -> Vec<Choice> {
        let Self::Best { count, of } = self else { return choices };
        let mut kept = Vec::new();
        let mut rest = choices.into_iter().peekable();
        while rest.peek().is_some() {
            let mut of_prompt: Vec<Choice> = rest.by_ref().take(of.max(1) as usize).collect();
            // Stable: of equals, the earlier.
            of_prompt.sort_by(|one, other| mean_logprob(other).total_cmp(&mean_logprob(one)));
            kept.extend(of_prompt.into_iter().take(count as usize));
        }
        kept
    }
}

/// Of the tokens of a choice's text; nothing is less likely than a text without any.
fn mean_logprob(choice: &Choice) -> f32 {
    let tokens = &choice.message.piece.tokens;
    match tokens.len() {
        0 => f32::NEG_INFINITY,
        count => tokens.iter().map(|token| token.chosen.logprob).sum::<f32>() / count as f32,
    }
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
    let mut messages = vec![Message::default(); running.choices as usize];
    let mut reasons = vec![None; running.choices as usize];
    let mut rates = RateStatuses::default();
    while reasons.contains(&None) {
        let Some(Output { choice, part }) = running.outputs.recv().await else {
            return Err(ApiError::internal("a session ended without a word"));
        };
        match part {
            Part::Accepted(left) => rates = rates.least(left),
            Part::Prompt(tokens) => messages[choice as usize].prompt.extend(tokens),
            Part::Text(piece) => messages[choice as usize].add_text(piece),
            Part::Reasoning(piece) => messages[choice as usize].reasoning += &piece.text,
            Part::Call(part) => messages[choice as usize].add_call(part),
            Part::End(end) => {
                let (reason, usage) = finished(end)?;
                reasons[choice as usize] = Some(reason);
                running.bill.add(choice, usage);
            }
        }
    }
    let choices = messages.into_iter().zip(reasons.into_iter().flatten());
    let choices = running.keep.of(choices.map(|(message, reason)| Choice { message, reason }).collect());
    let mut response = HttpResponse::Ok().json(shape.document(choices, running.bill.total()));
    rate_headers::insert(response.headers_mut(), &rates);
    Ok(response)
}

async fn respond_stream<S: Shape + Unpin + 'static>(
    mut running: Running,
    shape: S,
    include_usage: bool,
) -> Result<HttpResponse, ApiError> {
    let Opening { rates, first } = opening(&mut running).await?;
    let mut response = stream_head().streaming(EventStream::new(running, first, shape, include_usage));
    rate_headers::insert(response.headers_mut(), &rates);
    Ok(response)
}

/// The head of an answer that is a stream of events.
pub(super) fn stream_head() -> HttpResponseBuilder {
    let mut head = HttpResponse::Ok();
    head.content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-cache")))
        .insert_header((HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")));
    head
}

/// What is known when a stream's headers go out.
pub(super) struct Opening {
    /// What the choices that were taken leave.
    pub(super) rates: RateStatuses,
    /// What one of them said before all were taken.
    pub(super) first: Option<Output>,
}

/// Waits until every choice of a stream is taken, or one speaks. The scheduler takes or rejects at once, so the headers
/// wait for no queue and no prefill, and a rejection still has its own status; what fails later is an event.
///
/// # Errors
/// A rejection, or a fault before that.
pub(super) async fn opening(running: &mut Running) -> Result<Opening, ApiError> {
    let mut rates = RateStatuses::default();
    for _ in 0..running.choices {
        let Some(output) = running.outputs.recv().await else {
            return Err(ApiError::internal("a session ended without a word"));
        };
        match output.part {
            Part::Accepted(left) => rates = rates.least(left),
            Part::End(End::Rejected(reason)) => return Err(reason.into()),
            Part::End(End::Failed(fault)) => return Err(fault.into()),
            Part::Prompt(_)
            | Part::Text(_)
            | Part::Reasoning(_)
            | Part::Call(_)
            | Part::End(End::Finished { .. }) => {
                return Ok(Opening { rates, first: Some(output) });
            }
        }
    }
    Ok(Opening { rates, first: None })
}

/// How a choice ended, if as it should.
///
/// # Errors
/// Otherwise.
pub(super) fn finished(end: End) -> Result<(FinishReason, Usage), ApiError> {
    match end {
        End::Finished { reason, usage, .. } => Ok((reason, usage)),
        End::Rejected(reason) => Err(reason.into()),
        End::Failed(fault) => Err(fault.into()),
    }
}
