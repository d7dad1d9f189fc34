//! A trace from its first request to the end of its last, by a clock that a model of step times moves.

use std::collections::{BTreeMap, VecDeque};

use troupe_protocol::{EngineLimits, LengthClasses, SequenceId, StepDefaults, StepPlan, TenantId};
use troupe_scheduler::{Config, Effect, Effects, Event, Scheduler, Timestamp};

use crate::fake_gpu::FakeGpu;
use crate::trace::Arrival;

/// Bounds of the CPU engine, as it is served by default.
pub const LIMITS: EngineLimits = EngineLimits {
    max_model_len: 2048,
    max_num_seqs: StepDefaults::CPU.max_num_seqs,
    max_num_batched_tokens: StepDefaults::CPU.max_num_batched_tokens,
    max_num_prompt_logprobs: StepDefaults::CPU.max_num_batched_tokens,
    block_size: 16,
    num_blocks: 2048,
    num_stored_blocks: 0,
    vocab_size: 1000,
    length_classes: LengthClasses::One,
};

/// What a step of the CPU engine takes, in microseconds: measured as 3.6 ms for one row that decodes, 11.5 ms for eight, and
/// 0.55 ms for each token of a prompt, with a model of 135 million parameters on two cores.
pub mod step_time {
    /// Whatever it holds.
    pub const STEP: u64 = 2_470;
    /// Each row that decodes.
    pub const DECODE: u64 = 1_130;
    /// Each token of a prompt.
    pub const PREFILL: u64 = 550;
}

/// Who is served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each tenant has its share.
    Fair,
    /// First come, first served: all are one tenant.
    Fifo,
}

/// How a request fared. All times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Whose.
    pub tenant: TenantId,
    /// When it came.
    pub arrived: u64,
    /// From then to its place among those that run.
    pub queue_time: u64,
    /// From its arrival to its first token.
    pub ttft: u64,
}

/// Time of the machine that a tenant was given.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// To whom.
    pub tenant: TenantId,
    /// Up to when.
    pub at: u64,
    /// How much.
    pub micros: f64,
}

/// What came of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Every request, in order of its first token.
    pub served: Vec<Served>,
    /// Every tenant's part of every step, in order of time.
    pub given: Vec<Given>,
}

/// Replays a trace.
///
/// # Panics
/// If a request does not come to its end.
pub fn replay(trace: &[Arrival], sharing: Sharing) -> Replay {
    let mut player = Player::new(sharing);
    for arrival in trace {
        player.advance_to(arrival.at);
        player.arrive(arrival);
    }
    player.advance_to(u64::MAX);
    assert!(player.scheduler.is_idle() && player.waiting.is_empty(), "a request did not come to its end");
    player.replay
}

struct Player {
    sharing: Sharing,
    scheduler: Scheduler,
    gpu: FakeGpu,
    in_flight: VecDeque<Step>,
    /// Requests whose first token is yet to come.
    waiting: BTreeMap<SequenceId, Served>,
    /// Of each request: tenant and tokens of the prompt.
    requests: BTreeMap<SequenceId, (TenantId, u32)>,
    now: u64,
    effects: Effects,
    replay: Replay,
}

/// A step that the machine computes, or will.
struct Step {
    done: u64,
    given: Vec<(TenantId, f64)>,
}

impl Player {
    fn new(sharing: Sharing) -> Self {
        let config = Config { max_queued: 100_000, ..Config::default() };
        Self {
            sharing,
            scheduler: Scheduler::new(config, LIMITS, &[]),
            gpu: FakeGpu::new(LIMITS),
            in_flight: VecDeque::new(),
            waiting: BTreeMap::new(),
            requests: BTreeMap::new(),
            now: 0,
            effects: Effects::new(),
            replay: Replay::default(),
        }
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let mut request = arrival.request.clone();
        let (id, tenant) = (request.id, request.tenant);
        self.requests.insert(id, (tenant, request.prompt.len() as u32));
        self.waiting.insert(id, Served { tenant, arrived: self.now, queue_time: 0, ttft: 0 });
        if self.sharing == Sharing::Fifo {
            request.tenant = TenantId::ANONYMOUS;
        }
        self.apply(Event::Arrived(request));
    }

    /// Steps follow each other until `at`, or until nothing is left to do.
    fn advance_to(&mut self, at: u64) {
        loop {
            self.submit();
            let Some(step) = self.in_flight.pop_front_if(|step| step.done <= at) else { break };
            self.now = step.done;
            let given =
                step.given.into_iter().map(|(tenant, micros)| Given { tenant, at: step.done, micros });
            self.replay.given.extend(given);
            let outcome = self.gpu.finish();
            self.apply(Event::StepDone(outcome));
        }
        if at != u64::MAX {
            self.now = at;
        }
    }

    fn submit(&mut self) {
        while let Some(plan) = self.scheduler.plan(Timestamp(self.now), &mut self.effects) {
            let start = self.in_flight.back().map_or(self.now, |step| step.done);
            let (duration, given) = self.cost(&plan);
            self.in_flight.push_back(Step { done: start + duration, given });
            self.gpu.submit(plan);
        }
        self.observe();
    }

    /// What a step takes, and what each tenant has of it: by the work of its rows.
    fn cost(&self, plan: &StepPlan) -> (u64, Vec<(TenantId, f64)>) {
        let mut work: BTreeMap<TenantId, u64> = BTreeMap::new();
        for row in &plan.rows {
            let (tenant, prompt_tokens) = self.requests[&row.sequence];
            let each = if row.start < prompt_tokens { step_time::PREFILL } else { step_time::DECODE };
            *work.entry(tenant).or_default() += each * u64::from(row.tokens.count());
        }
        let sum: u64 = work.values().sum();
        let duration = step_time::STEP + sum;
        let part = |work: u64| duration as f64 * work as f64 / sum as f64;
        (duration, work.into_iter().map(|(tenant, work)| (tenant, part(work))).collect())
    }

    fn apply(&mut self, event: Event) {
        self.scheduler.apply(Timestamp(self.now), event, &mut self.effects);
        self.observe();
    }

    fn observe(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Started { sequence, queue_time, .. } => {
                    self.waiting.entry(sequence).and_modify(|served| served.queue_time = queue_time);
                }
                Effect::Deliver { sequence, .. } => {
                    if let Some(mut served) = self.waiting.remove(&sequence) {
                        served.ttft = self.now - served.arrived;
                        self.replay.served.push(served);
                    }
                }
                Effect::Accept { .. }
                | Effect::Preempted { .. }
                | Effect::DeliverPrompt { .. }
                | Effect::Finish { .. } => {}
                Effect::GiveMasks(masks) => self.gpu.give_masks(masks),
                Effect::Reject { .. } | Effect::Fail { .. } | Effect::WrongOutcome { .. } => {
                    panic!("{effect:?}")
                }
            }
        }
    }
}

/// The value below which `percent` of the sorted `values` lie.
///
/// # Panics
/// If there is no value.
pub fn percentile(values: &[u64], percent: usize) -> u64 {
    values[(values.len() - 1) * percent / 100]
}
