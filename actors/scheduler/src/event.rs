//! What the core is told and what it answers.

use alloc::vec::Vec;

use troupe_protocol::{
    EngineLimits, Fault, FinishReason, NewSequence, RateStatuses, RejectReason, SampledToken, SequenceId,
    StepId, StepMasks, StepOutcome, StoredBlock, TenantPolicy, TokenLogprobs, TokenMask, Usage,
};

/// Microseconds since an origin that the shell chooses. Never decreases from call to call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// A fact to be booked.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "an event is moved once, into `apply`, and never kept in a collection"
)]
pub enum Event {
    /// A session asked for a sequence.
    Arrived(NewSequence),
    /// A session has room for more tokens.
    CreditGranted {
        /// Whose.
        sequence: SequenceId,
        /// How many more.
        tokens: u32,
    },
    /// A session knows what its guided sequence may say next.
    MaskGiven {
        /// Whose.
        sequence: SequenceId,
        /// Tokens that were generated before the one that the mask is for.
        generated: u32,
        /// What the next one may be.
        mask: TokenMask,
    },
    /// A session is gone or has what it wanted.
    Cancelled(SequenceId),
    /// The oldest step in flight completed.
    StepDone(StepOutcome),
    /// The oldest step in flight failed; KV contents are lost.
    StepFailed {
        /// The step.
        step: StepId,
        /// The cause.
        fault: Fault,
    },
    /// The executor is gone with all that was in flight.
    ExecutorLost,
    /// A new executor is ready.
    ExecutorReady {
        /// Its bounds.
        limits: EngineLimits,
        /// What its block store holds, least recently written first.
        stored: Vec<StoredBlock>,
    },
    /// Nothing new is to be taken.
    DrainStarted,
    /// Tenants have these shares and limits from now on; those that are not named keep theirs.
    TenantsConfigured(Vec<TenantPolicy>),
    /// Time went by: deadlines may have passed.
    TimePassed,
}

/// What the shell has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the session that its sequence was taken.
    Accept {
        /// Which.
        sequence: SequenceId,
        /// What its tenant's limits leave.
        rates: RateStatuses,
    },
    /// A sequence left the queue for the first time.
    Started {
        /// Which.
        sequence: SequenceId,
        /// Microseconds that it waited.
        queue_time: u64,
        /// Tokens of its prompt that the cache holds.
        cached_tokens: u32,
    },
    /// A sequence lost slot and blocks and waits for its replay.
    Preempted {
        /// Which.
        sequence: SequenceId,
    },
    /// Hand the masks of a step in flight to the executor, before any other step.
    GiveMasks(StepMasks),
    /// Hand log-probabilities of further tokens of its prompt to the session.
    DeliverPrompt {
        /// Whose.
        sequence: SequenceId,
        /// From the second token on, one after the other.
        logprobs: Vec<TokenLogprobs>,
    },
    /// Hand a token to the session.
    Deliver {
        /// Whose.
        sequence: SequenceId,
        /// The token.
        token: SampledToken,
    },
    /// Tell the session that its sequence ended.
    Finish {
        /// Which.
        sequence: SequenceId,
        /// Why.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
    },
    /// Tell the session that its sequence was not taken. It hears nothing else.
    Reject {
        /// Which.
        sequence: SequenceId,
        /// Why.
        reason: RejectReason,
    },
    /// Tell the session that its sequence cannot be completed.
    Fail {
        /// Which.
        sequence: SequenceId,
        /// Why.
        fault: Fault,
    },
    /// Tell the operator that the executor's answer did not fit its step. What the step computed is computed again.
    WrongOutcome {
        /// What was wrong.
        fault: Fault,
    },
}

/// Effects of a call, in order.
pub type Effects = Vec<Effect>;
