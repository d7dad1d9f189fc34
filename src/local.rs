//! A model in this process, for one caller at a time: the same company of actors as the server, without HTTP.

use std::ops::ControlFlow;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actix::prelude::*;
use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use troupe_actors::scheduler::SchedulerActor;
use troupe_actors::session::{
    Admission, AnswerKind, CHANNEL, End, Output, Part, Piece, Session, SessionContext, SessionRequest,
    reason_name,
};
use troupe_actors::template::Ending;
use troupe_actors::tokenizer::AddSpecial;
use troupe_actors::tokenizer_pool::{EncodeChat, EncodeText};
use troupe_config::Config;
use troupe_protocol::{InvalidParameter, RequestPart, SamplingParams, TokenId, Usage};

use crate::boot::Company;
use crate::http::{Served, entropy, scored_token};
use crate::logging::{self, LogGuard};
use crate::sampler_options::SamplerOptions;

/// How one text is to be generated. What is `None` takes the model's own default; a model without one for the
/// temperature takes zero.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// The most tokens; `None` goes to the end of the context.
    pub max_tokens: Option<u32>,
    /// See [`SamplingParams::temperature`].
    pub temperature: Option<f32>,
    /// See [`SamplingParams::top_p`].
    pub top_p: Option<f32>,
    /// See [`SamplingParams::top_k`].
    pub top_k: Option<u32>,
    /// See [`SamplingParams::min_p`].
    pub min_p: Option<f32>,
    /// See [`SamplingParams::repetition_penalty`].
    pub repetition_penalty: Option<f32>,
    /// See [`SamplingParams::presence_penalty`].
    pub presence_penalty: Option<f32>,
    /// See [`SamplingParams::frequency_penalty`].
    pub frequency_penalty: Option<f32>,
    /// What goes beyond these.
    pub sampler: SamplerOptions,
    /// `None` draws one.
    pub seed: Option<u64>,
    /// Strings that end the text and are not part of it.
    pub stop: Vec<String>,
    /// Alternatives to report with each token.
    pub logprobs: Option<u8>,
}

impl GenerateOptions {
    /// Checks what can be checked before a model is loaded.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        self.over(SamplingParams::greedy())?.validate(u32::MAX)
    }

    /// The sampling parameters that come of these options and `defaults`.
    fn over(&self, defaults: SamplingParams) -> Result<SamplingParams, InvalidParameter> {
        self.sampler.over(SamplingParams {
            temperature: self.temperature.unwrap_or(defaults.temperature),
            top_k: self.top_k.unwrap_or(defaults.top_k),
            top_p: self.top_p.unwrap_or(defaults.top_p),
            min_p: self.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(defaults.repetition_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(defaults.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(defaults.frequency_penalty),
            seed: self.seed.unwrap_or_else(entropy),
            logprobs: self.logprobs,
            ..defaults
        })
    }
}

/// A generated text.
#[derive(Clone, Debug)]
pub struct Generated {
    /// All of it.
    pub text: String,
    /// `stop`, `length`, or `interrupted` if the caller broke off.
    pub finish_reason: String,
    /// What it took. Of an interrupted text, the tokens whose text was delivered.
    pub usage: Usage,
    /// Time from the call to the first text.
    pub ttft: Duration,
    /// Time from the call to the end.
    pub duration: Duration,
    /// Log-probabilities in the shape of OpenAI's chat answers, if they were asked for.
    pub logprobs: Option<Value>,
}

/// A loaded model. Dropping it ends its threads.
pub struct Local {
    served: Served,
    scheduler: Addr<SchedulerActor>,
    actors: ArbiterHandle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _log: LogGuard,
}

/// How long a caller waits for text before it is asked, with an empty one, whether it still wants any.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a running company hands to the thread that asked for it.
type Started = (Served, Addr<SchedulerActor>, ArbiterHandle);

impl Local {
    /// Loads the model. `progress` is told tensors done and tensors in all.
    ///
    /// # Errors
    /// Files that cannot be used, or an engine that cannot be started.
    pub fn start(mut config: Config, progress: impl FnMut(u32, u32) + Send + 'static) -> Result<Self> {
        let log = logging::start(&config);
        // They are a server's, which may be running with the same configuration.
        (config.cache.dir, config.cache.size) = (None, None);
        let (stop, stopped) = oneshot::channel();
        let (started, outcome) = oneshot::channel();
        let run = move || System::new().block_on(host(config, progress, started, stopped));
        let thread = std::thread::Builder::new().name("local".to_owned()).spawn(run)?;
        let (served, scheduler, actors) = outcome.blocking_recv().context("the actors ended at start")??;
        Ok(Self { served, scheduler, actors, stop: Some(stop), thread: Some(thread), _log: log })
    }

    /// Answers a conversation of messages in OpenAI's shape. `on_text` gets the text as it comes (now and
    /// then an empty one, while nothing comes), and may break it off.
    ///
    /// # Errors
    /// Messages that the template refuses, options out of range, a prompt that does not fit, or a failed engine.
    pub fn chat(
        &mut self,
        messages: Vec<Value>,
        options: &GenerateOptions,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated> {
        let chat = EncodeChat {
            messages,
            tools: Vec::new(),
            ending: Ending::GenerationPrompt,
            variables: Map::new(),
        };
        let prompt = self.encode(chat)?;
        self.generate(prompt, options, on_text)
    }

    /// Continues a text as it is.
    ///
    /// # Errors
    /// As [`Self::chat`].
    pub fn complete(
        &mut self,
        prompt: &str,
        options: &GenerateOptions,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated> {
        let prompt = self.encode(EncodeText { text: prompt.to_owned(), add: AddSpecial::AsConfigured })?;
        self.generate(prompt, options, on_text)
    }

    fn encode<M, E>(&self, message: M) -> Result<Vec<TokenId>>
    where
        M: Message<Result = Result<Vec<TokenId>, E>> + Send + 'static,
        E: std::error::Error + Send + Sync + 'static,
        troupe_actors::tokenizer_pool::TokenizerPool: Handler<M>,
    {
        let (reply, encoded) = oneshot::channel();
        let pool = self.served.pool.clone();
        self.actors.spawn(async move {
            // The caller waits below.
            let _ = reply.send(pool.send(message).await);
        });
        Ok(encoded.blocking_recv().context("the actors are gone")???)
    }

    fn generate(
        &self,
        prompt: Vec<TokenId>,
        options: &GenerateOptions,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated> {
        let begun = Instant::now();
        let prompt_tokens = prompt.len() as u32;
        let request = self.request(prompt, options)?;
        let (client, outputs) = mpsc::channel(CHANNEL);
        let (tokenizer, scheduler) = (self.served.card.tokenizer.clone(), self.scheduler.clone().recipient());
        let context = SessionContext { tokenizer, scheduler, client };
        self.actors.spawn_fn(move || Session::start(request, Vec::new(), context));
        Answer::new(begun, prompt_tokens, options.logprobs.is_some()).collect(outputs, on_text)
    }

    fn request(&self, prompt: Vec<TokenId>, options: &GenerateOptions) -> Result<SessionRequest> {
        let card = &self.served.card;
        // A person at a terminal who says nothing about randomness wants the model's best answer.
        let temperature = card.defaults.temperature.unwrap_or(0.0);
        let mut sampling = options.over(SamplingParams { temperature, ..card.default_sampling() })?;
        if let Some(dry) = &mut sampling.dry {
            dry.breakers = options.sampler.breakers(&card.tokenizer)?;
        }
        sampling.validate(card.limits.vocab_size)?;
        let (limit, length) = (card.limits.max_model_len, prompt.len() as u32);
        if length >= limit {
            bail!("the prompt of {length} tokens leaves no room in the context of {limit}");
        }
        Ok(SessionRequest {
            choice: 0,
            prompt,
            sampling,
            max_tokens: options.max_tokens.unwrap_or(limit - length),
            answer: AnswerKind::Generated,
            stop_tokens: card.end_tokens(),
            stop: options.stop.clone(),
            reading: None,
            guide: None,
            admission: Admission::default(),
            part: RequestPart::First,
        })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // Dropping the sender is the signal.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the company until `stopped`.
async fn host(
    config: Config,
    progress: impl FnMut(u32, u32),
    started: oneshot::Sender<Result<Started>>,
    stopped: oneshot::Receiver<()>,
) {
    let company = match Company::start(&config) {
        Ok(company) => company,
        Err(error) => return drop(started.send(Err(error))),
    };
    let ready = company.ready(&config, progress).await;
    let actors = Arbiter::current();
    let result = ready.map(|(_, served)| (served, company.scheduler.clone(), actors));
    if started.send(result).is_ok() {
        // An error is the signal: the sender was dropped.
        let _ = stopped.await;
    }
    company.stop().await;
}

/// An answer as it arrives.
struct Answer {
    begun: Instant,
    first: Option<Instant>,
    text: String,
    pieces: u32,
    prompt_tokens: u32,
    logprobs: Option<Vec<Value>>,
}

impl Answer {
    fn new(begun: Instant, prompt_tokens: u32, logprobs: bool) -> Self {
        let logprobs = logprobs.then(Vec::new);
        Self { begun, first: None, text: String::new(), pieces: 0, prompt_tokens, logprobs }
    }

    fn collect(
        mut self,
        mut outputs: mpsc::Receiver<Output>,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        loop {
            let next = async { tokio::time::timeout(PATIENCE, outputs.recv()).await };
            let text = match runtime.block_on(next).map(|output| output.map(|output| output.part)) {
                // Reasoning and calls are not told apart here: all is text.
                Err(_)
                | Ok(Some(Part::Accepted(_) | Part::Prompt(_) | Part::Reasoning(_) | Part::Call(_))) => {
                    String::new()
                }
                Ok(Some(Part::Text(piece))) => {
                    self.add(&piece);
                    piece.text
                }
                Ok(Some(Part::End(End::Finished { reason, usage, .. }))) => {
                    return Ok(self.finish(reason_name(reason), usage));
                }
                Ok(Some(Part::End(End::Rejected(reason)))) => return Err(reason.into()),
                Ok(Some(Part::End(End::Failed(fault)))) => return Err(fault.into()),
                Ok(None) => bail!("the session ended without an answer"),
            };
            if on_text(&text).is_break() {
                // Dropping the receiver cancels the sequence.
                let (prompt_tokens, completion_tokens) = (self.prompt_tokens, self.pieces);
                let usage = Usage { prompt_tokens, completion_tokens, ..Usage::default() };
                return Ok(self.finish("interrupted", usage));
            }
        }
    }

    fn add(&mut self, piece: &Piece) {
        self.first.get_or_insert_with(Instant::now);
        self.pieces += 1;
        self.text.push_str(&piece.text);
        if let Some(logprobs) = &mut self.logprobs {
            logprobs.extend(piece.tokens.iter().map(scored_token));
        }
    }

    fn finish(self, reason: &str, usage: Usage) -> Generated {
        let duration = self.begun.elapsed();
        Generated {
            text: self.text,
            finish_reason: reason.to_owned(),
            usage,
            ttft: self.first.map_or(duration, |first| first - self.begun),
            duration,
            logprobs: self.logprobs.map(Value::Array),
        }
    }
}
