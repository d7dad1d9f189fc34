//! What a run came to: totals, distributions, and the same as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::exchange::{Endpoint, Failure, FailureKind, Sample};
use super::stats::Distribution;
use super::{Load, Options, TokenCounts};

/// The result of a run. Times are in seconds in JSON, and in milliseconds in the table.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The server.
    pub url: String,
    /// The model.
    pub model: String,
    /// Which API was driven.
    pub endpoint: Endpoint,
    /// Clients of a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Requests a second of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Seed of prompts and arrivals.
    pub seed: u64,
    /// Whether prompts were sized by the server's own tokenizer.
    pub prompts_counted: bool,
    /// Whether the server reported the tokens of every request; if not, `totals` counts pieces of text.
    pub usage_reported: bool,
    /// Sums and rates.
    pub totals: Totals,
    /// Request to first text.
    pub ttft_seconds: Option<Distribution>,
    /// Between pieces of text of one stream. A piece is a token, or several if the server joins them.
    pub itl_seconds: Option<Distribution>,
    /// Mean time of a request's tokens after the first.
    pub tpot_seconds: Option<Distribution>,
    /// Request to end of stream.
    pub e2e_seconds: Option<Distribution>,
    /// Failed requests by kind, with the words of the first.
    pub failures: Vec<FailureCount>,
    /// Every request, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<Sample>>,
}

/// Sums over a run, and rates over its duration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// Requests answered to their end.
    pub completed: usize,
    /// Requests that failed.
    pub failed: usize,
    /// From the first request to the end of the last.
    pub duration_seconds: f64,
    /// Tokens of the prompts of completed requests.
    pub prompt_tokens: u64,
    /// Of these, found in the server's cache.
    pub cached_tokens: u64,
    /// Tokens generated for completed requests.
    pub output_tokens: u64,
    /// Completed requests a second.
    pub requests_per_second: f64,
    /// Generated tokens a second.
    pub output_tokens_per_second: f64,
    /// Prompt and generated tokens a second.
    pub total_tokens_per_second: f64,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// The kind.
    pub kind: FailureKind,
    /// How many.
    pub count: usize,
    /// What the first one said.
    pub example: String,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        model: String,
        prompts_counted: bool,
        duration: Duration,
        outcomes: Vec<Result<Sample, Failure>>,
    ) -> Self {
        let (concurrency, rate) = match options.load {
            Load::Concurrency(clients) => (Some(clients), None),
            Load::Rate(rate) => (None, Some(rate)),
        };
        let failures = count_failures(&outcomes);
        let mut samples: Vec<Sample> = outcomes.into_iter().filter_map(Result::ok).collect();
        samples.sort_by(|a, b| a.start.total_cmp(&b.start));
        let distribution =
            |value: fn(&Sample) -> Option<f64>| Distribution::of(samples.iter().filter_map(value).collect());
        Self {
            url: options.url.clone(),
            model,
            endpoint: options.endpoint,
            concurrency,
            rate,
            seed: options.prompts.seed,
            prompts_counted,
            usage_reported: samples.iter().all(|s| s.usage_reported),
            totals: Totals::of(&samples, failures.iter().map(|f| f.count).sum(), duration),
            ttft_seconds: distribution(|s| Some(s.ttft)),
            itl_seconds: Distribution::of(samples.iter().flat_map(|s| s.itl.iter().copied()).collect()),
            tpot_seconds: distribution(tpot),
            e2e_seconds: distribution(|s| Some(s.e2e)),
            failures,
            samples: Some(samples),
        }
    }

    /// The report without its single requests.
    #[must_use]
    pub fn without_samples(mut self) -> Self {
        self.samples = None;
        self
    }
}

/// Seconds a token after the first, if there was a second one.
fn tpot(sample: &Sample) -> Option<f64> {
    let later = sample.tokens.output.checked_sub(1).filter(|&n| n > 0)?;
    Some((sample.e2e - sample.ttft) / later as f64)
}

impl Totals {
    fn of(samples: &[Sample], failed: usize, duration: Duration) -> Self {
        let sum = |value: fn(&TokenCounts) -> u64| samples.iter().map(|s| value(&s.tokens)).sum::<u64>();
        let (prompt, cached, output) = (sum(|t| t.prompt), sum(|t| t.cached), sum(|t| t.output));
        let seconds = duration.as_secs_f64();
        let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        Self {
            completed: samples.len(),
            failed,
            duration_seconds: seconds,
            prompt_tokens: prompt,
            cached_tokens: cached,
            output_tokens: output,
            requests_per_second: per_second(samples.len() as u64),
            output_tokens_per_second: per_second(output),
            total_tokens_per_second: per_second(prompt + output),
        }
    }
}

fn count_failures(outcomes: &[Result<Sample, Failure>]) -> Vec<FailureCount> {
    let mut counts: BTreeMap<FailureKind, FailureCount> = BTreeMap::new();
    for failure in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        let Failure { kind, detail } = failure;
        counts
            .entry(*kind)
            .or_insert_with(|| FailureCount { kind: *kind, count: 0, example: detail.clone() })
            .count += 1;
    }
    counts.into_values().collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_title(f)?;
        self.write_totals(f)?;
        self.write_distributions(f)?;
        for FailureCount { kind, count, example } in &self.failures {
            write!(f, "\nfailed: {count} × {kind}")?;
            if !example.is_empty() {
                write!(f, " ({example})")?;
            }
        }
        Ok(())
    }
}

impl Report {
    fn write_title(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = match self.endpoint {
            Endpoint::Chat => "chat",
            Endpoint::Completions => "completions",
        };
        write!(f, "{} · {} · {endpoint} · ", self.url, self.model)?;
        match self.rate {
            Some(rate) => writeln!(f, "{rate} requests/s\n"),
            None => writeln!(f, "{} at a time\n", self.concurrency.unwrap_or(1)),
        }
    }

    fn write_totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.totals;
        let each = |n: u64| if t.completed > 0 { n as f64 / t.completed as f64 } else { 0.0 };
        let counted =
            if self.usage_reported { "" } else { ", counted by pieces: the server reported no usage" };
        let prompt = format!("tokens ({:.1} a request, {} cached)", each(t.prompt_tokens), t.cached_tokens);
        let output = format!("tokens ({:.1} a request{counted})", each(t.output_tokens));
        let rows = [
            ("requests", (t.completed + t.failed).to_string(), format!("({} failed)", t.failed)),
            ("duration", format!("{:.2}", t.duration_seconds), "s".to_owned()),
            ("prompt", t.prompt_tokens.to_string(), prompt),
            ("output", t.output_tokens.to_string(), output),
            ("throughput", format!("{:.2}", t.requests_per_second), "requests/s".to_owned()),
            ("", format!("{:.1}", t.output_tokens_per_second), "output tokens/s".to_owned()),
            ("", format!("{:.1}", t.total_tokens_per_second), "prompt and output tokens/s".to_owned()),
        ];
        rows.iter().try_for_each(|(name, value, unit)| writeln!(f, "{name:<12}{value:>12}  {unit}"))
    }

    fn write_distributions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("ttft", self.ttft_seconds),
            ("itl", self.itl_seconds),
            ("tpot", self.tpot_seconds),
            ("e2e", self.e2e_seconds),
        ];
        if rows.iter().all(|(_, distribution)| distribution.is_none()) {
            return Ok(());
        }
        write!(f, "\n{:<8}", "ms")?;
        for column in ["mean", "p50", "p90", "p95", "p99", "max"] {
            write!(f, "{column:>10}")?;
        }
        for (name, distribution) in rows {
            let Some(d) = distribution else { continue };
            write!(f, "\n{name:<8}")?;
            for seconds in [d.mean, d.p50, d.p90, d.p95, d.p99, d.max] {
                write!(f, "{:>10.2}", seconds * 1e3)?;
            }
        }
        Ok(())
    }
}
