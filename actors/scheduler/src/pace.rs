//! How much of the prompts goes into a step that streams wait for.
//!
//! What steps take is learnt from the times at which they are done: of those without prompts, and what a prompt token adds.
//! From it follows how many tokens lengthen a step by no more than the wanted growth.

use alloc::collections::VecDeque;

use troupe_protocol::StepId;

use crate::event::Timestamp;

/// One in so many has no prompts, so that what it takes without them stays known.
const MEASURE_EVERY: u32 = 32;

/// Microseconds that a step may take in any case: some fifty tokens a second for each stream.
const ALWAYS_ALLOWED: u64 = 20_000;

/// Prompts always get this part of a step's budget, as far as streams leave it.
const LEAST_PART: u32 = 128;

/// Prompt tokens beside streams while nobody knows what they take.
const TRIAL: u32 = 16;

/// Numbers of rows that are told apart: those with the same binary logarithm count as equal.
const CLASSES: usize = 16;

#[derive(Debug)]
pub(crate) struct Pace {
    /// Percent by which prompts may lengthen a step.
    growth: u32,
    /// Oldest first; as many as steps are in flight.
    submitted: VecDeque<Submitted>,
    last_done: Timestamp,
    /// Microseconds of a step without prompts, by the class of its rows.
    decode: [Option<u64>; CLASSES],
    /// Nanoseconds that a prompt token adds.
    prompt_token: Option<u64>,
    /// The fewest prompt tokens beside streams: prompts get on, whatever the estimates say.
    least: u32,
    /// Steps with streams since one had no prompts.
    since_measured: u32,
}

/// A step that is being computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitted {
    pub(crate) step: StepId,
    pub(crate) at: Timestamp,
    pub(crate) decode_rows: u32,
    pub(crate) prompt_tokens: u32,
}

impl Pace {
    /// A pace that knows nothing yet, for steps of at most `budget` tokens.
    pub(crate) fn new(growth: u32, budget: u32) -> Self {
        Self {
            growth,
            least: (budget / LEAST_PART).max(1),
            submitted: VecDeque::new(),
            last_done: Timestamp::default(),
            decode: [None; CLASSES],
            prompt_token: None,
            // The second step tells what the first was measured by.
            since_measured: MEASURE_EVERY - 1,
        }
    }

    /// The most prompt tokens beside so many rows that generate.
    pub(crate) fn prompt_tokens(&self, decode_rows: u32) -> u32 {
        if decode_rows == 0 {
            return u32::MAX;
        }
        if self.since_measured >= MEASURE_EVERY {
            return 0;
        }
        self.decode[class(decode_rows)].map_or(TRIAL, |decode| self.paced(decode))
    }

    /// Microseconds of a step of so many rows without prompts, if one was seen.
    pub(crate) fn decode_time(&self, rows: u32) -> Option<u64> {
        self.decode[class(rows)]
    }

    /// Prompt tokens that make a step of `decode` microseconds as long as it may be.
    fn paced(&self, decode: u64) -> u32 {
        let Some(prompt_token) = self.prompt_token else { return TRIAL };
        let growth = decode.saturating_mul(u64::from(self.growth)) / 100;
        let time = growth.max(ALWAYS_ALLOWED.saturating_sub(decode));
        let tokens = time.saturating_mul(1000) / prompt_token.max(1);
        u32::try_from(tokens).unwrap_or(u32::MAX).max(self.least)
    }

    /// Takes note of a step before its outcome is known.
    pub(crate) fn submitted(&mut self, step: Submitted) {
        self.submitted.push_back(step);
        if step.decode_rows == 0 {
            return;
        }
        self.since_measured = if step.prompt_tokens == 0 { 0 } else { self.since_measured.saturating_add(1) };
    }

    /// Learns from a step that is done.
    pub(crate) fn step_done(&mut self, step: StepId, now: Timestamp) {
        let Some(Submitted { at, decode_rows, prompt_tokens, .. }) =
            self.submitted.pop_front_if(|oldest| oldest.step == step)
        else {
            return;
        };
        let took = now.0.saturating_sub(at.max(self.last_done).0);
        self.last_done = now;
        let decode = &mut self.decode[class(decode_rows)];
        let without = match (decode_rows, prompt_tokens, *decode) {
            (_, 0, _) => return learn(decode, took, 8),
            (0, _, _) => 0,
            (_, _, Some(decode)) => decode,
            (_, _, None) => return,
        };
        let each = took.saturating_sub(without).saturating_mul(1000) / u64::from(prompt_tokens);
        // The fewer tokens, the more of it is chance.
        learn(&mut self.prompt_token, each, (256 / u64::from(prompt_tokens)).clamp(4, 32));
    }

    /// The steps in flight will not be done.
    pub(crate) fn forget_submitted(&mut self) {
        self.submitted.clear();
    }
}

fn class(rows: u32) -> usize {
    (rows.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// Moves an estimate towards what was seen. A single step that was held up by something else moves it little, and one
/// that was as much too short moves it as much: what is chance cancels out.
fn learn(estimate: &mut Option<u64>, seen: u64, inertia: u64) {
    *estimate = Some(match *estimate {
        None => seen,
        Some(old) => old - old / inertia + seen.min(old.saturating_mul(2).max(1)) / inertia,
    });
}

#[cfg(test)]
mod tests {
    use super::{ALWAYS_ALLOWED, Pace, Submitted, TRIAL};
    use crate::event::Timestamp;
    use troupe_protocol::StepId;

    /// Steps of a machine that takes `row` and `token` microseconds for each of them. Answers the prompt tokens of each.
    fn steps(pace: &mut Pace, count: usize, rows: u32, (row, token): (u64, u64), wanted: u32) -> Vec<u32> {
        let mut now = pace.last_done.0;
        let mut steps = Vec::new();
        for _ in 0..count {
            let prompt_tokens = pace.prompt_tokens(rows).min(wanted);
            let step = StepId(now);
            pace.submitted(Submitted { step, at: Timestamp(now), decode_rows: rows, prompt_tokens });
            now += u64::from(rows) * row + u64::from(prompt_tokens) * token;
            pace.step_done(step, Timestamp(now));
            steps.push(prompt_tokens);
        }
        steps
    }

    #[test]
    fn prompts_lengthen_steps_by_no_more_than_was_wanted() {
        let mut pace = Pace::new(50, 256);
        // Eight rows of 10 ms take 80 ms: 40 ms are left for prompts, of 2 ms a token.
        let tokens = steps(&mut pace, 200, 8, (10_000, 2_000), 256);
        let paced = &tokens[20..];
        assert!(paced.iter().all(|tokens| (0..=21).contains(tokens)), "{paced:?}");
        assert!(paced.iter().filter(|&&tokens| tokens >= 19).count() > paced.len() * 9 / 10, "{paced:?}");
    }

    #[test]
    fn short_steps_may_grow_to_what_is_allowed_in_any_case() {
        let mut pace = Pace::new(1, 64);
        let tokens = steps(&mut pace, 100, 1, (4_000, 500), 256);
        let most = (ALWAYS_ALLOWED - 4_000) / 500;
        let paced: Vec<u32> = tokens[10..].iter().copied().filter(|&tokens| tokens < 256).collect();
        assert!(paced.iter().all(|&tokens| u64::from(tokens) <= most + 1), "{paced:?}");
        assert!(paced.iter().any(|&tokens| u64::from(tokens) + 1 >= most), "{paced:?}");
    }

    #[test]
    fn prompts_get_on_however_slow_they_are() {
        let mut pace = Pace::new(1, 16);
        let tokens = steps(&mut pace, 400, 8, (10_000, 10_000_000), 64);
        let without = tokens.iter().filter(|&&tokens| tokens == 0).count();
        assert!(without <= 400 / 30 + 1, "{tokens:?}");
    }

    #[test]
    fn a_step_that_was_held_up_is_not_believed() {
        let mut pace = Pace::new(100, 256);
        steps(&mut pace, 100, 8, (5_000, 1_000), 0);
        let before = pace.decode[3];
        let step = StepId(u64::MAX);
        let now = pace.last_done;
        pace.submitted(Submitted { step, at: now, decode_rows: 8, prompt_tokens: 0 });
        pace.step_done(step, Timestamp(now.0 + 60_000_000));
        let after = pace.decode[3];
        assert!(after < before.map(|micros| micros * 5 / 4), "{before:?} became {after:?}");
    }

    #[test]
    fn what_is_not_known_is_tried() {
        let mut pace = Pace::new(100, 256);
        assert_eq!(pace.prompt_tokens(0), u32::MAX, "nobody waits");
        assert_eq!(steps(&mut pace, 3, 8, (5_000, 1_000), 64), [TRIAL, 0, TRIAL]);
        assert_ne!(pace.prompt_tokens(8), TRIAL, "it is known now");
    }
}
