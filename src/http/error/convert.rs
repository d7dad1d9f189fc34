//! What other parts refuse or fail with, as errors of the surface.

use troupe_protocol::{Fault, InvalidParameter, RejectReason};

use super::ApiError;

impl From<InvalidParameter> for ApiError {
    fn from(error: InvalidParameter) -> Self {
        Self::invalid(error.param, error.reason)
    }
}

impl From<RejectReason> for ApiError {
    fn from(reason: RejectReason) -> Self {
        match reason {
            RejectReason::TooLong { prompt_tokens, max_tokens, max_model_len } => Self::ContextLength {
                part: "prompt",
                prompt: prompt_tokens.into(),
                completion: max_tokens.into(),
                limit: max_model_len,
            },
            RejectReason::EmptyPrompt => Self::invalid("prompt", "it holds no token"),
            busy => Self::Busy(busy),
        }
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Shutdown => Self::Shutdown,
            late @ Fault::DeadlineExceeded { .. } => Self::Timeout(late),
            beyond @ Fault::Guide { .. } => Self::Grammar(beyond),
            broken => Self::internal(broken.to_string()),
        }
    }
}
