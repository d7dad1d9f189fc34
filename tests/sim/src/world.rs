//! A scheduler and its executor, driven by hand: for tests of single behaviours.

use troupe_protocol::{
    EngineLimits, FinishReason, LengthClasses, NewSequence, Priority, RequestPart, SamplingParams,
    SequenceId, TenantId, TokenId,
};
use troupe_scheduler::{Config, Effect, Event, Scheduler, Timestamp};

use crate::fake_gpu::{FakeGpu, content, continuation, start};
use crate::guide::{guided_continuation, mask};

/// Small bounds, in which everything happens soon.
pub const LIMITS: EngineLimits = EngineLimits {
    max_model_len: 64,
    max_num_seqs: 4,
    max_num_batched_tokens: 16,
    max_num_prompt_logprobs: 8,
    block_size: 4,
    num_blocks: 32,
    num_stored_blocks: 0,
    vocab_size: 1000,
    length_classes: LengthClasses::One,
};

/// A prompt that shares nothing with those of other ids.
pub fn prompt(id: u64, length: u32) -> Vec<TokenId> {
    (0..length).map(|position| ((id * 7919 + u64::from(position) * 104_729) % 1000) as TokenId).collect()
}

/// A sequence of the anonymous tenant with a prompt of its own.
pub fn sequence(id: u64, prompt_tokens: u32, max_tokens: u32) -> NewSequence {
    NewSequence {
        id: SequenceId(id),
        tenant: TenantId::ANONYMOUS,
        part: RequestPart::First,
        prompt: prompt(id, prompt_tokens),
        sampling: SamplingParams::greedy(),
        max_tokens,
        stop_tokens: vec![],
        credit: 1000,
        priority: Priority::Normal,
        timeout: None,
        cache_salt: 0,
        mask: None,
    }
}

/// Scheduler, executor, and everything that was said.
#[derive(Debug)]
pub struct World {
    /// The core.
    pub scheduler: Scheduler,
    /// The executor.
    pub gpu: FakeGpu,
    /// Effects so far.
    pub effects: Vec<Effect>,
    /// Microseconds.
    pub now: u64,
    requests: Vec<NewSequence>,
}

impl World {
    /// A world with these bounds.
    pub fn new(limits: EngineLimits, config: Config) -> Self {
        let scheduler = Scheduler::new(config, limits, &[]);
        Self { scheduler, gpu: FakeGpu::new(limits), effects: Vec::new(), now: 0, requests: Vec::new() }
    }

    /// The same with a queue of so many and nothing else that is not the default.
    pub fn with_queue(limits: EngineLimits, max_queued: u32) -> Self {
        Self::new(limits, Config { max_queued, ..Config::default() })
    }

    /// Books a fact.
    pub fn apply(&mut self, event: Event) {
        if let Event::Arrived(request) = &event {
            self.requests.push(request.clone());
        }
        self.scheduler.apply(Timestamp(self.now), event, &mut self.effects);
        self.check();
    }

    /// A request arrives.
    pub fn arrive(&mut self, request: NewSequence) {
        self.apply(Event::Arrived(request));
    }

    fn check(&self) {
        self.scheduler.check_invariants().unwrap_or_else(|violation| panic!("{violation}"));
    }

    /// Submits a step, if one is due.
    pub fn submit(&mut self) -> bool {
        let before = self.effects.len();
        let plan = self.scheduler.plan(Timestamp(self.now), &mut self.effects);
        self.check();
        for effect in &self.effects[before..] {
            if let Effect::GiveMasks(masks) = effect {
                self.gpu.give_masks(masks.clone());
            }
        }
        plan.map(|plan| self.gpu.submit(plan)).is_some()
    }

    /// The oldest step in flight is done.
    pub fn finish(&mut self) {
        let outcome = self.gpu.finish();
        self.apply(Event::StepDone(outcome));
    }

    /// The session of a guided sequence says what may come after all that it heard.
    pub fn give_mask(&mut self, id: u64) {
        let generated = self.tokens(id);
        let request = self.request(id);
        let all = request.prompt.iter().chain(&generated);
        let now = all.fold(start(0), |before, &token| content(before, token));
        let sequence = SequenceId(id);
        self.apply(Event::MaskGiven { sequence, generated: generated.len() as u32, mask: mask(now) });
    }

    /// The sessions of all guided sequences do.
    pub fn give_masks(&mut self) {
        let guided = self.requests.iter().filter(|request| request.mask.is_some());
        let ids: Vec<u64> = guided.map(|request| request.id.0).collect();
        ids.into_iter().for_each(|id| self.give_mask(id));
    }

    fn request(&self, id: u64) -> &NewSequence {
        self.requests.iter().find(|request| request.id.0 == id).expect("it was asked for")
    }

    /// A step from plan to outcome.
    pub fn step(&mut self) {
        assert!(self.submit(), "no step is due");
        self.finish();
    }

    /// The server ends: what is only in KV memory goes to the store.
    pub fn flush(&mut self) {
        while let Some(plan) = self.scheduler.flush() {
            self.gpu.submit(plan);
            self.finish();
        }
    }

    /// Another process with the same store and nothing else.
    pub fn restart(&mut self, config: Config) {
        let limits = *self.scheduler.limits();
        self.gpu.lose_all();
        self.scheduler = Scheduler::new(config, limits, &self.gpu.stored());
    }

    /// Runs until nothing more can be done.
    pub fn run(&mut self) {
        for _ in 0..10_000 {
            while self.submit() {}
            if self.gpu.in_flight.is_empty() {
                return;
            }
            self.finish();
            self.give_masks();
        }
        panic!("does not come to an end");
    }

    /// Tokens that were delivered of a sequence.
    pub fn tokens(&self, id: u64) -> Vec<TokenId> {
        let tokens = self.effects.iter().filter_map(|effect| match effect {
            Effect::Deliver { sequence, token } if sequence.0 == id => Some(token.id),
            _ => None,
        });
        tokens.collect()
    }

    /// How a sequence ended.
    pub fn ends(&self, id: u64) -> Vec<&Effect> {
        let ends = self.effects.iter().filter(|effect| match effect {
            Effect::Finish { sequence, .. }
            | Effect::Reject { sequence, .. }
            | Effect::Fail { sequence, .. } => sequence.0 == id,
            _ => false,
        });
        ends.collect()
    }

    /// Tokens of a prompt that were found in the cache when its sequence started.
    pub fn cached(&self, id: u64) -> u32 {
        let started = self.effects.iter().find_map(|effect| match effect {
            Effect::Started { sequence, cached_tokens, .. } if sequence.0 == id => Some(*cached_tokens),
            _ => None,
        });
        started.expect("it started")
    }

    /// Whether a sequence said what it always says, and ended at its limit.
    ///
    /// # Panics
    /// If it did not.
    pub fn assert_complete(&self, id: u64) {
        let request = self.request(id);
        let count = request.max_tokens as usize;
        let expected = match request.mask {
            Some(_) => guided_continuation(&request.prompt, count),
            None => continuation(&request.prompt, count),
        };
        assert_eq!(self.tokens(id), expected, "sequence {id}");
        let [Effect::Finish { reason: FinishReason::Length, usage, .. }] = self.ends(id)[..] else {
            panic!("{:?}", self.ends(id))
        };
        assert_eq!(
            (usage.prompt_tokens, usage.completion_tokens),
            (request.prompt.len() as u32, request.max_tokens)
        );
    }
}
