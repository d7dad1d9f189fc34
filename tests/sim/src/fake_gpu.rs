//! An executor without a GPU. A place in a block holds a token and a hash of everything before it, as keys and values
//! depend on everything before them; what a sequence says next is a function of that hash. So a block that is not what its
//! reader thinks changes what is said, whoever wrote it, and what is said depends on nothing else.

use std::collections::{BTreeMap, VecDeque};

use troupe_protocol::{
    BlockId, EngineLimits, RowOutcome, RowOutput, RowTokens, SampledToken, SlotId, StepId, StepOutcome,
    StepPlan, TokenId,
};

/// Everything up to a token, as a number.
pub type Content = u64;

/// Before the first token.
pub const NOTHING: Content = 0x6a09_e667_f3bc_c909;

/// Content after one more token.
pub fn content(before: Content, token: TokenId) -> Content {
    let x = (before ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// What is said after this.
pub fn says(content: Content) -> TokenId {
    (content >> 40) as TokenId % 1000
}

/// The `count` tokens that follow a prompt, whatever happens on the way.
pub fn continuation(prompt: &[TokenId], count: usize) -> Vec<TokenId> {
    let mut now = prompt.iter().fold(NOTHING, |before, &token| content(before, token));
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        tokens.push(says(now));
        now = content(now, says(now));
    }
    tokens
}

/// Blocks, slots and steps in flight.
#[derive(Debug)]
pub struct FakeGpu {
    limits: EngineLimits,
    /// What was written to each place, block after block.
    kv: Vec<Option<(Content, TokenId)>>,
    /// Last sampled token of each slot.
    last: BTreeMap<SlotId, (StepId, TokenId)>,
    /// The most tokens of each slot's owner.
    bound: BTreeMap<SlotId, u32>,
    /// Outcomes of steps that were submitted, oldest first.
    pub in_flight: VecDeque<StepOutcome>,
    /// Tokens computed so far.
    pub tokens_computed: u64,
}

impl FakeGpu {
    /// An executor with these bounds and nothing in its blocks.
    pub fn new(limits: EngineLimits) -> Self {
        let kv = vec![None; (limits.num_blocks * limits.block_size) as usize];
        let (last, bound) = (BTreeMap::new(), BTreeMap::new());
        Self { limits, kv, last, bound, in_flight: VecDeque::new(), tokens_computed: 0 }
    }

    /// Computes a step; its outcome waits in `in_flight`. Answers how many tokens it had.
    ///
    /// # Panics
    /// If the plan breaks a bound, or a row's blocks do not hold one sequence from its first token on.
    pub fn submit(&mut self, plan: StepPlan) -> u32 {
        assert!(!plan.rows.is_empty(), "a step without rows");
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
                    let last = self.last.get(&row.slot).filter(|last| last.0 == step);
                    let (_, token) =
                        last.unwrap_or_else(|| panic!("{}: the slot's last token is another", row.sequence));
                    vec![*token]
                }
            };
            let end = row.start + ids.len() as u32;
            assert!(end <= self.bound[&row.slot], "{}: beyond max_len", row.sequence);
            let mut now = self.read(&row.blocks, row.start);
            for (position, token) in (row.start..end).zip(ids) {
                now = content(now, token);
                self.write(&row.blocks, position, (now, token));
            }
            if row.output == RowOutput::Sample {
                let id = says(now);
                self.last.insert(row.slot, (plan.step, id));
                rows.push(RowOutcome { sequence: row.sequence, token: SampledToken { id, logprobs: None } });
            }
        }
        self.tokens_computed += u64::from(tokens);
        self.in_flight.push_back(StepOutcome { step: plan.step, rows });
        tokens
    }

    fn write(&mut self, table: &[BlockId], position: u32, cell: (Content, TokenId)) {
        let size = self.limits.block_size;
        let block = table[(position / size) as usize];
        assert!(block.0 < self.limits.num_blocks, "{block} is not there");
        self.kv[(block.0 * size + position % size) as usize] = Some(cell);
    }

    /// Content before `end`, when every place up to it follows from the one before.
    fn read(&self, table: &[BlockId], end: u32) -> Content {
        let size = self.limits.block_size as usize;
        let mut now = NOTHING;
        for (number, block) in table[..(end as usize).div_ceil(size)].iter().enumerate() {
            let cells = &self.kv[block.0 as usize * size..][..size.min(end as usize - number * size)];
            for cell in cells {
                let (next, token) =
                    cell.unwrap_or_else(|| panic!("{block} holds nothing at a place that is read"));
                assert_eq!(next, content(now, token), "{block} holds another's tokens");
                now = next;
            }
        }
        now
    }

    /// Everything in memory is gone, and so are the steps in flight.
    pub fn lose_all(&mut self) {
        let tokens_computed = self.tokens_computed;
        *self = Self { tokens_computed, ..Self::new(self.limits) };
    }
}
