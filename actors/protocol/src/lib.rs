//! What may cross a thread, and one day a process: ids, requests, steps, limits and errors.
//!
//! Everything here is plain owned data. No tensor, handle, lock, channel or closure belongs in this
//! crate, and nothing here does work beyond checking and describing itself.
#![no_std]

extern crate alloc;

pub mod error;
pub mod gpu;
pub mod ids;
pub mod limits;
pub mod mask;
pub mod random;
pub mod sampling;
pub mod sequence;
pub mod step;
pub mod tenant;

pub use error::{Fault, InvalidParameter, RejectReason};
pub use gpu::{
    Activations, CpuAffinity, CpuOptions, DeviceChoice, EngineInfo, GpuCommand, GpuEvent, GpuStats,
    KvCacheDtype, LoadRequest, StoreRequest, StoredBlock, WeightDtype,
};
pub use ids::{BlockId, BlockName, SequenceId, SlotId, StepId, StoreId, TenantId, TokenId};
pub use limits::{EngineLimits, LengthClasses, StepDefaults};
pub use mask::TokenMask;
pub use sampling::SamplingParams;
pub use sequence::{
    FinishReason, NewSequence, RequestPart, SampledToken, SequenceEvent, TokenLogprobs, Usage,
};
pub use step::{
    Binding, BlockTransfer, History, PromptLogprobs, Row, RowOutcome, RowOutput, RowTokens, StepMasks,
    StepOutcome, StepPlan,
};
pub use tenant::{Priority, Rate, RateStatus, RateStatuses, TenantPolicy};
