//! A workload from its first event to its end, watched by those who would notice.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use troupe_protocol::{EngineLimits, Fault};
use troupe_scheduler::{
    CacheShare, Config, DEFAULT_LONG_PROMPT_SHARE, DEFAULT_STEP_GROWTH, Effect, Effects, Event, Preemption,
    Scheduler, Timestamp,
};

use crate::canary::Canary;
use crate::fake_gpu::FakeGpu;
use crate::sessions::{MaskGrant, Sessions};
use crate::workload::{Action, Garbling, Workload};

/// Steps, masks and deadlines after the last event within which everything must have come to its end.
const HAPPENINGS_TO_END: usize = 150_000;

/// What is varied. None of it may change what a sequence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Steps submitted ahead.
    pub lookahead: usize,
    /// Who shares blocks.
    pub cache: CacheShare,
    /// When sequences lose their places.
    pub preemption: Preemption,
    /// Tokens of a step; the workload's own where there is none.
    pub budget: Option<u32>,
    /// Percent by which prompts may lengthen a step.
    pub step_growth: u32,
    /// Percent of the time that long prompts get in steps of their own.
    pub long_prompt_share: u32,
}

/// All that are run for each seed, the one that is served first.
pub const VARIANTS: [Variant; 6] = {
    let served = Variant {
        lookahead: 1,
        cache: CacheShare::Tenant,
        preemption: Preemption::ForShares,
        budget: None,
        step_growth: DEFAULT_STEP_GROWTH,
        long_prompt_share: DEFAULT_LONG_PROMPT_SHARE,
    };
    [
        served,
        Variant { lookahead: 0, step_growth: 1, long_prompt_share: 0, ..served },
        Variant { cache: CacheShare::Off, step_growth: u32::MAX, long_prompt_share: 95, ..served },
        Variant { cache: CacheShare::Server, budget: Some(64), long_prompt_share: 30, ..served },
        Variant { preemption: Preemption::ForMemory, ..served },
        Variant { budget: Some(2048), ..served },
    ]
};

impl Variant {
    /// The bounds of an engine in this variant.
    fn bound(self, limits: EngineLimits) -> EngineLimits {
        let own = limits.max_num_batched_tokens;
        let budget = self.budget.map_or(own, |budget| budget.max(limits.max_num_seqs));
        EngineLimits { max_num_batched_tokens: budget, ..limits }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that arrived.
    pub requests: u64,
    /// Steps.
    pub steps: u64,
    /// Tokens computed.
    pub tokens: u64,
    /// Tokens of prompts that were found in the cache.
    pub cached_tokens: u64,
    /// Blocks that came back from the store.
    pub blocks_loaded: u64,
    /// Masks that sessions gave.
    pub masks: u64,
    /// Sequences that lost their places.
    pub preemptions: u64,
    /// Sequences that came to their end.
    pub finished: u64,
    /// A hash of all effects, in order.
    pub history: u64,
}

/// Runs a workload.
///
/// # Panics
/// On the first violation: of an invariant, of an answer, or of the bound within which everything ends.
pub fn run(workload: &Workload, variant: Variant, canary: Option<Canary>) -> Report {
    let mut world = Simulation::new(workload, variant, canary);
    for (at, action) in &workload.events {
        world.advance_to(*at);
        world.act(action);
    }
    world.come_to_an_end();
    world.report
}

struct Simulation<'a> {
    workload: &'a Workload,
    variant: Variant,
    limits: EngineLimits,
    scheduler: Scheduler,
    gpu: FakeGpu,
    /// When each step in flight is done.
    done_at: VecDeque<u64>,
    sessions: Sessions,
    /// Masks on their way to the core, by when they come there and the order in which they were sent.
    masks: BTreeMap<(u64, u64), MaskGrant>,
    now: u64,
    slow: u64,
    /// What becomes of the next outcome.
    garbling: Option<Garbling>,
    canary: Option<Canary>,
    effects: Effects,
    report: Report,
}

impl<'a> Simulation<'a> {
    fn new(workload: &'a Workload, variant: Variant, canary: Option<Canary>) -> Self {
        let limits = variant.bound(workload.limits);
        let config = Config {
            max_queued: workload.max_queued,
            lookahead: variant.lookahead,
            cache: variant.cache,
            cache_key: 0x0123_4567_89ab_cdef,
            preemption: variant.preemption,
            step_growth: variant.step_growth,
            long_prompt_share: variant.long_prompt_share,
        };
        let mut gpu = FakeGpu::new(limits);
        gpu.full_disk = Some(7);
        let mut simulation = Self {
            workload,
            variant,
            limits,
            scheduler: Scheduler::new(config, limits, &[]),
            gpu,
            done_at: VecDeque::new(),
            sessions: Sessions::default(),
            masks: BTreeMap::new(),
            now: 0,
            slow: 1,
            garbling: None,
            canary,
            effects: Effects::new(),
            report: Report::default(),
        };
        simulation.apply(Event::TenantsConfigured(workload.policies.clone()));
        simulation
    }

    /// Time goes by: steps are done, masks come and deadlines pass, in their order.
    fn advance_to(&mut self, at: u64) {
        while self.happen_by(at) {}
        self.now = at;
        self.sessions.check_deadlines(at);
    }

    /// Submits what is due, then lets the next thing happen, if it does by `at`.
    fn happen_by(&mut self, at: u64) -> bool {
        self.submit();
        let done = self.done_at.front().filter(|_| !self.gpu.waits_for_masks());
        let step = done.map(|&done| done.max(self.now));
        let mask = self.masks.first_key_value().map(|(&(due, _), _)| due.max(self.now));
        let deadline = self.scheduler.next_deadline().map(|Timestamp(due)| due.max(self.now));
        let Some(next) = [step, mask, deadline].into_iter().flatten().min().filter(|&next| next <= at) else {
            return false;
        };
        self.now = next;
        if step == Some(next) {
            self.finish();
        } else if mask == Some(next) {
            self.give_mask();
        } else {
            self.apply(Event::TimePassed);
        }
        true
    }

    /// The mask that is due first comes to the core.
    fn give_mask(&mut self) {
        let Some((_, MaskGrant { sequence, generated, mask })) = self.masks.pop_first() else { return };
        if self.canary != Some(Canary::LostMask) {
            self.apply(Event::MaskGiven { sequence, generated, mask });
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Arrive(request) => {
                self.report.requests += 1;
                self.sessions.open(request, self.limits.length_classes, self.now);
                self.apply(Event::Arrived(request.clone()));
            }
            Action::Grant(sequence, tokens) => {
                self.sessions.grant(*sequence, *tokens);
                self.apply(Event::CreditGranted { sequence: *sequence, tokens: *tokens });
            }
            Action::Cancel(sequence) => {
                self.sessions.close(*sequence);
                self.apply(Event::Cancelled(*sequence));
            }
            Action::FailSteps => self.fail_steps(),
            Action::LoseExecutor => {
                self.lose_memory();
                self.apply(Event::ExecutorLost);
                // The store is a file or memory.
                if self.report.steps.is_multiple_of(2) {
                    self.gpu.lose_store();
                }
                self.apply(Event::ExecutorReady { limits: self.limits, stored: self.gpu.stored() });
            }
            Action::ReplaceExecutor(limits) => {
                // Of the same model.
                let length_classes = self.limits.length_classes;
                self.limits = EngineLimits { length_classes, ..self.variant.bound(*limits) };
                self.gpu.restart(self.limits);
                self.gpu.lose_store();
                self.done_at.clear();
                self.apply(Event::ExecutorLost);
                self.apply(Event::ExecutorReady { limits: self.limits, stored: vec![] });
            }
            Action::Garble(garbling) => self.garbling = Some(*garbling),
            Action::Configure(policy) => self.apply(Event::TenantsConfigured(vec![*policy])),
            Action::SlowStep(times) => self.slow = *times,
        }
    }

    /// The executor is fit for new steps before the core has heard of all that failed, so one may come in between.
    fn fail_steps(&mut self) {
        let failed = std::mem::take(&mut self.gpu.in_flight);
        if failed.is_empty() {
            return;
        }
        self.sessions.steps_failed();
        self.lose_memory();
        for outcome in failed {
            let step = outcome.step;
            self.apply(Event::StepFailed { step, fault: Fault::Step { step, message: "planted".into() } });
            self.submit();
        }
    }

    fn lose_memory(&mut self) {
        self.gpu.lose_all();
        self.done_at.clear();
    }

    fn submit(&mut self) {
        loop {
            let plan = self.scheduler.plan(Timestamp(self.now), &mut self.effects);
            self.watch();
            let Some(mut plan) = plan else { return };
            if let Some(canary) = self.canary {
                let Some(spoiled) = canary.spoil_plan(plan, self.limits.max_num_batched_tokens) else {
                    continue;
                };
                plan = spoiled;
            }
            let tokens = u64::from(self.gpu.submit(plan));
            let (base, each) = self.workload.step_time;
            let start = self.done_at.back().copied().unwrap_or(0).max(self.now);
            self.done_at.push_back(start + (base + each * tokens) * std::mem::replace(&mut self.slow, 1));
        }
    }

    fn finish(&mut self) {
        self.done_at.pop_front();
        let mut outcome = self.gpu.finish();
        self.report.steps += 1;
        match self.canary {
            Some(Canary::LostOutcome) if self.report.steps == 1 => return,
            Some(canary) => canary.spoil_outcome(&mut outcome),
            None => {}
        }
        if self.garbling.is_some_and(|garbling| garbling.spoil(&mut outcome)) {
            self.garbling = None;
            self.sessions.outcome_garbled();
        }
        self.apply(Event::StepDone(outcome));
        self.sessions.check_refusal();
    }

    fn apply(&mut self, event: Event) {
        self.scheduler.apply(Timestamp(self.now), event, &mut self.effects);
        self.watch();
    }

    fn watch(&mut self) {
        self.scheduler.check_invariants().unwrap_or_else(|violation| panic!("{violation}"));
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(canary) = self.canary {
            canary.spoil_effects(&mut effects);
        }
        for effect in effects {
            self.report.book(&effect);
            match effect {
                Effect::GiveMasks(masks) => self.gpu.give_masks(masks),
                effect => self.sessions.observe(effect, self.now),
            }
        }
        for grant in self.sessions.take_masks() {
            self.report.masks += 1;
            // Most sessions are quick, some take longer than anybody waits for.
            let number = self.report.masks;
            let delay = if number.is_multiple_of(8) { number * 37 % 9_000 } else { number * 37 % 900 };
            self.masks.insert((self.now + delay, number), grant);
        }
    }

    /// Faults are over and all clients read: what was taken must come to its end.
    fn come_to_an_end(&mut self) {
        for sequence in self.sessions.open_ids() {
            self.sessions.grant(sequence, 1_000);
            self.apply(Event::CreditGranted { sequence, tokens: 1_000 });
        }
        for _ in 0..HAPPENINGS_TO_END {
            if !self.happen_by(u64::MAX) {
                break;
            }
        }
        let counts = self.scheduler.counts();
        assert!(self.scheduler.is_idle(), "not at an end: {counts:?}");
        assert_eq!(
            counts.blocks.free + counts.blocks.cached,
            self.limits.num_blocks,
            "blocks are lost: {counts:?}"
        );
        let open = self.sessions.open_ids();
        assert!(open.is_empty(), "never heard their end: {open:?}");
        self.flush();
        self.report.tokens = self.gpu.tokens_computed;
        self.report.blocks_loaded = self.gpu.blocks_loaded;
    }
}

impl Simulation<'_> {
    /// The server ends: the store has what was used last, as much as it has room for.
    fn flush(&mut self) {
        while let Some(plan) = self.scheduler.flush() {
            self.watch();
            self.gpu.submit(plan);
            let outcome = self.gpu.finish();
            self.apply(Event::StepDone(outcome));
        }
        let counts = self.scheduler.counts();
        let most = counts.blocks.cached.min(counts.store.total);
        assert!(counts.store.used >= most, "the store was not filled: {counts:?}");
        // It may hold more: the core does not trust what a failed step saved.
        assert!(counts.store.used as usize <= self.gpu.stored().len(), "the store has not what it should");
    }
}

impl Report {
    /// Adds what came of another run.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.steps += other.steps;
        self.tokens += other.tokens;
        self.cached_tokens += other.cached_tokens;
        self.blocks_loaded += other.blocks_loaded;
        self.masks += other.masks;
        self.preemptions += other.preemptions;
        self.finished += other.finished;
    }

    fn book(&mut self, effect: &Effect) {
        match effect {
            Effect::Started { cached_tokens, .. } => self.cached_tokens += u64::from(*cached_tokens),
            Effect::Preempted { .. } => self.preemptions += 1,
            Effect::Finish { .. } => self.finished += 1,
            _ => {}
        }
        // A hash cannot fail.
        let _ = write!(Fnv(&mut self.history), "{effect:?}");
    }
}

/// A hash of what is written to it.
struct Fnv<'a>(&'a mut u64);

impl Write for Fnv<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let mixed = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        *self.0 = text.bytes().fold(*self.0, mixed);
        Ok(())
    }
}
