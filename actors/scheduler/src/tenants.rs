//! Who is served next.
//!
//! Service is shared by virtual token counters (Sheng et al. 2024, "Fairness in Serving Large Language Models"): what a
//! tenant is given counts, divided by its weight, and whoever has the least is next. A tenant that comes back is lifted to
//! the least of those who want service, so that nobody saves up. Among tenants whose counters are within one quantum of the
//! least, the request with the longest cached prefix goes first (Cao et al. 2025, "Locality-aware Fair Scheduling"), so
//! locality costs fairness at most that quantum.

mod tenant;

use alloc::collections::BTreeMap;

use troupe_protocol::{Priority, RateStatuses, RejectReason, SequenceId, TenantId, TenantPolicy};

use crate::Timestamp;
use crate::rate::Bucket;
use tenant::{Candidate, Waiting};

pub use tenant::TenantTotals;
pub(crate) use tenant::{PRECISION, Price, Tenant};

/// What a request that is not refused may find.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) free_slots: u32,
    /// Requests that may wait, of all tenants.
    pub(crate) max_queued: u32,
}

/// All tenants.
#[derive(Debug)]
pub(crate) struct Tenants {
    all: BTreeMap<TenantId, Tenant>,
    num_waiting: usize,
}

impl Tenants {
    /// Tenants appear when they first ask; those without a policy have no limits.
    pub(crate) fn new() -> Self {
        Self { all: BTreeMap::new(), num_waiting: 0 }
    }

    /// Takes over new policies. Tenants that are no longer named keep theirs until what they have is done.
    pub(crate) fn configure(&mut self, policies: &[TenantPolicy], now: Timestamp) {
        for &policy in policies {
            let tenant = self.all.entry(policy.id).or_insert_with(|| Tenant::new(policy, now));
            let renewed = |bucket: Option<Bucket>, limit: Option<core::num::NonZeroU32>| {
                limit.map(|limit| bucket.map_or(Bucket::new(limit, now), |old| old.with_limit(limit, now)))
            };
            tenant.requests = renewed(tenant.requests, policy.requests_per_minute);
            tenant.tokens = renewed(tenant.tokens, policy.tokens_per_minute);
            tenant.policy = policy;
        }
    }

    pub(crate) fn num_waiting(&self) -> usize {
        self.num_waiting
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TenantId, &Tenant)> {
        self.all.iter().map(|(id, tenant)| (*id, tenant))
    }

    pub(crate) fn of(&mut self, id: TenantId, now: Timestamp) -> &mut Tenant {
        self.all.entry(id).or_insert_with(|| Tenant::new(TenantPolicy::unlimited(id), now))
    }

    pub(crate) fn get_mut(&mut self, id: TenantId) -> Option<&mut Tenant> {
        self.all.get_mut(&id)
    }

    pub(crate) fn get(&self, id: TenantId) -> Option<&Tenant> {
        self.all.get(&id)
    }

    /// Where names of a tenant's blocks begin.
    pub(crate) fn namespace(&self, id: TenantId) -> u64 {
        self.all.get(&id).map_or(u64::from(id.0), |tenant| tenant.policy.namespace)
    }

    pub(crate) fn service(&self, id: TenantId) -> u64 {
        self.all.get(&id).map_or(0, |tenant| tenant.service)
    }

    /// Why a request is not taken, or what it leaves of the tenant's limits: it counts as taken then.
    pub(crate) fn admit(
        &mut self,
        id: TenantId,
        prompt_tokens: u32,
        room: Room,
        now: Timestamp,
    ) -> Result<RateStatuses, RejectReason> {
        let is_full = self.is_full_for(id, room);
        let tenant = self.of(id, now);
        let reason = match is_full {
            true => Some(RejectReason::QueueFull { limit: room.max_queued, rates: tenant.rates(now) }),
            false => tenant.refusal(prompt_tokens, room.free_slots, now),
        };
        if let Some(reason) = reason {
            tenant.totals.refused += 1;
            return Err(reason);
        }
        tenant.totals.accepted += 1;
        if let Some(bucket) = &mut tenant.requests {
            bucket.take(1, now);
        }
        if let Some(bucket) = &mut tenant.tokens {
            bucket.take(prompt_tokens, now);
        }
        let rates = tenant.rates(now);
        self.lift(id);
        Ok(rates)
    }

    /// Takes more of a request that was taken: so many tokens that were not counted yet.
    pub(crate) fn admit_further(&mut self, id: TenantId, tokens: u32, now: Timestamp) -> RateStatuses {
        let tenant = self.of(id, now);
        if let Some(bucket) = &mut tenant.tokens {
            bucket.take(tokens, now);
        }
        let rates = tenant.rates(now);
        self.lift(id);
        rates
    }

    /// Whether the queue of all is at its bound, and this tenant has its share of it: whoever has less is taken still, so
    /// that nobody is shut out by those who fill it.
    fn is_full_for(&self, id: TenantId, room: Room) -> bool {
        // Those who will find a free slot in the next step do not queue.
        let is_full = self.num_waiting >= room.max_queued as usize + room.free_slots as usize;
        let own = self.all.get(&id).map_or(0, Tenant::num_waiting);
        let (weight, sum) = self.weights(id);
        is_full && own as u64 >= (u64::from(room.max_queued) * weight).div_ceil(sum)
    }

    /// A tenant that had nothing begins where the least served of the others is. While nobody has anything, debts are
    /// forgotten: whoever comes first begins where the most served is, and the others when they come.
    fn lift(&mut self, id: TenantId) {
        let others = || self.all.iter().filter(|(other, _)| **other != id).map(|(_, tenant)| tenant);
        let least = others().filter(|tenant| tenant.is_active()).map(|tenant| tenant.service).min();
        let Some(begin) = least.or_else(|| others().map(|tenant| tenant.service).max()) else { return };
        if let Some(tenant) = self.all.get_mut(&id)
            && !tenant.is_active()
        {
            tenant.service = tenant.service.max(begin);
        }
    }

    /// Books tokens of a tenant.
    pub(crate) fn charge(&mut self, id: TenantId, price: Price, count: u32) {
        let Some(tenant) = self.all.get_mut(&id) else { return };
        let units = u64::from(count) * price.units() * PRECISION / u64::from(tenant.policy.weight.get());
        tenant.service += units;
        let total = match price {
            Price::Cached => &mut tenant.totals.cached_tokens,
            Price::Prefill => &mut tenant.totals.prefill_tokens,
            Price::Decode => &mut tenant.totals.decode_tokens,
        };
        *total += u64::from(count);
    }

    /// Takes back what was booked for tokens that nobody gets.
    pub(crate) fn refund(&mut self, id: TenantId, price: Price, count: u32) {
        let Some(tenant) = self.all.get_mut(&id) else { return };
        let units = u64::from(count) * price.units() * PRECISION / u64::from(tenant.policy.weight.get());
        tenant.service = tenant.service.saturating_sub(units);
        if price == Price::Decode {
            tenant.totals.decode_tokens = tenant.totals.decode_tokens.saturating_sub(u64::from(count));
        }
    }

    /// Generated tokens count against the tenant's rate as they come.
    pub(crate) fn pay_for_answer(&mut self, id: TenantId, count: u32, now: Timestamp) {
        if let Some(bucket) = self.all.get_mut(&id).and_then(|tenant| tenant.tokens.as_mut()) {
            bucket.take(count, now);
        }
    }

    /// Puts a sequence at the end of its queue, or in front, if it lost its place.
    pub(crate) fn enqueue(&mut self, id: SequenceId, ticket: Ticket, end: End) {
        let Some(tenant) = self.all.get_mut(&ticket.tenant) else { return };
        let queue = &mut tenant.queues[ticket.priority.min(tenant.policy.max_priority) as usize];
        let waiting = Waiting { id, arrived: ticket.arrived, overtaken: 0 };
        match end {
            End::Back => queue.push_back(waiting),
            End::Front => queue.push_front(waiting),
        }
        self.num_waiting += 1;
    }

    /// Takes a sequence out of its queue, if it is in one.
    pub(crate) fn dequeue(&mut self, id: SequenceId, tenant: TenantId) {
        let Some(tenant) = self.all.get_mut(&tenant) else { return };
        for queue in &mut tenant.queues {
            if let Some(at) = queue.iter().position(|waiting| waiting.id == id) {
                queue.remove(at);
                self.num_waiting -= 1;
                return;
            }
        }
    }

    /// Who goes on next, of those that `can_go_on`; `prefix` tells how many tokens of one are cached. `quantum` is
    /// service.
    pub(crate) fn next(
        &self,
        now: Timestamp,
        quantum: u64,
        can_go_on: impl Fn(SequenceId) -> bool,
        prefix: impl Fn(SequenceId) -> u32,
    ) -> Option<Next> {
        let eligible =
            self.all.iter().filter(|(_, tenant)| tenant.num_waiting() > 0 && tenant.may_run_more());
        let heads: alloc::vec::Vec<_> =
            eligible.filter_map(|(id, tenant)| Some((*id, tenant, tenant.head(now, &can_go_on)?))).collect();
        let least = heads.iter().map(|(_, tenant, _)| tenant.service).min()?;
        let within = heads.iter().filter(|(_, tenant, _)| tenant.service <= least.saturating_add(quantum));
        let candidates = within
            .map(|(id, tenant, head)| (*id, tenant.service, tenant.candidate(*head, &can_go_on, &prefix)));
        let (tenant, _, Candidate { id, class, .. }) =
            candidates.max_by_key(|(id, service, candidate)| {
                (candidate.prefix, core::cmp::Reverse(*service), core::cmp::Reverse(*id))
            })?;
        Some(Next { tenant, id, class })
    }

    /// Takes the chosen one out of its queue. Those before it were overtaken.
    pub(crate) fn start(&mut self, next: Next) {
        let Some(tenant) = self.all.get_mut(&next.tenant) else { return };
        let queue = &mut tenant.queues[next.class];
        // Those that lost their places for it stand in front of it now.
        let Some(at) = queue.iter().position(|waiting| waiting.id == next.id) else { return };
        queue.remove(at);
        queue.iter_mut().take(at).for_each(|waiting| waiting.overtaken = waiting.overtaken.saturating_add(1));
        self.num_waiting -= 1;
    }

    /// Slots that are a tenant's by its weight, of `slots`, while those that want service want it: at least one.
    pub(crate) fn fair_slots(&self, id: TenantId, slots: u32) -> u32 {
        let (own, sum) = self.weights(id);
        (u64::from(slots) * own / sum).max(1) as u32
    }

    /// The weight of a tenant, and that of it and all who want service together.
    fn weights(&self, id: TenantId) -> (u64, u64) {
        let weight = |tenant: &Tenant| u64::from(tenant.policy.weight.get());
        let own = self.all.get(&id).map_or(1, weight);
        let others = self.all.iter().filter(|(other, tenant)| **other != id && tenant.is_active());
        (own, own + others.map(|(_, tenant)| weight(tenant)).sum::<u64>())
    }

    /// All sequences that wait, for the invariant check.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = SequenceId> + '_ {
        self.all.values().flat_map(|tenant| &tenant.queues).flatten().map(|waiting| waiting.id)
    }
}

/// Where a sequence queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) tenant: TenantId,
    pub(crate) priority: Priority,
    pub(crate) arrived: Timestamp,
}

/// Which end of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Back,
    Front,
}

/// The place of the one that goes on next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) tenant: TenantId,
    pub(crate) id: SequenceId,
    class: usize,
}
