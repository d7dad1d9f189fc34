//! How much of the prompts goes into a step that streams wait for, and when streams pause for prompts.
//!
//! What steps take is learnt from the times at which they are done: of those without prompts, and what a prompt token adds.
//! From it follows how many tokens lengthen a step by no more than the wanted growth.
//!
//! Streams pause once in [`PAUSE_EVERY`] of their tokens, for as long as it takes that long prompts get their share of the
//! time. So all but a twenty-fourth of the gaps between a stream's tokens are those of paced steps.

use alloc::collections::VecDeque;

use troupe_protocol::StepId;

use crate::Config;
use crate::event::Timestamp;

/// One in so many has no prompts, so that what it takes without them stays known.
const MEASURE_EVERY: u32 = 32;

/// Tokens of a stream between two pauses. One gap in so many is beyond what a 95th percentile tells.
const PAUSE_EVERY: u32 = 24;

/// The fewest prompt tokens that make streams pause.
const LEAST_PAUSE: u64 = 32;

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
    /// Nanoseconds that a prompt token adds to a step of streams, in which few tokens share what it takes to read the keys
    /// and values before them.
    prompt_token: Option<u64>,
    /// Nanoseconds of a prompt token in a step of prompts.
    prompt_token_alone: Option<u64>,
    /// The fewest prompt tokens beside streams: prompts get on, whatever the estimates say.
    least: u32,
    /// Steps with streams since one had no prompts.
    since_measured: u32,
    /// Percent of the time that is for long prompts.
    share: u32,
    /// Microseconds that streams owe to long prompts, up to those of one pause.
    owed: i64,
    /// Steps with streams since the last pause began.
    since_pause: u32,
    /// Whether the last step was one for which streams pause.
    is_pause: bool,
}

/// How much prompts may lengthen a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spared {
    /// By the growth that is wanted.
    Usual,
    /// By a quarter of it.
    Most,
}

/// A step that is being computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitted {
    pub(crate) step: StepId,
    pub(crate) at: Timestamp,
    pub(crate) decode_rows: u32,
    pub(crate) prompt_tokens: u32,
    /// Whether streams sit it out for prompts.
    pub(crate) is_pause: bool,
}

impl Pace {
    /// A pace that knows nothing yet, for steps of at most `budget` tokens.
    pub(crate) fn new(config: &Config, budget: u32) -> Self {
        Self {
            growth: config.step_growth,
            share: config.long_prompt_share.min(99),
            least: (budget / LEAST_PART).max(1),
            submitted: VecDeque::new(),
            last_done: Timestamp::default(),
            decode: [None; CLASSES],
            prompt_token: None,
            prompt_token_alone: None,
            // The second step tells what the first was measured by.
            since_measured: MEASURE_EVERY - 1,
            owed: 0,
            since_pause: 0,
            is_pause: false,
        }
    }

    /// The most prompt tokens beside so many rows that generate.
    pub(crate) fn prompt_tokens(&self, decode_rows: u32, spared: Spared) -> u32 {
        if decode_rows == 0 {
            return u32::MAX;
        }
        if self.since_measured >= MEASURE_EVERY {
            return 0;
        }
        self.decode[class(decode_rows)].map_or(TRIAL, |decode| self.paced(decode, spared))
    }

    /// Microseconds of a step of so many rows without prompts, if one was seen.
    pub(crate) fn decode_time(&self, rows: u32) -> Option<u64> {
        self.decode[class(rows)]
    }

    /// Prompt tokens that make a step of `decode` microseconds as long as it may be.
    fn paced(&self, decode: u64, spared: Spared) -> u32 {
        let Some(prompt_token) = self.prompt_token.or(self.prompt_token_alone) else { return TRIAL };
        let growth = match spared {
            Spared::Usual => self.growth,
            Spared::Most => self.growth / 4,
        };
        let growth = decode.saturating_mul(u64::from(growth)) / 100;
        let time = growth.max(ALWAYS_ALLOWED.saturating_sub(decode));
        let tokens = time.saturating_mul(1000) / prompt_token.max(1);
        u32::try_from(tokens).unwrap_or(u32::MAX).max(self.least)
    }

    /// Whether so many tokens of a prompt would be in more paced steps than there are between two pauses.
    pub(crate) fn is_long(&self, tokens: u32, decode_rows: u32) -> bool {
        let paced = self.decode[class(decode_rows)].map_or(TRIAL, |decode| self.paced(decode, Spared::Usual));
        // What is not known is tried beside streams.
        self.share > 0 && self.alone().is_some() && tokens > paced.saturating_mul(PAUSE_EVERY)
    }

    /// Nanoseconds of a prompt token in a step of prompts, as far as anything is known.
    fn alone(&self) -> Option<u64> {
        self.prompt_token_alone.or(self.prompt_token).map(|each| each.max(1))
    }

    /// Prompt tokens of a step for which streams pause, if it is time for one.
    pub(crate) fn pause(&self) -> Option<u32> {
        if !self.is_pause && self.since_pause + 1 < PAUSE_EVERY {
            return None;
        }
        let each = self.alone()?;
        let paid: u64 = self
            .submitted
            .iter()
            .filter(|step| step.is_pause)
            .map(|step| u64::from(step.prompt_tokens))
            .sum();
        let owed = u64::try_from(self.owed).unwrap_or(0).saturating_mul(1000);
        let tokens = (owed / each).saturating_sub(paid);
        (tokens >= LEAST_PAUSE).then(|| u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// Takes note of a step before its outcome is known.
    pub(crate) fn submitted(&mut self, step: Submitted) {
        self.submitted.push_back(step);
        if step.is_pause {
            self.since_pause = 0;
        }
        self.is_pause = step.is_pause;
        if step.decode_rows == 0 {
            return;
        }
        self.since_pause = self.since_pause.saturating_add(1);
        self.since_measured = if step.prompt_tokens == 0 { 0 } else { self.since_measured.saturating_add(1) };
    }

    /// Learns from a step that is done.
    pub(crate) fn step_done(&mut self, step: StepId, now: Timestamp) {
        let Some(step) = self.submitted.pop_front_if(|oldest| oldest.step == step) else { return };
        let took = now.0.saturating_sub(step.at.max(self.last_done).0);
        self.last_done = now;
        self.owe(&step, took);
        let prompt_tokens = u64::from(step.prompt_tokens);
        let decode = &mut self.decode[class(step.decode_rows)];
        // The fewer tokens, the more of it is chance.
        let inertia = || (256 / prompt_tokens).clamp(4, 32);
        match (step.decode_rows, prompt_tokens, *decode) {
            (_, 0, _) => learn(decode, took, 8),
            (0, ..) => {
                learn(&mut self.prompt_token_alone, took.saturating_mul(1000) / prompt_tokens, inertia())
            }
            (.., None) => {}
            (.., Some(decode)) => {
                let each = took.saturating_sub(decode).saturating_mul(1000) / prompt_tokens;
                learn(&mut self.prompt_token, each, inertia());
            }
        }
    }

    /// Books what a step of `took` microseconds adds to what streams owe, or takes from it.
    fn owe(&mut self, step: &Submitted, took: u64) {
        let took = i64::try_from(took).unwrap_or(i64::MAX);
        if step.is_pause {
            self.owed = self.owed.saturating_sub(took);
        } else if step.decode_rows > 0 {
            let share = i64::from(self.share);
            let added = took.saturating_mul(share) / (100 - share);
            // Prompts get on however slow they are.
            let least = self.alone().unwrap_or(0).saturating_mul(LEAST_PAUSE + 1) / 1000;
            let least = i64::try_from(least).unwrap_or(i64::MAX);
            let most = added.saturating_mul(i64::from(PAUSE_EVERY)).max(least);
            self.owed = self.owed.saturating_add(added).min(most.max(self.owed));
        }
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
    use super::{ALWAYS_ALLOWED, PAUSE_EVERY, Pace, Spared, Submitted, TRIAL};
    use crate::Config;
    use crate::event::Timestamp;
    use troupe_protocol::StepId;

    fn pace(step_growth: u32, budget: u32) -> Pace {
        Pace::new(&Config { step_growth, ..Config::default() }, budget)
    }

    /// Steps of a machine that takes `row` and `token` microseconds for each of them. Answers the prompt tokens of each.
    fn steps(pace: &mut Pace, count: usize, rows: u32, (row, token): (u64, u64), wanted: u32) -> Vec<u32> {
        let mut now = pace.last_done.0;
        let mut steps = Vec::new();
        for _ in 0..count {
            let prompt_tokens = pace.prompt_tokens(rows, Spared::Usual).min(wanted);
            let step = StepId(now);
            pace.submitted(Submitted {
                step,
                at: Timestamp(now),
                decode_rows: rows,
                prompt_tokens,
                is_pause: false,
            });
            now += u64::from(rows) * row + u64::from(prompt_tokens) * token;
            pace.step_done(step, Timestamp(now));
            steps.push(prompt_tokens);
        }
        steps
    }

    /// Streams of 10 ms a step beside a long prompt whose tokens take `token` microseconds: for each step whether it was
    /// a pause, and what it took.
    fn steps_beside_a_long_prompt(pace: &mut Pace, count: usize, token: u64) -> Vec<(bool, u64)> {
        let step = |pace: &mut Pace| {
            let now = pace.last_done.0;
            let pause = pace.pause();
            let (decode_rows, prompt_tokens) = pause.map_or((8, 0), |tokens| (0, tokens.min(256)));
            let took = u64::from(prompt_tokens) * token + u64::from(decode_rows) * 1_250;
            let (step, at) = (StepId(now), Timestamp(now));
            pace.submitted(Submitted { step, at, decode_rows, prompt_tokens, is_pause: pause.is_some() });
            pace.step_done(step, Timestamp(now + took));
            (pause.is_some(), took)
        };
        (0..count).map(|_| step(pace)).collect()
    }

    #[test]
    fn long_prompts_get_their_share_and_streams_pause_once_in_so_many_tokens() {
        // A token of 400 ms is more than streams owe for the tokens between two pauses.
        for token in [300, 2_000, 400_000] {
            let mut pace = pace(100, 256);
            steps(&mut pace, 4, 8, (1_250, token), 16);
            let steps = steps_beside_a_long_prompt(&mut pace, 40_000, token);
            let time = |pauses: bool| -> u64 {
                steps.iter().filter(|(pause, _)| *pause == pauses).map(|(_, took)| took).sum()
            };
            let share = time(true) * 100 / (time(true) + time(false));
            assert!((69..=73).contains(&share), "{share} % of the time, {token} us a token");
            let begins = steps.windows(2).filter(|pair| !pair[0].0 && pair[1].0).count();
            let streamed = steps.iter().filter(|(pause, _)| !pause).count();
            assert!(
                begins > 0 && streamed / begins >= PAUSE_EVERY as usize - 1,
                "{begins} pauses in {streamed} tokens"
            );
        }
    }

    #[test]
    fn a_prompt_is_long_if_paced_steps_would_be_many_and_pauses_are_allowed() {
        let mut known = pace(100, 256);
        assert!(!known.is_long(100_000, 8), "nobody knows what it takes");
        steps(&mut known, 200, 8, (1_250, 500), 256);
        // A step may have 20 tokens of 0.5 ms.
        assert!(known.is_long(600, 8), "{known:?}");
        assert!(!known.is_long(400, 8), "{known:?}");
        let config = Config { long_prompt_share: 0, ..Config::default() };
        let mut never = Pace::new(&config, 256);
        steps(&mut never, 200, 8, (1_250, 500), 256);
        assert!(!never.is_long(100_000, 8));
    }

    #[test]
    fn prompts_lengthen_steps_by_no_more_than_was_wanted() {
        let mut pace = pace(50, 256);
        // Eight rows of 10 ms take 80 ms: 40 ms are left for prompts, of 2 ms a token.
        let tokens = steps(&mut pace, 200, 8, (10_000, 2_000), 256);
        let paced = &tokens[20..];
        assert!(paced.iter().all(|tokens| (0..=21).contains(tokens)), "{paced:?}");
        assert!(paced.iter().filter(|&&tokens| tokens >= 19).count() > paced.len() * 9 / 10, "{paced:?}");
        let most_spared = pace.prompt_tokens(8, Spared::Most);
        assert!((3..=5).contains(&most_spared), "a quarter: {most_spared}");
    }

    #[test]
    fn short_steps_may_grow_to_what_is_allowed_in_any_case() {
        let mut pace = pace(1, 64);
        let tokens = steps(&mut pace, 100, 1, (4_000, 500), 256);
        let most = (ALWAYS_ALLOWED - 4_000) / 500;
        let paced: Vec<u32> = tokens[10..].iter().copied().filter(|&tokens| tokens < 256).collect();
        assert!(paced.iter().all(|&tokens| u64::from(tokens) <= most + 1), "{paced:?}");
        assert!(paced.iter().any(|&tokens| u64::from(tokens) + 1 >= most), "{paced:?}");
    }

    #[test]
    fn prompts_get_on_however_slow_they_are() {
        let mut pace = pace(1, 16);
        let tokens = steps(&mut pace, 400, 8, (10_000, 10_000_000), 64);
        let without = tokens.iter().filter(|&&tokens| tokens == 0).count();
        assert!(without <= 400 / 30 + 1, "{tokens:?}");
    }

    #[test]
    fn a_step_that_was_held_up_is_not_believed() {
        let mut pace = pace(100, 256);
        steps(&mut pace, 100, 8, (5_000, 1_000), 0);
        let before = pace.decode[3];
        let step = StepId(u64::MAX);
        let now = pace.last_done;
        pace.submitted(Submitted { step, at: now, decode_rows: 8, prompt_tokens: 0, is_pause: false });
        pace.step_done(step, Timestamp(now.0 + 60_000_000));
        let after = pace.decode[3];
        assert!(after < before.map(|micros| micros * 5 / 4), "{before:?} became {after:?}");
    }

    #[test]
    fn what_is_not_known_is_tried() {
        let mut pace = pace(100, 256);
        assert_eq!(pace.prompt_tokens(0, Spared::Usual), u32::MAX, "nobody waits");
        assert_eq!(steps(&mut pace, 3, 8, (5_000, 1_000), 64), [TRIAL, 0, TRIAL]);
        assert_ne!(pace.prompt_tokens(8, Spared::Usual), TRIAL, "it is known now");
    }
}
