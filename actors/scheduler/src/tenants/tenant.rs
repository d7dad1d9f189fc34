//! One tenant: its queues, its limits, and what it was given.

use alloc::collections::VecDeque;

use troupe_protocol::{Priority, Rate, RateStatuses, RejectReason, SequenceId, TenantPolicy};

use crate::Timestamp;
use crate::rate::Bucket;

/// What one token costs. A decoded token takes a row of its own and twice the work in the paper's measure; what the cache
/// holds costs next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Price {
    Cached,
    Prefill,
    Decode,
}

impl Price {
    pub(crate) const fn units(self) -> u64 {
        match self {
            Self::Cached => 1,
            Self::Prefill => 8,
            Self::Decode => 16,
        }
    }
}

/// Units of service of weight one: every weight up to [`TenantPolicy::MAX_WEIGHT`] divides them to better than a part in
/// a thousand.
pub(crate) const PRECISION: u64 = 1_000_000;

/// Waiting this long lifts a request by one priority.
pub(crate) const AGEING: u64 = 15_000_000;

/// Requests of one queue among which the longest cached prefix is looked for.
const LOOK_AHEAD: usize = 8;

/// Times that a request may be overtaken by one behind it for a longer cached prefix.
const MOST_OVERTAKEN: u8 = 8;

#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) policy: TenantPolicy,
    /// Virtual counter.
    pub(crate) service: u64,
    /// Waiting sequences by priority, first come first; preempted ones in front.
    pub(super) queues: [VecDeque<Waiting>; Priority::ALL.len()],
    pub(crate) num_running: u32,
    pub(super) requests: Option<Bucket>,
    pub(super) tokens: Option<Bucket>,
    pub(crate) totals: TenantTotals,
}

/// A place in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) id: SequenceId,
    pub(super) arrived: Timestamp,
    pub(super) overtaken: u8,
}

/// What a tenant was given since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantTotals {
    /// Requests taken.
    pub accepted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Prompt tokens computed.
    pub prefill_tokens: u64,
    /// Prompt tokens found in the cache.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub decode_tokens: u64,
    /// Times that a sequence lost its place.
    pub preemptions: u64,
}

impl Tenant {
    pub(super) fn new(policy: TenantPolicy, now: Timestamp) -> Self {
        Self {
            policy,
            service: 0,
            queues: Default::default(),
            num_running: 0,
            requests: policy.requests_per_minute.map(|limit| Bucket::new(limit, now)),
            tokens: policy.tokens_per_minute.map(|limit| Bucket::new(limit, now)),
            totals: TenantTotals::default(),
        }
    }

    pub(crate) fn num_waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Whether it has anything that wants service.
    pub(super) fn is_active(&self) -> bool {
        self.num_running > 0 || self.num_waiting() > 0
    }

    pub(super) fn may_run_more(&self) -> bool {
        self.policy.max_running.is_none_or(|most| self.num_running < most.get())
    }

    pub(crate) fn rates(&mut self, now: Timestamp) -> RateStatuses {
        RateStatuses {
            requests: self.requests.as_mut().map(|bucket| bucket.status(now)),
            tokens: self.tokens.as_mut().map(|bucket| bucket.status(now)),
        }
    }

    /// Why a prompt of so many tokens is not taken now, by the tenant's own limits.
    pub(super) fn refusal(
        &mut self,
        prompt_tokens: u32,
        free_slots: u32,
        now: Timestamp,
    ) -> Option<RejectReason> {
        let asked =
            [(Rate::Requests, &mut self.requests, 1), (Rate::Tokens, &mut self.tokens, prompt_tokens)];
        let waits = asked.into_iter().filter_map(|(rate, bucket, count)| {
            let bucket = bucket.as_mut()?;
            Some((bucket.wait_for(count, now), rate, bucket.limit()))
        });
        let longest = waits.filter(|(wait, ..)| *wait > 0).max_by_key(|(wait, ..)| *wait);
        let rates = self.rates(now);
        if let Some(limit) = self.policy.max_queued {
            // Those who will find a slot in the next step do not queue.
            let allowed =
                self.policy.max_running.map_or(u32::MAX, |most| most.get().saturating_sub(self.num_running));
            if self.num_waiting() >= limit as usize + free_slots.min(allowed) as usize {
                let retry_after = longest.map_or(0, |(wait, ..)| wait);
                return Some(RejectReason::TenantQueueFull { limit, retry_after, rates });
            }
        }
        let (retry_after, rate, per_minute) = longest?;
        Some(RejectReason::RateLimited { rate, per_minute, retry_after, rates })
    }

    /// Where the first stands that `can_go_on`, by priority with ageing, then by arrival: its class and its place there.
    pub(super) fn head(
        &self,
        now: Timestamp,
        can_go_on: &impl Fn(SequenceId) -> bool,
    ) -> Option<(usize, usize)> {
        let head = |class: usize| {
            let queue = &self.queues[class];
            let at = queue.iter().position(|waiting| can_go_on(waiting.id))?;
            let waited = now.0.saturating_sub(queue[at].arrived.0);
            let urgency = class as u64 + waited / AGEING;
            Some((urgency, core::cmp::Reverse(queue[at].arrived), class, at))
        };
        let (_, _, class, first) = (0..self.queues.len()).filter_map(head).max()?;
        Some((class, first))
    }

    /// Who goes on, of those at `head` and behind it that `can_go_on`: by `prefix`, then by arrival.
    pub(super) fn candidate(
        &self,
        (class, first): (usize, usize),
        can_go_on: &impl Fn(SequenceId) -> bool,
        prefix: &impl Fn(SequenceId) -> u32,
    ) -> Candidate {
        let queue = &self.queues[class];
        let mut best = Candidate { class, id: queue[first].id, prefix: prefix(queue[first].id) };
        if queue[first].overtaken < MOST_OVERTAKEN {
            for waiting in queue.iter().skip(first + 1).take(LOOK_AHEAD - 1) {
                if can_go_on(waiting.id) && prefix(waiting.id) > best.prefix {
                    best = Candidate { class, id: waiting.id, prefix: prefix(waiting.id) };
                }
            }
        }
        best
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) class: usize,
    pub(super) id: SequenceId,
    pub(super) prefix: u32,
}
