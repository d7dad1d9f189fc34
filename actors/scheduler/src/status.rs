//! What a person sees of the scheduler.

use alloc::vec::Vec;

use troupe_protocol::{Priority, RateStatuses, SequenceId, TenantId, TenantPolicy};

use crate::sequence::Phase;
use crate::tenants::PRECISION;
use crate::{Counts, Scheduler, TenantTotals, Timestamp};

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Sums.
    pub counts: Counts,
    /// Every tenant that was named or ever asked, by id.
    pub tenants: Vec<TenantStatus>,
    /// Every sequence, by id.
    pub sequences: Vec<SequenceStatus>,
}

/// One tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantStatus {
    /// Its share and limits.
    pub policy: TenantPolicy,
    /// What it was given, in units of an eighth of a prompt token of weight one. Differences between tenants that want
    /// service are what is kept small.
    pub service: u64,
    /// Sequences that wait.
    pub waiting: u32,
    /// Sequences that run.
    pub running: u32,
    /// Where it stands with its limits.
    pub rates: RateStatuses,
    /// What it was given since the start.
    pub totals: TenantTotals,
}

/// One sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceStatus {
    /// Which.
    pub id: SequenceId,
    /// Whose.
    pub tenant: TenantId,
    /// As it was asked for.
    pub priority: Priority,
    /// Microseconds since it arrived.
    pub age: u64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Of these, found in the cache when it started.
    pub cached_tokens: u32,
    /// Tokens generated and read.
    pub generated_tokens: u32,
    /// Where it is.
    pub phase: PhaseStatus,
}

/// Where a sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseStatus {
    /// In its tenant's queue.
    Waiting,
    /// Its known tokens are being computed.
    Prefilling {
        /// Tokens submitted so far.
        num_scheduled: u32,
        /// Blocks that it holds.
        blocks: u32,
    },
    /// It generates.
    Decoding {
        /// Blocks that it holds.
        blocks: u32,
    },
    /// It holds its place, and waits for its client to read.
    Stalled {
        /// Blocks that it holds.
        blocks: u32,
    },
}

impl Scheduler {
    /// Everything at this moment.
    pub fn status(&mut self, now: Timestamp) -> Status {
        let ids: Vec<TenantId> = self.tenants.iter().map(|(id, _)| id).collect();
        let tenants = ids.into_iter().map(|id| {
            let tenant = self.tenants.of(id, now);
            TenantStatus {
                policy: tenant.policy,
                service: tenant.service / PRECISION,
                waiting: tenant.num_waiting() as u32,
                running: tenant.num_running,
                rates: tenant.rates(now),
                totals: tenant.totals,
            }
        });
        let tenants = tenants.collect();
        let sequences = self.sequences.iter().map(|(_, sequence)| {
            let phase = match &sequence.phase {
                Phase::Waiting => PhaseStatus::Waiting,
                Phase::Running(residence) => {
                    let (blocks, num_scheduled) =
                        (residence.blocks.len() as u32, residence.num_scheduled_tokens);
                    if sequence.is_stalled() {
                        PhaseStatus::Stalled { blocks }
                    } else if num_scheduled < sequence.num_known_tokens() {
                        PhaseStatus::Prefilling { num_scheduled, blocks }
                    } else {
                        PhaseStatus::Decoding { blocks }
                    }
                }
            };
            SequenceStatus {
                id: sequence.request.id,
                tenant: sequence.request.tenant,
                priority: sequence.request.priority,
                age: now.0.saturating_sub(sequence.arrived.0),
                prompt_tokens: sequence.request.prompt.len() as u32,
                cached_tokens: sequence.cached_tokens,
                generated_tokens: sequence.generated.len() as u32,
                phase,
            }
        });
        Status { counts: self.counts(), sequences: sequences.collect(), tenants }
    }
}
