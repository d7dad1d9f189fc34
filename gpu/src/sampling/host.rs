//! Rows whose tokens the host chooses, once the device has computed their logits.

use std::cell::RefCell;
use std::rc::Rc;

use mlx_sys::Array;
use troupe_protocol::TokenMask;
use troupe_sampler::{Sampler, Scratch};

use super::Chosen;
use crate::error::Result;

/// A sequence's chain. Its slot has it, and each step in flight that it has a row in: the slot may have another owner
/// before the step is read.
pub type SharedSampler = Rc<RefCell<Sampler>>;

/// The rows of one step.
#[derive(Debug)]
pub(super) struct HostRows {
    /// [H, vocabulary] f32.
    logits: Array,
    rows: Vec<HostRow>,
}

#[derive(Debug)]
pub(super) struct HostRow {
    /// Its index among all rows that are sampled.
    pub(super) index: usize,
    /// Position that the new token will take.
    pub(super) position: u32,
    /// The tokens that may be chosen, if not all may.
    pub(super) mask: Option<TokenMask>,
    pub(super) sampler: SharedSampler,
}

impl HostRows {
    /// `logits` [H, vocabulary] f32 are those of `rows`, in their order.
    pub(super) fn new(logits: Array, rows: Vec<HostRow>) -> Self {
        Self { logits, rows }
    }

    /// What has to be evaluated before [`Self::read`].
    pub(super) fn output(&self) -> &Array {
        &self.logits
    }

    /// Waits for the logits and chooses, working in `scratch`. Each with its row's index.
    pub(super) fn read(self, scratch: &mut Scratch) -> Result<Vec<(usize, Chosen)>> {
        let width = self.logits.dim(-1) as usize;
        let logits = self.logits.to_vec::<f32>()?;
        let choose = |(HostRow { index, position, mask, sampler }, logits): (HostRow, &[f32])| {
            let mut sampler = sampler.borrow_mut();
            let token = sampler.sample(logits, position, mask.as_ref().map(TokenMask::words), scratch);
            (index, Chosen { token, mu: sampler.mu() })
        };
        Ok(self.rows.into_iter().zip(logits.chunks_exact(width)).map(choose).collect())
    }
}
