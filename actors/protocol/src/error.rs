//! Whose fault it was: the client's ([`InvalidParameter`]), the moment's ([`RejectReason`]) or the
//! operation's ([`Fault`]). The HTTP surface turns each into a status; nothing here knows HTTP.

use alloc::string::String;

use thiserror::Error;

use crate::{Rate, RateStatuses};

/// A request parameter that cannot be served. The client's to mend.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{param}: {reason}")]
pub struct InvalidParameter {
    /// The parameter's name as the client spells it, with dots and brackets for nesting.
    pub param: String,
    /// What is wrong with it, with the value and the bound.
    pub reason: String,
}

/// Why the scheduler did not take a sequence. Sending the same request later may succeed, except for
/// [`RejectReason::TooLong`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RejectReason {
    /// The queue is at its bound, and the tenant has its share of it.
    #[error("the queue is full ({limit} requests are waiting)")]
    QueueFull {
        /// The bound of the queue.
        limit: u32,
        /// Where the tenant stands.
        rates: RateStatuses,
    },
    /// The tenant's own queue is at its bound.
    #[error("the tenant's queue is full ({limit} requests are waiting)")]
    TenantQueueFull {
        /// The bound of the queue.
        limit: u32,
        /// Microseconds after which its rates would allow the same request. When its queue has room again, nobody knows.
        retry_after: u64,
        /// Where the tenant stands.
        rates: RateStatuses,
    },
    /// The tenant has taken what it may take in a minute.
    #[error("the tenant's limit of {per_minute} {rate} a minute is reached")]
    RateLimited {
        /// What is limited.
        rate: Rate,
        /// The limit.
        per_minute: u32,
        /// Microseconds after which the same request would be taken.
        retry_after: u64,
        /// Where the tenant stands.
        rates: RateStatuses,
    },
    /// The server finishes what it has and takes nothing new.
    #[error("the server is shutting down")]
    Draining,
    /// No model is loaded and stepping yet.
    #[error("the model is not ready")]
    NotReady,
    /// Prompt and requested tokens exceed what one sequence may hold.
    #[error(
        "prompt of {prompt_tokens} tokens and max_tokens of {max_tokens} exceed the context of {max_model_len}"
    )]
    TooLong {
        /// Length of the prompt in tokens.
        prompt_tokens: u32,
        /// Tokens asked for.
        max_tokens: u32,
        /// The most tokens that a sequence may hold.
        max_model_len: u32,
    },
    /// The prompt holds no token, so there is nothing to predict from.
    #[error("the prompt is empty")]
    EmptyPrompt,
}

/// An operation that failed through no fault of the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A model could not be loaded, or not with these options.
    #[error("{}{message}", if option.is_some() { "" } else { "cannot load the model: " })]
    Load {
        /// The cause, naming the file, tensor or option.
        message: String,
        /// The option that is to be changed, as a configuration names it; `None` if the model's files are to blame.
        option: Option<&'static str>,
    },
    /// A step did not complete.
    #[error("the engine failed in {step}: {message}")]
    Step {
        /// The failed step.
        step: crate::StepId,
        /// MLX's or the engine's message.
        message: String,
    },
    /// A step did not begin, since the block store did not give what it was to load. No sequence is the reason.
    #[error("the block store failed in {step}: {message}")]
    Store {
        /// The failed step.
        step: crate::StepId,
        /// What the store says, naming the file.
        message: String,
    },
    /// The engine came back with smaller bounds than the sequence was taken by.
    #[error(
        "the engine came back with a context of {max_model_len} tokens, too small for the prompt of {prompt_tokens} and \
         max_tokens of {max_tokens} that it had taken: the server's fault, not the request's"
    )]
    NoLongerFits {
        /// Length of the prompt in tokens.
        prompt_tokens: u32,
        /// Tokens asked for.
        max_tokens: u32,
        /// The most tokens that a sequence may hold now.
        max_model_len: u32,
    },
    /// The client's or the tenant's time was up before the end.
    #[error("the request did not finish within its timeout of {} s", *timeout as f64 / 1e6)]
    DeadlineExceeded {
        /// Microseconds from arrival.
        timeout: u64,
    },
    /// What the client wants the answer to look like became too much to follow.
    #[error("the answer cannot be held to the format that was asked for any longer: {message}")]
    Guide {
        /// What became too much.
        message: String,
    },
    /// The server ended before the sequence did.
    #[error("the server shut down before the end of this answer")]
    Shutdown,
    /// The executor's thread is gone.
    #[error("the executor stopped: {message}")]
    ExecutorLost {
        /// The panic's or the supervisor's message.
        message: String,
    },
}
