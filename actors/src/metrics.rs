//! What Prometheus sees: every metric's name, kind, buckets and help text, and one line to record each.
//!
//! Names follow vLLM's, under `troupe_`, so that its dashboards need a change of prefix only. Every histogram has
//! fixed buckets and every label a small closed set of values, so memory does not grow with traffic. Nothing here
//! measures: callers bring the numbers.

use std::time::Duration;

use actix::prelude::*;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusRecorder};
use troupe_protocol::GpuStats;

use crate::scheduler::SchedulerStatus;

pub use metrics_exporter_prometheus::PrometheusHandle;

/// How often buffered observations are folded into their buckets when nobody scrapes.
const UPKEEP_PERIOD: Duration = Duration::from_secs(10);

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    /// With these upper bounds.
    Histogram(&'static [f64]),
}

const LATENCY_BUCKETS: &[f64] =
    &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0];
const ITL_BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0,
];
const BOOKKEEPING_BUCKETS: &[f64] =
    &[0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.1];
const TOKEN_BUCKETS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];

const REQUESTS_RUNNING: &str = "troupe_num_requests_running";
const REQUESTS_WAITING: &str = "troupe_num_requests_waiting";
const KV_USAGE: &str = "troupe_kv_cache_usage_perc";
const STORE_USAGE: &str = "troupe_prefix_store_usage_perc";
const STORE_SAVED: &str = "troupe_prefix_store_saved_blocks_total";
const STORE_LOADED: &str = "troupe_prefix_store_loaded_blocks_total";
const PREEMPTIONS: &str = "troupe_num_preemptions_total";
const PROMPT_TOKENS: &str = "troupe_prompt_tokens_total";
const GENERATION_TOKENS: &str = "troupe_generation_tokens_total";
const REQUEST_SUCCESS: &str = "troupe_request_success_total";
const REQUEST_FAILURE: &str = "troupe_request_failure_total";
const REQUESTS_CANCELLED: &str = "troupe_requests_cancelled_total";
const TTFT: &str = "troupe_time_to_first_token_seconds";
const ITL: &str = "troupe_inter_token_latency_seconds";
const E2E: &str = "troupe_e2e_request_latency_seconds";
const CACHED_TOKENS: &str = "troupe_prefix_cache_hit_tokens_total";
const QUEUE_TIME: &str = "troupe_request_queue_time_seconds";
const REQUEST_PROMPT: &str = "troupe_request_prompt_tokens";
const REQUEST_GENERATION: &str = "troupe_request_generation_tokens";
const STEP_TIME: &str = "troupe_step_duration_seconds";
const BOOKKEEPING: &str = "troupe_scheduler_step_seconds";
const ENGINE_ACTIVE: &str = "troupe_engine_memory_active_bytes";
const ENGINE_PEAK: &str = "troupe_engine_memory_peak_bytes";
const ENGINE_CACHE: &str = "troupe_engine_memory_cache_bytes";
const HTTP_REQUESTS: &str = "troupe_http_requests_total";
const HTTP_ACTIVE: &str = "troupe_http_requests_active";

/// All metrics, in the order of a reader's interest.
const TABLE: &[(&str, Kind, &str)] = &[
    (REQUESTS_RUNNING, Kind::Gauge, "Sequences that hold a slot of the running batch."),
    (REQUESTS_WAITING, Kind::Gauge, "Sequences that wait in the queue."),
    (KV_USAGE, Kind::Gauge, "Part of the KV blocks that sequences hold, from 0 to 1."),
    (CACHED_TOKENS, Kind::Counter, "Prompt tokens whose keys and values were found in the cache."),
    (STORE_USAGE, Kind::Gauge, "Part of the block store that holds blocks, from 0 to 1; 0 without a store."),
    (STORE_SAVED, Kind::Counter, "Blocks that went to the block store."),
    (STORE_LOADED, Kind::Counter, "Blocks that came back from the block store."),
    (PREEMPTIONS, Kind::Counter, "Sequences that gave up their KV blocks and were computed again."),
    (PROMPT_TOKENS, Kind::Counter, "Prompt tokens of the sequences that gave a token."),
    (GENERATION_TOKENS, Kind::Counter, "Tokens generated."),
    (REQUEST_SUCCESS, Kind::Counter, "Sequences that came to their end, by finished_reason."),
    (REQUEST_FAILURE, Kind::Counter, "Sequences that did not, by reason (rejected or fault)."),
    (REQUESTS_CANCELLED, Kind::Counter, "Sequences whose client went away."),
    (TTFT, Kind::Histogram(LATENCY_BUCKETS), "Time from a sequence's admission to its first token."),
    (ITL, Kind::Histogram(ITL_BUCKETS), "Time between one token of a sequence and the next."),
    (E2E, Kind::Histogram(LATENCY_BUCKETS), "Time from a sequence's admission to its end."),
    (QUEUE_TIME, Kind::Histogram(LATENCY_BUCKETS), "Time that a sequence waited for a slot."),
    (REQUEST_PROMPT, Kind::Histogram(TOKEN_BUCKETS), "Prompt tokens of a finished sequence."),
    (REQUEST_GENERATION, Kind::Histogram(TOKEN_BUCKETS), "Generated tokens of a finished sequence."),
    (STEP_TIME, Kind::Histogram(ITL_BUCKETS), "Time from a step's submission to its outcome."),
    (
        BOOKKEEPING,
        Kind::Histogram(BOOKKEEPING_BUCKETS),
        "Time that the scheduler decided and booked from one step's outcome to the next.",
    ),
    (ENGINE_ACTIVE, Kind::Gauge, "Bytes of live arrays: weights, KV blocks, and what a step computes."),
    (ENGINE_PEAK, Kind::Gauge, "The most bytes of live arrays since the model was loaded."),
    (ENGINE_CACHE, Kind::Gauge, "Bytes that the engine keeps for reuse."),
    (HTTP_REQUESTS, Kind::Counter, "HTTP requests answered, by route, method and status."),
    (HTTP_ACTIVE, Kind::Gauge, "HTTP requests whose answer is not complete."),
];

/// Makes the recorder with every bucket and help text in it.
///
/// # Errors
/// Never for the table above; the exporter's own error if it refuses a bucket list.
pub fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, kind, _) in TABLE {
        if let Kind::Histogram(buckets) = kind {
            builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
        }
    }
    Ok(builder.build_recorder())
}

/// Describes every metric to the current recorder, and makes the ones without labels visible at zero.
pub fn describe() {
    for &(name, kind, help) in TABLE {
        match kind {
            Kind::Counter => describe_counter!(name, help),
            Kind::Gauge => {
                describe_gauge!(name, help);
                gauge!(name).set(0.0);
            }
            Kind::Histogram(_) => describe_histogram!(name, help),
        }
    }
    for name in [PREEMPTIONS, PROMPT_TOKENS, GENERATION_TOKENS, REQUESTS_CANCELLED] {
        counter!(name).increment(0);
    }
}

/// Makes the recorder the process's own. Called once, by boot; the handle renders what `/metrics` answers.
///
/// # Errors
/// If a recorder is installed already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let recorder = recorder()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(BuildError::FailedToSetGlobalRecorder)?;
    describe();
    Ok(handle)
}

/// Folds observations into buckets in the background, so that a server that nobody scrapes stays small.
pub struct Upkeep(pub PrometheusHandle);

impl Actor for Upkeep {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(UPKEEP_PERIOD, |upkeep, _| upkeep.0.run_upkeep());
    }
}

/// The scheduler's state.
pub fn scheduler_gauges(status: &SchedulerStatus) {
    gauge!(REQUESTS_RUNNING).set(f64::from(status.num_running));
    gauge!(REQUESTS_WAITING).set(f64::from(status.num_waiting));
    let held = status.blocks_total.saturating_sub(status.blocks_free);
    gauge!(KV_USAGE).set(f64::from(held) / f64::from(status.blocks_total.max(1)));
    let store = status.store;
    gauge!(STORE_USAGE).set(f64::from(store.used) / f64::from(store.total.max(1)));
    counter!(STORE_SAVED).absolute(store.saved);
    counter!(STORE_LOADED).absolute(store.loaded);
}

/// The executor's memory.
pub fn engine_memory(stats: &GpuStats) {
    gauge!(ENGINE_ACTIVE).set(stats.active_bytes as f64);
    gauge!(ENGINE_PEAK).set(stats.peak_bytes as f64);
    gauge!(ENGINE_CACHE).set(stats.cache_bytes as f64);
}

/// A sequence was preempted.
pub fn preemption() {
    counter!(PREEMPTIONS).increment(1);
}

/// A sequence got its slot after this time in the queue.
pub fn queue_time(waited: Duration) {
    histogram!(QUEUE_TIME).record(waited);
}

/// A sequence started with so many tokens of its prompt found in the cache.
pub fn cached_tokens(count: u32) {
    counter!(CACHED_TOKENS).increment(u64::from(count));
}

/// A step took this long from submission to outcome.
pub fn step(took: Duration) {
    histogram!(STEP_TIME).record(took);
}

/// The scheduler's core took this long for a step and all that was booked since the one before.
pub fn bookkeeping(took: Duration) {
    histogram!(BOOKKEEPING).record(took);
}

/// A sequence's first token came this long after its admission.
pub fn first_token(prompt_tokens: u32, after: Duration) {
    counter!(PROMPT_TOKENS).increment(u64::from(prompt_tokens));
    counter!(GENERATION_TOKENS).increment(1);
    histogram!(TTFT).record(after);
}

/// A later token came this long after the one before.
pub fn next_token(after: Duration) {
    counter!(GENERATION_TOKENS).increment(1);
    histogram!(ITL).record(after);
}

/// A sequence came to its end.
pub fn finished(reason: &'static str, usage: troupe_protocol::Usage, took: Duration) {
    counter!(REQUEST_SUCCESS, "finished_reason" => reason).increment(1);
    histogram!(REQUEST_PROMPT).record(usage.prompt_tokens);
    histogram!(REQUEST_GENERATION).record(usage.completion_tokens);
    histogram!(E2E).record(took);
}

/// A sequence was rejected by the scheduler.
pub fn rejected() {
    counter!(REQUEST_FAILURE, "reason" => "rejected").increment(1);
}

/// A sequence ended in a fault.
pub fn failed() {
    counter!(REQUEST_FAILURE, "reason" => "fault").increment(1);
}

/// A sequence's client went away.
pub fn cancelled() {
    counter!(REQUESTS_CANCELLED).increment(1);
}

/// An HTTP request was answered. `route` is the pattern, never the path that a client chose.
pub fn http_request(route: &str, method: &'static str, status: u16) {
    counter!(HTTP_REQUESTS, "route" => route.to_owned(), "method" => method, "status" => status.to_string())
        .increment(1);
}

/// Counts an HTTP request as active for as long as it lives, however it ends.
#[derive(Debug)]
pub struct ActiveRequest(());

impl ActiveRequest {
    /// One more.
    pub fn begin() -> Self {
        gauge!(HTTP_ACTIVE).increment(1.0);
        Self(())
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        gauge!(HTTP_ACTIVE).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use troupe_protocol::Usage;

    fn scrape(record: impl Fn()) -> String {
        let recorder = recorder().unwrap();
        metrics::with_local_recorder(&recorder, || {
            describe();
            record();
        });
        recorder.handle().render()
    }

    #[test]
    fn every_metric_has_help_and_type() {
        let text = scrape(|| {
            scheduler_gauges(&SchedulerStatus { blocks_free: 3, blocks_total: 4, ..Default::default() });
            engine_memory(&GpuStats::default());
            preemption();
            cached_tokens(3);
            queue_time(Duration::from_millis(1));
            step(Duration::from_millis(1));
            bookkeeping(Duration::from_micros(1));
            first_token(5, Duration::from_millis(1));
            next_token(Duration::from_millis(1));
            finished("stop", Usage::default(), Duration::from_millis(1));
            rejected();
            failed();
            cancelled();
            http_request("/v1/models", "GET", 200);
        });
        for (name, kind, help) in TABLE {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram(_) => "histogram",
            };
            assert!(text.contains(&format!("# HELP {name} {help}\n")), "{name} has no help:\n{text}");
            assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} is no {kind}:\n{text}");
        }
        assert!(text.contains("troupe_kv_cache_usage_perc 0.25\n"), "{text}");
        assert!(text.contains("troupe_prompt_tokens_total 5\n"), "{text}");
        assert!(text.contains("troupe_generation_tokens_total 2\n"), "{text}");
    }

    #[test]
    fn c268_active_requests_fall_to_zero_however_they_end() {
        let text = scrape(|| {
            let abandoned = ActiveRequest::begin();
            let answered = ActiveRequest::begin();
            drop((abandoned, answered));
        });
        assert!(text.contains("troupe_http_requests_active 0\n"), "{text}");
    }

    #[test]
    fn c270_c271_a_scrape_does_not_grow_with_traffic() {
        let few = scrape(|| next_token(Duration::from_millis(3))).lines().count();
        let many = scrape(|| (0..10_000).for_each(|i| next_token(Duration::from_micros(i)))).lines().count();
        assert_eq!(few, many);
    }
}
