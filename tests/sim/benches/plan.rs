//! What deciding a step costs: `cargo bench -p troupe-sim --bench plan`. 256 rows run, 10,000 requests of four tenants
//! wait, and whoever ends makes place for one of them.
//!
//! The workload is played several times, with the same calls each time. What a call takes longer than in its shortest
//! play, the machine took (an interrupt, a hypervisor that gives the core to somebody else), so the 99th percentile is
//! given twice: of all calls as they were, and of each call's shortest time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use troupe_protocol::{
    EngineLimits, LengthClasses, NewSequence, RowOutcome, RowTokens, SampledToken, SequenceId, StepOutcome,
    StepPlan, TenantId, TokenId,
};
use troupe_scheduler::{Config, Effect, Effects, Event, Scheduler, Timestamp};
use troupe_sim::random::Random;
use troupe_sim::world::sequence;

const RUNNING: u32 = 256;
const WAITING: u32 = 10_000;
const TENANTS: u32 = 4;
const STEPS: usize = 4_000;
const PLAYS: usize = 5;
/// Steps after which prompts of the beginning are computed and ends are spread out.
const WARM_UP: usize = 1_000;

const LIMITS: EngineLimits = EngineLimits {
    max_model_len: 4096,
    max_num_seqs: RUNNING,
    max_num_batched_tokens: 2048,
    max_num_prompt_logprobs: 2048,
    block_size: 16,
    num_blocks: 20_000,
    num_stored_blocks: 0,
    vocab_size: 1000,
    length_classes: LengthClasses::One,
};

fn main() {
    let plays: Vec<Bench> = (0..PLAYS).map(|_| play()).collect();
    let counts = plays[0].scheduler.counts();
    println!(
        "{} run, {} wait, {} blocks hold cached prompts",
        counts.running, counts.waiting, counts.blocks.cached
    );
    let kinds: [(&str, Kind); 5] = [
        ("plan, decoding rows only", |times| &times.decode),
        ("plan, with new sequences", |times| &times.admit),
        ("step done, nobody ends", |times| &times.done),
        ("step done, some end", |times| &times.done_with_ends),
        ("arrival", |times| &times.arrive),
    ];
    for (name, kind) in kinds {
        report(name, &plays.iter().map(|play| kind(&play.times)).collect::<Vec<_>>());
    }
}

/// The whole workload, once; only steps after the warm-up are counted.
fn play() -> Bench {
    let mut bench = Bench::new();
    (0..RUNNING + WAITING).for_each(|_| bench.arrive());
    for _ in 0..WARM_UP {
        bench.step();
    }
    bench.times = Times::default();
    for _ in 0..STEPS {
        bench.step();
    }
    bench
}

fn report(name: &str, plays: &[&Vec<Duration>]) {
    let calls = plays[0].len();
    assert!(plays.iter().all(|times| times.len() == calls), "{name}: the plays differ");
    let all = plays.iter().flat_map(|times| times.iter().copied()).collect();
    let shortest = (0..calls).map(|call| plays.iter().map(|times| times[call]).min().unwrap()).collect();
    let (all, shortest) = (Sorted::new(all), Sorted::new(shortest));
    println!(
        "{name:26} median {:5.1} us   p99 {:5.1} us   p99 of each call's shortest of {PLAYS} {:5.1} us   ({calls} calls)",
        all.micros(50),
        all.micros(99),
        shortest.micros(99),
    );
}

struct Sorted(Vec<Duration>);

impl Sorted {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn micros(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_secs_f64() * 1e6
    }
}

/// The calls of one kind.
type Kind = fn(&Times) -> &Vec<Duration>;

/// How long calls took, by what they had to do.
#[derive(Default)]
struct Times {
    decode: Vec<Duration>,
    admit: Vec<Duration>,
    done: Vec<Duration>,
    done_with_ends: Vec<Duration>,
    arrive: Vec<Duration>,
}

struct Bench {
    scheduler: Scheduler,
    random: Random,
    prefixes: Vec<Vec<TokenId>>,
    in_flight: VecDeque<StepOutcome>,
    effects: Effects,
    now: u64,
    ids: u64,
    times: Times,
}

impl Bench {
    fn new() -> Self {
        let config = Config { max_queued: 2 * WAITING, ..Config::default() };
        let mut random = Random::new(1);
        let prefixes = (0..8).map(|_| (0..256).map(|_| random.below(LIMITS.vocab_size)).collect()).collect();
        Self {
            scheduler: Scheduler::new(config, LIMITS, &[]),
            random,
            prefixes,
            in_flight: VecDeque::new(),
            effects: Effects::new(),
            now: 0,
            ids: 0,
            times: Times::default(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.now)
    }

    fn arrive(&mut self) {
        let request = self.request();
        let start = Instant::now();
        self.scheduler.apply(Timestamp(self.now), Event::Arrived(request), &mut self.effects);
        self.times.arrive.push(start.elapsed());
    }

    /// Half of the prompts begin with one of a few prefixes, all go on with something of their own.
    fn request(&mut self) -> NewSequence {
        self.ids += 1;
        let random = &mut self.random;
        let mut prompt = Vec::new();
        if random.once_in(2) {
            prompt.extend_from_slice(&self.prefixes[random.below(8) as usize]);
        }
        prompt.extend((0..random.length(400)).map(|_| random.below(LIMITS.vocab_size)));
        let max_tokens = 50 + random.below(450);
        NewSequence {
            id: SequenceId(self.ids),
            tenant: TenantId(random.below(TENANTS)),
            prompt,
            max_tokens,
            ..sequence(self.ids, 1, max_tokens)
        }
    }

    fn step(&mut self) {
        self.now += 10_000;
        while let Some(plan) = self.plan() {
            self.in_flight.push_back(outcome(&plan));
        }
        let Some(outcome) = self.in_flight.pop_front() else { return };
        self.effects.clear();
        let start = Instant::now();
        self.scheduler.apply(Timestamp(self.now), Event::StepDone(outcome), &mut self.effects);
        let elapsed = start.elapsed();
        let ends = self.effects.iter().filter(|effect| matches!(effect, Effect::Finish { .. })).count();
        let times = if ends == 0 { &mut self.times.done } else { &mut self.times.done_with_ends };
        times.push(elapsed);
        (0..ends).for_each(|_| self.arrive());
    }

    fn plan(&mut self) -> Option<StepPlan> {
        let now = self.now();
        self.effects.clear();
        let start = Instant::now();
        let plan = self.scheduler.plan(now, &mut self.effects);
        let elapsed = start.elapsed();
        let decodes = plan.as_ref()?.rows.iter().all(|row| row.tokens.count() == 1);
        let times =
            if decodes && self.effects.is_empty() { &mut self.times.decode } else { &mut self.times.admit };
        times.push(elapsed);
        plan
    }
}

/// Tokens that depend on nothing but the row, so that the executor costs nothing.
fn outcome(plan: &StepPlan) -> StepOutcome {
    let sampled = plan.rows.iter().filter(|row| row.output.samples());
    let rows = sampled.map(|row| {
        let last = match &row.tokens {
            RowTokens::Prompt(tokens) => tokens.last().copied().unwrap_or_default(),
            RowTokens::Sampled(_) => row.start,
        };
        RowOutcome {
            sequence: row.sequence,
            token: SampledToken { id: last % LIMITS.vocab_size, logprobs: None },
            mu: None,
        }
    });
    StepOutcome { step: plan.step, rows: rows.collect(), prompts: Vec::new(), unsaved: Vec::new() }
}
