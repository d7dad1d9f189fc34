//! What the device keeps for each running sequence beside its KV: the last token, and what penalties look at.

use std::cell::RefCell;
use std::rc::Rc;

use mlx_sys::{Array, Dtype};
use troupe_protocol::{Binding, SamplingParams, SlotId, StepId};
use troupe_sampler::Sampler;

use crate::batch::vector;
use crate::error::{GpuError, Result};
use crate::sampling::{SharedSampler, TokenCounts};

/// Device state by slot.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Option<Slot>>,
    /// Last sampled token of each slot, [max_num_seqs] u32.
    last_tokens: Array,
    vocab_size: usize,
}

/// A bound slot.
#[derive(Debug)]
pub struct Slot {
    /// How tokens are chosen.
    pub sampling: Rc<SamplingParams>,
    /// Present if the device applies penalties.
    pub counts: Option<TokenCounts>,
    /// Present if the host chooses.
    pub sampler: Option<SharedSampler>,
    max_len: u32,
    /// The step that sampled the slot's last token.
    last_step: Option<StepId>,
}

impl Slots {
    /// `max_num_seqs` slots without owners.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn new(max_num_seqs: usize, vocab_size: usize) -> Result<Self> {
        let last_tokens = Array::zeros(&[max_num_seqs as i32], Dtype::U32)?;
        Ok(Self { slots: (0..max_num_seqs).map(|_| None).collect(), last_tokens, vocab_size })
    }

    /// Gives a slot to a sequence.
    ///
    /// # Errors
    /// A slot out of range, parameters with a token beyond the vocabulary, penalties without a history, a token of it beyond
    /// it, or an operation that MLX refuses.
    pub fn bind(&mut self, binding: &Binding) -> Result<()> {
        let refuse = |reason: String| Err(GpuError::Step(format!("{}: {reason}", binding.slot)));
        let Binding { sampling, history, .. } = binding;
        if let Err(error) = sampling.validate_tokens(self.vocab_size as u32) {
            return refuse(error.to_string());
        }
        if sampling.needs_history() && history.is_none() {
            return refuse("penalties without a history".to_owned());
        }
        let (mut counts, mut sampler) = (None, None);
        match history {
            _ if sampling.on_host() => {
                let own = Sampler::new(sampling.clone(), history.as_ref(), self.vocab_size);
                let own = own.map_err(|error| GpuError::Step(format!("{}: {error}", binding.slot)))?;
                sampler = Some(Rc::new(RefCell::new(own)));
            }
            Some(history) => counts = Some(TokenCounts::new(history, self.vocab_size)?),
            None => {}
        }
        let place = self.slots.get_mut(binding.slot.0 as usize);
        let place = place.ok_or_else(|| GpuError::Step(format!("{} is out of range", binding.slot)))?;
        *place = Some(Slot {
            sampling: Rc::new(sampling.clone()),
            counts,
            sampler,
            max_len: binding.max_len,
            last_step: None,
        });
        Ok(())
    }

    /// The owner's state.
    ///
    /// # Errors
    /// A slot without an owner.
    pub fn get(&self, slot: SlotId) -> Result<&Slot> {
        self.slots
            .get(slot.0 as usize)
            .and_then(Option::as_ref)
            .ok_or_else(|| GpuError::Step(format!("{slot} has no owner")))
    }

    /// The owner's state.
    ///
    /// # Errors
    /// A slot without an owner.
    pub fn get_mut(&mut self, slot: SlotId) -> Result<&mut Slot> {
        self.slots
            .get_mut(slot.0 as usize)
            .and_then(Option::as_mut)
            .ok_or_else(|| GpuError::Step(format!("{slot} has no owner")))
    }

    /// The most tokens that the slot's sequence may come to hold.
    ///
    /// # Errors
    /// A slot without an owner.
    pub fn max_len(&self, slot: SlotId) -> Result<u32> {
        Ok(self.get(slot)?.max_len)
    }

    /// Checks that the slot's last token is the one that `step` sampled.
    ///
    /// # Errors
    /// If it is another, or none.
    pub fn check_last_step(&self, slot: SlotId, step: StepId) -> Result<()> {
        match self.get(slot)?.last_step {
            Some(last) if last == step => Ok(()),
            Some(last) => {
                Err(GpuError::Step(format!("{slot} wants the token of {step}, but holds that of {last}")))
            }
            None => Err(GpuError::Step(format!("{slot} wants the token of {step}, but holds none"))),
        }
    }

    /// Last sampled token of each slot, [max_num_seqs] u32.
    pub fn last_tokens(&self) -> &Array {
        &self.last_tokens
    }

    /// Keeps what `step` sampled: `tokens` [S] u32 belong to `slots`.
    ///
    /// # Errors
    /// A slot without an owner, or an operation that MLX refuses.
    pub fn keep(&mut self, step: StepId, slots: &[SlotId], tokens: &Array) -> Result<()> {
        let indices: Vec<i32> = slots.iter().map(|slot| slot.0 as i32).collect();
        self.last_tokens = self.last_tokens.set_rows(&vector(&indices)?, tokens)?;
        for &slot in slots {
            self.get_mut(slot)?.last_step = Some(step);
        }
        Ok(())
    }
}
