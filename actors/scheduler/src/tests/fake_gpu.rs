//! An executor without a GPU: tokens are a hash of (sequence, position), and every row is checked
//! against what really lies in the KV blocks that it names.

use std::collections::{BTreeMap, VecDeque};

use troupe_protocol::{
    BlockId, EngineLimits, RowOutcome, RowOutput, RowTokens, SampledToken, SequenceId, SlotId, StepId,
    StepOutcome, StepPlan, TokenId,
};

pub(super) struct FakeGpu {
    limits: EngineLimits,
    /// Owner and tokens of each block, as written.
    kv: BTreeMap<BlockId, Vec<Option<Cell>>>,
    /// Last sampled token of each slot.
    last: BTreeMap<SlotId, (StepId, TokenId)>,
    bound: BTreeMap<SlotId, u32>,
    pub(super) in_flight: VecDeque<StepOutcome>,
}

/// Owner, position and token of a place in a block.
type Cell = (SequenceId, u32, TokenId);

/// The token that a sequence says at a position, whatever happens to it.
pub(super) fn token_at(sequence: SequenceId, position: u32) -> TokenId {
    let x = (sequence.0 << 32 | u64::from(position)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x >> 40) % 1000) as TokenId
}

impl FakeGpu {
    pub(super) fn new(limits: EngineLimits) -> Self {
        Self {
            limits,
            kv: BTreeMap::new(),
            last: BTreeMap::new(),
            bound: BTreeMap::new(),
            in_flight: VecDeque::new(),
        }
    }

    pub(super) fn submit(&mut self, plan: StepPlan) {
        assert!(!plan.rows.is_empty());
        let tokens: u32 = plan.rows.iter().map(|row| row.tokens.count()).sum();
        assert!(tokens <= self.limits.max_num_batched_tokens, "{tokens} tokens exceed the budget");
        for binding in &plan.bindings {
            self.bound.insert(binding.slot, binding.max_len);
            self.last.remove(&binding.slot);
        }
        let mut rows = Vec::new();
        for row in plan.rows {
            let ids = match row.tokens {
                RowTokens::Prompt(ids) => ids,
                RowTokens::Sampled(step) => {
                    let (sampled_by, token) = self.last[&row.slot];
                    assert_eq!(sampled_by, step, "{}: the slot's last token is another", row.sequence);
                    vec![token]
                }
            };
            let end = row.start + ids.len() as u32;
            assert!(end <= self.bound[&row.slot], "{}: beyond max_len", row.sequence);
            for (position, token) in (row.start..end).zip(ids) {
                self.write(
                    row.blocks[(position / self.limits.block_size) as usize],
                    row.sequence,
                    position,
                    token,
                );
            }
            for position in 0..end {
                self.check(row.blocks[(position / self.limits.block_size) as usize], row.sequence, position);
            }
            if row.output == RowOutput::Sample {
                let id = token_at(row.sequence, end);
                self.last.insert(row.slot, (plan.step, id));
                let token = SampledToken { id, logprobs: None };
                rows.push(RowOutcome { sequence: row.sequence, token });
            }
        }
        self.in_flight.push_back(StepOutcome { step: plan.step, rows });
    }

    fn write(&mut self, block: BlockId, sequence: SequenceId, position: u32, token: TokenId) {
        assert!(block.0 < self.limits.num_blocks);
        let size = self.limits.block_size as usize;
        let cells = self.kv.entry(block).or_insert_with(|| vec![None; size]);
        cells[position as usize % size] = Some((sequence, position, token));
    }

    fn check(&self, block: BlockId, sequence: SequenceId, position: u32) {
        let cell = self.kv[&block][(position % self.limits.block_size) as usize];
        let token = token_at(sequence, position);
        assert_eq!(cell, Some((sequence, position, token)), "{sequence} reads what is not its own");
    }

    /// Everything in memory is gone.
    pub(super) fn lose_all(&mut self) {
        *self = Self::new(self.limits);
    }
}
