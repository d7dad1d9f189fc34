//! Tenants: who is served, and how much of the machine is theirs.

use core::num::NonZeroU32;

use crate::TenantId;

/// How urgent a sequence is among those of its tenant. Waiting lifts it, so that none waits for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Whenever there is room.
    Batch,
    /// As it comes.
    #[default]
    Normal,
    /// Somebody waits for it.
    Interactive,
}

impl Priority {
    /// All, least urgent first.
    pub const ALL: [Self; 3] = [Self::Batch, Self::Normal, Self::Interactive];

    /// As it is written in a configuration and in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Normal => "normal",
            Self::Interactive => "interactive",
        }
    }

    /// The priority of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == name)
    }
}

/// A tenant's share and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantPolicy {
    /// Whose.
    pub id: TenantId,
    /// Where names of its blocks begin; the same after a restart.
    pub namespace: u64,
    /// Share of the machine beside other tenants that want it.
    pub weight: NonZeroU32,
    /// Sequences that run at once.
    pub max_running: Option<NonZeroU32>,
    /// Sequences that wait.
    pub max_queued: Option<u32>,
    /// Requests that are taken in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens of prompts and answers in a minute.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// More urgent requests are treated as this.
    pub max_priority: Priority,
}

impl TenantPolicy {
    /// The largest weight. Service is counted in fractions that stay exact up to it.
    pub const MAX_WEIGHT: u32 = 1000;

    /// A tenant of weight one without limits.
    pub const fn unlimited(id: TenantId) -> Self {
        Self {
            id,
            namespace: id.0 as u64,
            weight: NonZeroU32::MIN,
            max_running: None,
            max_queued: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            max_priority: Priority::Interactive,
        }
    }
}

/// What a rate limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
}

impl core::fmt::Display for Rate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
        })
    }
}

/// Where a tenant stands with one of its rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// In a minute.
    pub limit: u32,
    /// That could be taken now.
    pub remaining: u32,
    /// Microseconds until all of `limit` could be taken.
    pub reset: u64,
}

/// Where a tenant stands with its rate limits; those that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateStatuses {
    /// Of requests.
    pub requests: Option<RateStatus>,
    /// Of tokens.
    pub tokens: Option<RateStatus>,
}

impl RateStatuses {
    /// What two requests leave, that were taken one after the other, whichever was first.
    pub fn least(self, other: Self) -> Self {
        let least = |one: Option<RateStatus>, other: Option<RateStatus>| {
            one.into_iter().chain(other).max_by_key(|status| status.reset)
        };
        Self { requests: least(self.requests, other.requests), tokens: least(self.tokens, other.tokens) }
    }
}
