//! `troupe bench`: drives a running server of the OpenAI kind and measures what its clients feel.
//!
//! The road: [`prompts`] are made before the clock starts, [`arrivals`] says when each is sent, [`exchange`]
//! measures one request, [`report`] puts them together. Nothing here knows whether the server is ours.

mod arrivals;
mod chunk;
mod client;
mod exchange;
mod prompts;
mod report;
mod sse;
mod stats;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;

pub use arrivals::Load;
pub use chunk::TokenCounts;
pub use client::ApiKey;
pub use exchange::{Endpoint, Failure, FailureKind, Sample};
pub use prompts::PromptShape;
pub use report::{Report, Totals};
pub use sse::{SseError, SseParser};
pub use stats::Distribution;

use client::Client;
use exchange::{RequestShape, measure};
use prompts::{Prompts, Sizing};

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// Who asks, if the server has tenants.
    pub api_key: Option<ApiKey>,
    /// The model's name; `None` takes the first that the server lists.
    pub model: Option<String>,
    /// Which API.
    pub endpoint: Endpoint,
    /// How requests come.
    pub load: Load,
    /// Requests that are measured.
    pub requests: usize,
    /// Requests before them that are not.
    pub warmup: usize,
    /// Prompts.
    pub prompts: PromptShape,
    /// The most tokens of an answer.
    pub output_tokens: u32,
    /// Zero is greedy.
    pub temperature: f32,
    /// Asks the server to go on past the end of an answer, up to `output_tokens`.
    pub ignore_eos: bool,
    /// Sent as `response_format`.
    pub response_format: Option<Value>,
    /// How long one request may take.
    pub timeout: Duration,
}

/// What a run is doing, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Prompts are made.
    Prompts,
    /// Requests that do not count.
    Warmup,
    /// Requests that count.
    Requests,
}

/// Runs a benchmark. `progress` hears, for each stage, how many of how many are done.
///
/// # Errors
/// The server cannot be reached, or names no model. Requests that fail are part of the report.
pub fn run(options: &Options, progress: &dyn Fn(Stage, usize, usize)) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(drive(options, progress))
}

async fn drive(options: &Options, progress: &dyn Fn(Stage, usize, usize)) -> Result<Report> {
    let client = Client::new(&options.url, options.timeout, options.api_key.clone())?;
    let model = match &options.model {
        Some(model) => model.clone(),
        None => client.first_model().await?,
    };
    let shape = RequestShape {
        endpoint: options.endpoint,
        model,
        output_tokens: options.output_tokens,
        temperature: options.temperature,
        ignore_eos: options.ignore_eos,
        response_format: options.response_format.clone(),
    };

    let maker = Prompts::new(&client, options.prompts).await?;
    let total = options.warmup + options.requests;
    let mut prompts = Vec::with_capacity(total);
    for index in 0..total {
        prompts.push(maker.make(index as u64).await?);
        progress(Stage::Prompts, index + 1, total);
    }
    let (warmup, measured) = prompts.split_at(options.warmup);

    let phase = |prompts, stage| Phase { client: &client, shape: &shape, prompts, load: options.load, stage };
    phase(warmup, Stage::Warmup).run(options.prompts.seed, progress).await;
    let begun = Instant::now();
    let outcomes = phase(measured, Stage::Requests).run(options.prompts.seed, progress).await;
    let duration = begun.elapsed();
    Ok(Report::new(options, shape.model, maker.sizing() != Sizing::Estimated, duration, outcomes))
}

/// Requests that are sent by one schedule.
struct Phase<'a> {
    client: &'a Client,
    shape: &'a RequestShape,
    prompts: &'a [String],
    load: Load,
    stage: Stage,
}

impl Phase<'_> {
    async fn run(
        &self,
        seed: u64,
        progress: &dyn Fn(Stage, usize, usize),
    ) -> Vec<std::result::Result<Sample, Failure>> {
        let count = self.prompts.len();
        // A closed loop bounds what is in flight; an open one bounds nothing, and a request waits for its time only.
        let (times, in_flight) = match self.load {
            Load::Concurrency(clients) => (vec![Duration::ZERO; count], clients),
            Load::Rate(rate) => (arrivals::poisson(rate, count, seed), count),
        };
        let begun = Instant::now();
        let requests = self.prompts.iter().zip(times).map(|(prompt, at)| async move {
            tokio::time::sleep_until((begun + at).into()).await;
            measure(self.client, self.shape, prompt, begun).await
        });
        let mut outcomes = Vec::with_capacity(count);
        let mut running = stream::iter(requests).buffer_unordered(in_flight.max(1));
        while let Some(outcome) = running.next().await {
            outcomes.push(outcome);
            progress(self.stage, outcomes.len(), count);
        }
        outcomes
    }
}
