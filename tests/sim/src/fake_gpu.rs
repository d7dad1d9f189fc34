//! An executor without a GPU. A place in a block holds a token and a hash of everything before it, as keys and values
//! depend on everything before them; what a sequence says next is a function of that hash. So a block that is not what its
//! reader thinks changes what is said, whoever wrote it, and what is said depends on nothing else.

use std::collections::{BTreeMap, VecDeque};

use troupe_protocol::{
    Binding, BlockId, BlockName, EngineLimits, PromptLogprobs, RowOutcome, RowOutput, RowTokens,
    SampledToken, SequenceId, SlotId, StepId, StepMasks, StepOutcome, StepPlan, StoreId, StoredBlock,
    TokenId, TokenLogprobs, TokenMask,
};

use crate::guide::says_within;

/// Everything up to a token, as a number.
pub type Content = u64;

/// Before the first token.
const NOTHING: Content = 0x6a09_e667_f3bc_c909;

/// Content after one more token.
pub fn content(before: Content, token: TokenId) -> Content {
    let x = (before ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Before the first token of a sequence whose positions are encoded as those of this class.
pub fn start(class: u32) -> Content {
    NOTHING ^ u64::from(class) << 32
}

/// What is said after this, where anything may be.
pub fn says(content: Content) -> TokenId {
    (content >> 40) as TokenId % 1000
}

/// How likely a token is after this: a log-probability.
pub fn likelihood(before: Content, token: TokenId) -> f32 {
    -((content(before, token) >> 50) as f32)
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

/// What mirostat learns by a token.
fn learned(token: TokenId) -> f32 {
    token as f32
}

/// What a place in a block holds.
type Cell = Option<(Content, TokenId)>;

/// What a place in the store holds.
#[derive(Clone, Debug)]
struct Stored {
    name: BlockName,
    cells: Vec<Cell>,
}

/// A step whose rows wait for their masks.
#[derive(Debug)]
struct Unsampled {
    step: StepId,
    rows: Vec<Sampling>,
}

/// A row that samples.
#[derive(Debug)]
struct Sampling {
    sequence: SequenceId,
    slot: SlotId,
    content: Content,
    has_mirostat: bool,
    output: RowOutput,
    mask: Option<TokenMask>,
}

/// Blocks, slots, steps in flight and the block store.
#[derive(Debug)]
pub struct FakeGpu {
    limits: EngineLimits,
    /// What was written to each place, block after block.
    kv: Vec<Cell>,
    /// In the order in which it was written.
    store: Vec<(StoreId, Stored)>,
    /// Copies that are in the store when their step is done.
    saves: VecDeque<(StepId, Vec<(StoreId, Stored)>)>,
    /// Last sampled token of each slot.
    last: BTreeMap<SlotId, (StepId, TokenId)>,
    /// The step submitted last, while it waits for masks.
    unsampled: Option<Unsampled>,
    /// How each slot was given to its owner.
    bound: BTreeMap<SlotId, Binding>,
    /// Outcomes of steps that were submitted, oldest first.
    pub in_flight: VecDeque<StepOutcome>,
    /// Tokens computed so far.
    pub tokens_computed: u64,
    /// Blocks that came back from the store.
    pub blocks_loaded: u64,
    /// Blocks that came to the store.
    pub blocks_saved: u64,
    /// The store does not take every so many.
    pub full_disk: Option<u64>,
}

impl FakeGpu {
    /// An executor with these bounds and nothing in its blocks.
    pub fn new(limits: EngineLimits) -> Self {
        let kv = vec![None; (limits.num_blocks * limits.block_size) as usize];
        Self {
            limits,
            kv,
            store: Vec::new(),
            saves: VecDeque::new(),
            last: BTreeMap::new(),
            unsampled: None,
            bound: BTreeMap::new(),
            in_flight: VecDeque::new(),
            tokens_computed: 0,
            blocks_loaded: 0,
            blocks_saved: 0,
            full_disk: None,
        }
    }

    /// Computes a step; its outcome waits in `in_flight`. Answers how many tokens it had.
    ///
    /// # Panics
    /// If the plan breaks a bound, or a row's blocks do not hold one sequence from its first token on.
    pub fn submit(&mut self, plan: StepPlan) -> u32 {
        assert!(!plan.rows.is_empty() || !plan.saves.is_empty(), "a step without rows");
        assert!(self.unsampled.is_none(), "a step is built on one that waits for masks");
        self.transfer(&plan);
        let tokens: u32 = plan.rows.iter().map(|row| row.tokens.count()).sum();
        assert!(tokens <= self.limits.max_num_batched_tokens, "{tokens} tokens exceed the budget");
        for binding in plan.bindings {
            if let Some(history) = &binding.history {
                let wanted = history.generated.last().copied().map(learned);
                assert_eq!(history.mu, wanted, "{}: mirostat forgot", binding.slot);
            }
            self.last.remove(&binding.slot);
            self.bound.insert(binding.slot, binding);
        }
        let targets: usize = plan.rows.iter().map(|row| row.targets.len()).sum();
        assert!(
            targets <= self.limits.max_num_prompt_logprobs as usize,
            "{targets} targets exceed the bound"
        );
        let (mut samples, mut prompts) = (Vec::new(), Vec::new());
        for row in plan.rows {
            let is_read = matches!(row.tokens, RowTokens::Prompt(_));
            assert!(row.mask.is_none() || is_read, "{}: a mask for a token that nobody read", row.sequence);
            let waits = row.output == RowOutput::SampleLater;
            assert!(!waits || !is_read, "{}: its mask is known, or will not be sooner", row.sequence);
            let ids = match row.tokens {
                RowTokens::Prompt(ids) => ids,
                RowTokens::Sampled(step) => {
                    let on_host = self.bound[&row.slot].sampling.on_host();
                    assert!(!on_host, "{}: its token is not on the device", row.sequence);
                    let last = self.last.get(&row.slot).filter(|last| last.0 == step);
                    let (_, token) =
                        last.unwrap_or_else(|| panic!("{}: the slot's last token is another", row.sequence));
                    vec![*token]
                }
            };
            let end = row.start + ids.len() as u32;
            let Binding { max_len, sampling, .. } = &self.bound[&row.slot];
            assert!(end <= *max_len, "{}: beyond max_len", row.sequence);
            let class = self.limits.length_classes.class_of(*max_len);
            let has_mirostat = sampling.mirostat.is_some();
            let mut now = self.read(&row.blocks, row.start, start(class));
            let mut targets = row.targets.into_iter();
            let mut scored = Vec::new();
            for (position, token) in (row.start..end).zip(ids) {
                now = content(now, token);
                self.write(&row.blocks, position, (now, token));
                scored.extend(
                    targets
                        .next()
                        .map(|target| TokenLogprobs { chosen: likelihood(now, target), top: Vec::new() }),
                );
            }
            assert!(targets.next().is_none(), "{}: a target that no token predicts", row.sequence);
            if !scored.is_empty() {
                prompts.push(PromptLogprobs { sequence: row.sequence, start: row.start + 1, tokens: scored });
            }
            if row.output.samples() {
                let (sequence, slot, output, mask) = (row.sequence, row.slot, row.output, row.mask);
                samples.push(Sampling { sequence, slot, content: now, has_mirostat, output, mask });
            }
        }
        self.tokens_computed += u64::from(tokens);
        self.in_flight.push_back(StepOutcome {
            step: plan.step,
            rows: Vec::new(),
            prompts,
            unsaved: Vec::new(),
        });
        if samples.iter().any(|row| row.output == RowOutput::SampleLater) {
            self.unsampled = Some(Unsampled { step: plan.step, rows: samples });
        } else {
            self.sample(plan.step, samples);
        }
        tokens
    }

    /// Samples the rows of the step submitted last.
    fn sample(&mut self, step: StepId, rows: Vec<Sampling>) {
        let outcome = self.in_flight.back_mut().expect("it is in flight");
        for Sampling { sequence, slot, content, has_mirostat, mask, .. } in rows {
            let id = mask.map_or_else(|| says(content), |mask| says_within(content, &mask));
            self.last.insert(slot, (step, id));
            let token = SampledToken { id, logprobs: None };
            outcome.rows.push(RowOutcome { sequence, token, mu: has_mirostat.then(|| learned(id)) });
        }
    }

    /// The masks of a step come. One that has failed meanwhile has no use for them.
    ///
    /// # Panics
    /// If they are not those of the rows that wait.
    pub fn give_masks(&mut self, StepMasks { step, masks }: StepMasks) {
        let Some(Unsampled { mut rows, .. }) = self.unsampled.take_if(|waiting| waiting.step == step) else {
            let in_flight = self.in_flight.iter().any(|outcome| outcome.step == step);
            return assert!(!in_flight, "masks for {step}, which waits for none");
        };
        for (sequence, mask) in masks {
            let waits =
                |row: &&mut Sampling| row.sequence == sequence && row.output == RowOutput::SampleLater;
            let row = rows.iter_mut().find(waits);
            let row = row.unwrap_or_else(|| panic!("{sequence}: a mask for a row that waits for none"));
            (row.output, row.mask) = (RowOutput::Sample, Some(mask));
        }
        rows.retain(|row| row.output == RowOutput::Sample);
        self.sample(step, rows);
    }

    /// Whether the oldest step in flight waits for masks: it cannot be done before.
    pub fn waits_for_masks(&self) -> bool {
        let oldest = self.in_flight.front().map(|outcome| outcome.step);
        self.unsampled.as_ref().is_some_and(|waiting| Some(waiting.step) == oldest)
    }

    /// Copies blocks to the store, then from it.
    fn transfer(&mut self, plan: &StepPlan) {
        let saved = plan.saves.iter().map(|save| {
            let cells = self.cells(save.block).to_vec();
            assert!(cells.iter().all(Option::is_some), "{} is saved and not full", save.block);
            (save.stored, Stored { name: save.name, cells })
        });
        let saved: Vec<_> = saved.collect();
        for load in &plan.loads {
            let found = self.store.iter().find(|(at, _)| *at == load.stored);
            let (_, stored) = found.unwrap_or_else(|| panic!("{} holds nothing", load.stored));
            assert_eq!(stored.name, load.name, "{} holds another's tokens", load.stored);
            let cells = stored.cells.clone();
            self.cells_mut(load.block).copy_from_slice(&cells);
            self.blocks_loaded += 1;
        }
        self.saves.push_back((plan.step, saved));
    }

    fn cells(&self, block: BlockId) -> &[Cell] {
        let size = self.limits.block_size as usize;
        &self.kv[block.0 as usize * size..][..size]
    }

    fn cells_mut(&mut self, block: BlockId) -> &mut [Cell] {
        let size = self.limits.block_size as usize;
        &mut self.kv[block.0 as usize * size..][..size]
    }

    /// The oldest step in flight is done.
    ///
    /// # Panics
    /// If there is none, or it waits for masks.
    pub fn finish(&mut self) -> StepOutcome {
        assert!(!self.waits_for_masks(), "a step is done whose rows wait for masks");
        let mut outcome = self.in_flight.pop_front().expect("a step is in flight");
        let (step, saved) = self.saves.pop_front().expect("each step has its copies");
        assert_eq!(step, outcome.step);
        for (at, stored) in saved {
            assert!(at.0 < self.limits.num_stored_blocks, "{at} is not there");
            self.store.retain(|(other, _)| *other != at);
            self.blocks_saved += 1;
            if self.full_disk.is_some_and(|every| self.blocks_saved.is_multiple_of(every)) {
                outcome.unsaved.push(stored.name);
                continue;
            }
            self.store.push((at, stored));
        }
        outcome
    }

    /// What the store holds, least recently written first.
    pub fn stored(&self) -> Vec<StoredBlock> {
        self.store.iter().map(|(at, stored)| StoredBlock { at: *at, name: stored.name }).collect()
    }

    fn write(&mut self, table: &[BlockId], position: u32, cell: (Content, TokenId)) {
        let size = self.limits.block_size;
        let block = table[(position / size) as usize];
        assert!(block.0 < self.limits.num_blocks, "{block} is not there");
        self.kv[(block.0 * size + position % size) as usize] = Some(cell);
    }

    /// Content before `end`, when every place up to it follows from the one before.
    fn read(&self, table: &[BlockId], end: u32, start: Content) -> Content {
        let size = self.limits.block_size as usize;
        let mut now = start;
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

    /// Another executor takes its place. The store stays.
    pub fn restart(&mut self, limits: EngineLimits) {
        let lost = std::mem::replace(self, Self::new(limits));
        let Self { store, tokens_computed, blocks_loaded, blocks_saved, full_disk, .. } = lost;
        *self = Self { store, tokens_computed, blocks_loaded, blocks_saved, full_disk, ..Self::new(limits) };
    }

    /// The store is gone too.
    pub fn lose_store(&mut self) {
        self.store.clear();
    }

    /// Everything in memory is gone, and so are the steps in flight. The store stays.
    pub fn lose_all(&mut self) {
        self.restart(self.limits);
    }
}
