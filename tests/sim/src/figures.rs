//! The figures of docs/scheduling.md, in charts and in words.

use std::fmt::Write as _;

use troupe_protocol::TenantId;

use crate::plot::{Lines, Points, Spans};
use crate::replay::{Replay, Served, Sharing, percentile, replay};
use crate::trace::{END, FLOOD, FLOODING, SECOND, STREAMS, Stream, trace};

/// The window over which service is averaged.
const WINDOW: u64 = 10 * SECOND;

/// Requests that arrive from the beginning of the flood to this time are those whose times are told: under first come, first
/// served the flood is felt until then.
const UNTIL: u64 = 240 * SECOND;

const SEED: u64 = 1;

/// The three ways in which the trace is served.
const NAMES: [&str; 3] = ["first come", "shared", "no flood"];

/// One trace, served in three ways.
#[derive(Debug)]
pub struct Figures {
    /// Without the tenant that floods.
    calm: Replay,
    fair: Replay,
    fifo: Replay,
}

impl Figures {
    /// Replays the trace in three ways.
    pub fn new() -> Self {
        let all = trace(&STREAMS, SEED);
        let others: Vec<Stream> = STREAMS.into_iter().filter(|stream| stream.tenant != FLOODING).collect();
        Self {
            calm: replay(&trace(&others, SEED), Sharing::Fair),
            fair: replay(&all, Sharing::Fair),
            fifo: replay(&all, Sharing::Fifo),
        }
    }

    /// Time of the machine that each tenant was given, over time.
    pub fn service(&self) -> String {
        let panel = |title: &'static str, replay: &Replay| {
            (title, STREAMS.map(|stream| given_over_time(replay, stream.tenant)))
        };
        let chart = Lines {
            title: "Time of the machine given to each tenant",
            x_label: "time, s",
            y_label: "machine time, %",
            x: ((END / SECOND) as f64, 30.0),
            y: (100.0, 25.0),
            shaded: ((FLOOD.0 / SECOND) as f64, (FLOOD.1 / SECOND) as f64),
            shaded_label: "requests of the flood arrive",
            names: STREAMS.map(|stream| stream.name),
            panels: vec![
                panel("First come, first served", &self.fifo),
                panel("Shared among tenants", &self.fair),
            ],
        };
        chart.svg()
    }

    /// How long requests waited for their place and for their first token.
    pub fn waiting(&self) -> String {
        let panel = |value: fn(&Served) -> u64| {
            let rows = |tenant| {
                let spans = self.all().map(|replay| quantiles(replay, tenant, value));
                spans.into_iter().flatten().map(|(from, to)| (seconds(from), seconds(to))).collect()
            };
            STREAMS.map(|stream| rows(stream.tenant)).to_vec()
        };
        let chart = Spans {
            title: "Queue time and time to first token of each tenant",
            powers: (-3, 2),
            panels: [
                ("queue time, s", panel(|served| served.queue_time)),
                ("time to first token, s", panel(|served| served.ttft)),
            ],
            groups: STREAMS.map(|stream| stream.name).to_vec(),
            rows: NAMES,
            ends: ["p50", "p95"],
        };
        chart.svg()
    }

    fn all(&self) -> [&Replay; 3] {
        [&self.fifo, &self.fair, &self.calm]
    }

    /// The same in words, as a table.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| tenant | requests | | queue p50 | queue p95 | ttft p50 | ttft p95 |\n|---|---|---|---|---|---|---|\n",
        );
        for stream in STREAMS {
            for (name, replay) in NAMES.into_iter().zip(self.all()) {
                let queue = quantiles(replay, stream.tenant, |served| served.queue_time);
                let (Some(queue), Some(ttft)) =
                    (queue, quantiles(replay, stream.tenant, |served| served.ttft))
                else {
                    continue;
                };
                let count = told(replay, stream.tenant).count();
                let times = [queue.0, queue.1, ttft.0, ttft.1].map(|time| format!("{:.2} s", seconds(time)));
                let _ = writeln!(text, "| {} | {count} | {name} | {} |", stream.name, times.join(" | "));
            }
        }
        for (name, replay) in NAMES.into_iter().zip(self.all()) {
            let sum = |tenant| {
                let given = replay.given.iter().filter(|given| given.tenant == tenant);
                given.fold(0.0, |sum, given| sum + given.micros) / SECOND as f64
            };
            let given = STREAMS.map(|stream| format!("{:.1} s for {}", sum(stream.tenant), stream.name));
            let _ = writeln!(text, "{name}: time of the machine: {}", given.join(", "));
        }
        text
    }
}

impl Default for Figures {
    fn default() -> Self {
        Self::new()
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / SECOND as f64
}

/// Percent of the machine's time in windows, at their middles.
fn given_over_time(replay: &Replay, tenant: TenantId) -> Points {
    let mut sums = vec![0.0; (END / WINDOW) as usize];
    for given in replay.given.iter().filter(|given| given.tenant == tenant) {
        if let Some(sum) = sums.get_mut((given.at / WINDOW) as usize) {
            *sum += given.micros;
        }
    }
    let middle = |window: usize| (window as f64 + 0.5) * seconds(WINDOW);
    sums.iter().enumerate().map(|(at, sum)| (middle(at), 100.0 * sum / WINDOW as f64)).collect()
}

/// Requests of a tenant whose times are told.
fn told(replay: &Replay, tenant: TenantId) -> impl Iterator<Item = &Served> {
    let in_time = |served: &&Served| (FLOOD.0..UNTIL).contains(&served.arrived);
    replay.served.iter().filter(in_time).filter(move |served| served.tenant == tenant)
}

/// Median and 95th percentile, if there is anything.
fn quantiles(replay: &Replay, tenant: TenantId, value: fn(&Served) -> u64) -> Option<(u64, u64)> {
    let mut values: Vec<u64> = told(replay, tenant).map(value).collect();
    values.sort_unstable();
    (!values.is_empty()).then(|| (percentile(&values, 50), percentile(&values, 95)))
}
