//! What happens to a scheduler: made of one seed, fixed before the run, the same for every variant of its configuration.

use std::num::NonZeroU32;

use troupe_protocol::{
    EngineLimits, LengthClasses, NewSequence, Priority, RequestPart, SamplingParams, SequenceId, StepOutcome,
    TenantId, TenantPolicy,
};

use crate::guide::guided;
use crate::random::Random;

/// A cut of the world's time.
pub const EVENTS: usize = 120;

/// Bounds, tenants and everything that happens, in order of time.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The engine's bounds.
    pub limits: EngineLimits,
    /// The most sequences that wait.
    pub max_queued: u32,
    /// Tenants from the start.
    pub policies: Vec<TenantPolicy>,
    /// Microseconds, and what happens then.
    pub events: Vec<(u64, Action)>,
    /// Microseconds that a step takes, and that each of its tokens adds.
    pub step_time: (u64, u64),
}

/// What is wrong with what an executor answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbling {
    /// The last token is missing; or, if nothing was sampled, a prompt's log-probabilities are.
    Short,
    /// The last token is there twice.
    Long,
    /// Two tokens have changed places, or a prompt's log-probabilities are those of the tokens one further.
    Swapped,
    /// A token is of a sequence that nobody knows, or a prompt is.
    Foreign,
}

impl Garbling {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Short, Self::Long, Self::Swapped, Self::Foreign];

    /// Spoils an outcome, if it has what that takes.
    pub fn spoil(self, StepOutcome { rows, prompts, .. }: &mut StepOutcome) -> bool {
        let last = rows.last().cloned();
        match (self, last) {
            (Self::Short, None) => return prompts.pop().is_some(),
            (Self::Swapped, None) if !prompts.is_empty() => prompts[0].start += 1,
            (Self::Foreign, None) if !prompts.is_empty() => prompts[0].sequence = SequenceId(u64::MAX),
            (_, None) => return false,
            (Self::Short, _) => rows.truncate(rows.len() - 1),
            (Self::Long, Some(last)) => rows.push(last),
            (Self::Swapped, _) if rows.len() == 1 => return false,
            (Self::Swapped, _) => rows.swap(0, 1),
            (Self::Foreign, _) => rows[0].sequence = SequenceId(u64::MAX),
        }
        true
    }
}

/// Something that happens.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "most of what happens is the largest: a request arrives")]
pub enum Action {
    /// A request arrives.
    Arrive(NewSequence),
    /// A session has room for more tokens.
    Grant(SequenceId, u32),
    /// A client goes away.
    Cancel(SequenceId),
    /// All steps in flight fail.
    FailSteps,
    /// The executor is lost, and another comes.
    LoseExecutor,
    /// The executor is lost, and one with other bounds comes.
    ReplaceExecutor(EngineLimits),
    /// What the executor answers next is not what was asked.
    Garble(Garbling),
    /// A tenant's policy changes.
    Configure(TenantPolicy),
    /// The next step takes so many times as long.
    SlowStep(u64),
}

impl Workload {
    /// The workload of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let limits = limits(&mut random);
        let tenants = 1 + random.below(4);
        let policies = (1..tenants).map(|tenant| policy(TenantId(tenant), &mut random)).collect();
        let max_queued = 1 + random.below(40);
        let step_time = (1 + u64::from(random.below(5_000)), u64::from(random.below(200)));
        // Prompts begin with one of these, so that they share blocks.
        let prefixes: Vec<Vec<u32>> =
            (0..4).map(|_| (0..random.below(60)).map(|_| random.below(1000)).collect()).collect();
        let mut events = Vec::with_capacity(EVENTS);
        let (mut now, mut ids) = (0, 0);
        for _ in 0..EVENTS {
            // Bursts, pauses, and now and then a clock that jumps.
            now += match random.below(20) {
                0..10 => 0,
                10..19 => u64::from(random.below(20_000)),
                _ => u64::from(random.below(120_000_000)),
            };
            let known = |random: &mut Random| SequenceId(1 + u64::from(random.below(ids.max(1))));
            let action = match random.below(100) {
                0..45 => {
                    ids += 1;
                    Action::Arrive(request(u64::from(ids), tenants, &prefixes, &limits, &mut random))
                }
                45..75 => Action::Grant(known(&mut random), random.below(30)),
                75..88 => Action::Cancel(known(&mut random)),
                88..91 => Action::FailSteps,
                91..93 => Action::LoseExecutor,
                93..96 => Action::Configure(policy(TenantId(random.below(tenants)), &mut random)),
                _ => Action::SlowStep(1 + u64::from(random.below(100))),
            };
            events.push((now, action));
        }
        // Half of the machines are so slow that prompts have to be paced.
        let slowness = if random.once_in(2) { 20 } else { 1 };
        let step_time = (step_time.0 * slowness, step_time.1 * slowness);
        // From another generator, and in some only, so that the others stay what they were.
        if seed % 4 == 3 {
            disturb(&mut events, &mut Random::new(!seed));
        }
        if seed % 2 == 1 {
            guide(&mut events, limits.length_classes, &mut Random::new(seed.rotate_left(32)));
        }
        Self { limits, max_queued, policies, events, step_time }
    }
}

/// Makes some of the sequences guided.
fn guide(events: &mut [(u64, Action)], classes: LengthClasses, random: &mut Random) {
    let share = 1 + random.below(3);
    for (_, action) in events {
        if let Action::Arrive(request) = action
            && random.once_in(share)
        {
            *request = guided(request.clone(), classes.class_of(request.max_len()));
        }
    }
}

/// Adds what only an executor with a bug, or one on a machine with less memory than before, does.
fn disturb(events: &mut Vec<(u64, Action)>, random: &mut Random) {
    for _ in 0..random.below(8) {
        let at = random.below(events.len() as u32) as usize;
        let action = match random.below(4) {
            0 => Action::ReplaceExecutor(limits(random)),
            _ => Action::Garble(Garbling::ALL[random.below(4) as usize]),
        };
        events.insert(at, (events[at].0, action));
    }
}

fn limits(random: &mut Random) -> EngineLimits {
    let block_size = 1 << random.below(5);
    let max_num_seqs = 1 + random.below(8);
    let num_blocks = 4 + random.below(60);
    EngineLimits {
        max_model_len: (num_blocks * block_size).min(120),
        max_num_seqs,
        max_num_batched_tokens: max_num_seqs + random.below(64),
        max_num_prompt_logprobs: 1 + 2 * max_num_seqs,
        block_size,
        num_blocks,
        num_stored_blocks: if random.once_in(2) { random.below(40) } else { 0 },
        vocab_size: 1000,
        length_classes: match random.below(4) {
            0 => LengthClasses::SplitAt(30),
            1 => LengthClasses::EachBeyond(60),
            _ => LengthClasses::One,
        },
    }
}

fn policy(id: TenantId, random: &mut Random) -> TenantPolicy {
    let some = |random: &mut Random, most: u32| {
        let number = NonZeroU32::new(1 + random.below(most));
        if random.once_in(3) { number } else { None }
    };
    TenantPolicy {
        id,
        namespace: u64::from(id.0),
        weight: NonZeroU32::MIN.saturating_add(random.below(TenantPolicy::MAX_WEIGHT)),
        max_running: some(random, 4),
        max_queued: some(random, 8).map(NonZeroU32::get),
        requests_per_minute: some(random, 60),
        tokens_per_minute: some(random, 5_000),
        max_priority: Priority::ALL[random.below(3) as usize],
    }
}

fn request(
    id: u64,
    tenants: u32,
    prefixes: &[Vec<u32>],
    limits: &EngineLimits,
    random: &mut Random,
) -> NewSequence {
    let mut prompt = prefixes[random.below(prefixes.len() as u32) as usize].clone();
    prompt.truncate(random.below(80) as usize);
    prompt.extend((0..random.length(60)).map(|_| random.below(1000)));
    // Now and then more than there can be.
    if !random.once_in(20) {
        prompt.truncate(limits.max_model_len as usize / 2 + 1);
    }
    NewSequence {
        id: SequenceId(id),
        tenant: TenantId(random.below(tenants)),
        part: RequestPart::First,
        prompt,
        sampling: SamplingParams {
            // Not drawn, so that the seeds of before have the workloads of before.
            prompt_logprobs: id.is_multiple_of(5).then_some(0),
            ..SamplingParams::greedy()
        },
        max_tokens: random.length(60),
        stop_tokens: vec![random.below(1000), random.below(1000)],
        credit: 1 + random.below(32),
        priority: Priority::ALL[random.below(3) as usize],
        timeout: random.once_in(8).then(|| u64::from(random.below(3_000_000))),
        cache_salt: u64::from(random.below(2)),
        mask: None,
    }
}
