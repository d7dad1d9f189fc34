//! How prompts and streams share steps, on a machine whose steps take what a model of them says.

use std::collections::VecDeque;

use troupe_protocol::{EngineLimits, LengthClasses, RowTokens, SequenceId, StepPlan, TenantId};
use troupe_scheduler::{Config, Effect, Effects, Event, Scheduler, Timestamp};
use troupe_sim::fake_gpu::FakeGpu;
use troupe_sim::world::sequence;

const LIMITS: EngineLimits = EngineLimits {
    max_model_len: 8192,
    max_num_seqs: 16,
    max_num_batched_tokens: 256,
    max_num_prompt_logprobs: 256,
    block_size: 32,
    num_blocks: 1024,
    num_stored_blocks: 0,
    vocab_size: 1000,
    length_classes: LengthClasses::One,
};

/// The long prompt, and one of its tokens that is generated.
const LONG: (u64, u32) = (100, 6_000);

/// A machine, and when each token of each sequence was there.
struct Machine {
    scheduler: Scheduler,
    gpu: FakeGpu,
    /// When each step in flight is done.
    done_at: VecDeque<u64>,
    now: u64,
    tokens: Vec<(SequenceId, u64)>,
}

impl Machine {
    fn new(config: Config) -> Self {
        let (scheduler, gpu) = (Scheduler::new(config, LIMITS, &[]), FakeGpu::new(LIMITS));
        Self { scheduler, gpu, done_at: VecDeque::new(), now: 0, tokens: Vec::new() }
    }

    fn arrive(&mut self, tenant: u32, id: u64, prompt_tokens: u32, max_tokens: u32) {
        let tenant = TenantId(tenant);
        let request = troupe_protocol::NewSequence {
            tenant,
            credit: 10_000,
            ..sequence(id, prompt_tokens, max_tokens)
        };
        self.scheduler.apply(Timestamp(self.now), Event::Arrived(request), &mut Effects::new());
    }

    /// Steps until one more token is there of `id`, and answers when.
    fn run_to_token_of(&mut self, id: u64) -> u64 {
        let known = self.tokens.len();
        for _ in 0..20_000 {
            self.step();
            let new = self.tokens[known..].iter().find(|(other, _)| other.0 == id);
            if let Some(&(_, at)) = new {
                return at;
            }
        }
        panic!("no token of {id}");
    }

    fn step(&mut self) {
        let mut effects = Effects::new();
        while let Some(plan) = self.scheduler.plan(Timestamp(self.now), &mut effects) {
            let start = self.done_at.back().copied().unwrap_or(0).max(self.now);
            self.done_at.push_back(start + step_micros(&plan));
            self.gpu.submit(plan);
        }
        self.now = self.done_at.pop_front().expect("a step is in flight");
        let outcome = self.gpu.finish();
        self.scheduler.apply(Timestamp(self.now), Event::StepDone(outcome), &mut effects);
        for effect in effects {
            if let Effect::Deliver { sequence, .. } = effect {
                self.tokens.push((sequence, self.now));
            }
        }
    }

    /// The 95th percentile of the gaps between tokens of a sequence from a time on.
    fn gap(&self, id: u64, since: u64) -> u64 {
        let gaps = self.gaps(id, since);
        gaps[gaps.len() * 95 / 100]
    }

    fn longest_gap(&self, id: u64, since: u64) -> u64 {
        self.gaps(id, since).pop().unwrap_or(0)
    }

    /// Ascending.
    fn gaps(&self, id: u64, since: u64) -> Vec<u64> {
        let times = self.tokens.iter().filter(|(other, at)| other.0 == id && *at >= since);
        let times: Vec<u64> = times.map(|&(_, at)| at).collect();
        let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        gaps
    }
}

/// As the CPU engine with a model of 135 million parameters: a token of a prompt costs more the more stand before it.
fn step_micros(plan: &StepPlan) -> u64 {
    let row = |row: &troupe_protocol::Row| match &row.tokens {
        RowTokens::Prompt(tokens) if tokens.len() > 1 => {
            (0..tokens.len() as u64).map(|at| 400 + (u64::from(row.start) + at) * 6 / 10).sum()
        }
        RowTokens::Prompt(_) | RowTokens::Sampled(_) => 1_200,
    };
    2_500 + plan.rows.iter().map(row).sum::<u64>()
}

fn with_streams(config: Config) -> Machine {
    let mut machine = Machine::new(config);
    (1..=8).for_each(|id| machine.arrive(0, id, 40, 4_000));
    for _ in 0..100 {
        machine.step();
    }
    machine
}

#[test]
fn a_long_prompt_and_streams_leave_each_other_their_part() {
    let mut alone = Machine::new(Config::default());
    alone.arrive(0, LONG.0, LONG.1, 1);
    let alone = alone.run_to_token_of(LONG.0);

    let mut beside = with_streams(Config::default());
    let (arrived, before) = (beside.now, beside.gap(1, 200_000));
    beside.arrive(0, LONG.0, LONG.1, 1);
    let ttft = beside.run_to_token_of(LONG.0) - arrived;
    let during = beside.gap(1, arrived);
    let most = u64::from(100 + Config::default().step_growth);
    assert!(100 * during < before * (most + 20), "gaps grow from {before} to {during} us");
    assert!(2 * ttft < 3 * alone, "{alone} us alone, {ttft} us beside streams");

    let even = Config { long_prompt_share: 0, ..Config::default() };
    let mut even = with_streams(even);
    let arrived = even.now;
    even.arrive(0, LONG.0, LONG.1, 1);
    let slower = even.run_to_token_of(LONG.0) - arrived;
    assert!(even.longest_gap(1, arrived) < 3 * before, "no step is for the prompt alone");
    assert!(4 * slower > 5 * ttft, "{slower} us with paced steps alone, {ttft} us with some whole ones");

    let unpaced = Config { step_growth: u32::MAX, ..Config::default() };
    let mut unpaced = with_streams(unpaced);
    let arrived = unpaced.now;
    unpaced.arrive(0, LONG.0, LONG.1, 1);
    unpaced.run_to_token_of(LONG.0);
    assert!(unpaced.gap(1, arrived) > 10 * before, "nothing to spare the streams from");
}
#[test]
fn a_tenant_that_had_less_does_not_wait_for_the_pace() {
    let mut machine = Machine::new(Config::default());
    // Prompts of the flooding tenant all the time, so that no full step is left over.
    (1..=100).for_each(|id| machine.arrive(1, id, 200, 20));
    for _ in 0..100 {
        machine.step();
    }
    machine.arrive(2, LONG.0, 150, 4);
    let in_flight = machine.done_at.len();
    assert_eq!(in_flight, 1, "one step is computed, and the next is planned when it is done");
    let known = machine.tokens.len();
    // The one in flight, the one that is planned before its outcome is known, and the newcomer's.
    (0..in_flight + 2).for_each(|_| machine.step());
    assert!(
        machine.tokens[known..].iter().any(|(id, _)| id.0 == LONG.0),
        "the whole prompt is in the first step that can have it"
    );
}
