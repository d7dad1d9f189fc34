//! Steps an engine as a scheduler would, with blocks given out in an order of the test's choice.

use troupe_gpu::Engine;
use troupe_protocol::{
    Binding, BlockId, History, LoadRequest, Row, RowOutput, RowTokens, SampledToken, SamplingParams,
    SequenceId, SlotId, StepId, StepOutcome, StepPlan, TokenId, TokenLogprobs,
};

/// An engine, and what it has not given out yet.
pub struct Driver {
    pub engine: Engine,
    blocks: Vec<BlockId>,
    slots: Vec<SlotId>,
    next_step: u64,
    next_sequence: u64,
}

/// A sequence as its scheduler sees it.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub id: SequenceId,
    pub slot: SlotId,
    pub blocks: Vec<BlockId>,
    /// Prompt and generated tokens that the host knows.
    pub tokens: Vec<TokenId>,
    /// What was reported with each sampled token.
    pub sampled: Vec<SampledToken>,
    /// What was reported of each token of the prompt from the second on, if that is wanted.
    pub scored: Vec<TokenLogprobs>,
    pub sampling: SamplingParams,
    pub max_len: u32,
    /// What mirostat learned so far.
    mu: Option<f32>,
    num_prompt: usize,
    /// Tokens whose keys and values are in the blocks, once every submitted step is done.
    computed: usize,
    last_step: StepId,
    bound: bool,
}

/// What a row of the next step feeds.
#[derive(Clone, Copy, Debug)]
pub enum Feed {
    /// So many known tokens; a token is sampled if they are all.
    Known(usize),
    /// So many known tokens, and a token is sampled in any case. It is reported, not appended, if more are known.
    Probe(usize),
    /// The token that the sequence's last step samples.
    Sampled,
}

impl Driver {
    pub fn load(request: &LoadRequest) -> Self {
        let engine = Engine::load(request, &mut |_, _| {}).expect("a loaded model");
        let limits = *engine.limits();
        Self {
            engine,
            // Taken from the end.
            blocks: (0..limits.num_blocks).rev().map(BlockId).collect(),
            slots: (0..limits.max_num_seqs).rev().map(SlotId).collect(),
            next_step: 0,
            next_sequence: 0,
        }
    }

    /// From now on blocks are given out in an order that has nothing to do with their numbers.
    pub fn shuffle_blocks(&mut self) {
        let count = self.blocks.len();
        for at in (1..count).rev() {
            let other = (at * 7919 + 13) % (at + 1);
            self.blocks.swap(at, other);
        }
    }

    /// A sequence with a slot and no blocks yet, that may come to hold `max_len` tokens.
    pub fn sequence(&mut self, prompt: &[TokenId], sampling: SamplingParams, max_len: u32) -> Sequence {
        self.next_sequence += 1;
        Sequence {
            id: SequenceId(self.next_sequence),
            slot: self.slots.pop().expect("a free slot"),
            blocks: Vec::new(),
            tokens: prompt.to_vec(),
            sampled: Vec::new(),
            scored: Vec::new(),
            sampling,
            max_len,
            mu: None,
            num_prompt: prompt.len(),
            computed: 0,
            last_step: StepId(u64::MAX),
            bound: false,
        }
    }

    /// Gives `sequence`, which has nothing yet, the first `count` blocks of `other` with what is computed in them.
    pub fn share(&self, other: &Sequence, count: usize, sequence: &mut Sequence) {
        sequence.blocks = other.blocks[..count].to_vec();
        sequence.computed = count * self.engine.limits().block_size as usize;
    }

    /// Gives `sequence`, which has nothing yet, `count` blocks of which the next step has to fill every one.
    pub fn reserve(&mut self, count: usize, sequence: &mut Sequence) {
        sequence.blocks = (0..count).map(|_| self.blocks.pop().expect("a free block")).collect();
        sequence.computed = count * self.engine.limits().block_size as usize;
    }

    /// Takes back slot and blocks. What they hold is garbage from now on.
    pub fn release(&mut self, sequence: Sequence) {
        self.slots.insert(0, sequence.slot);
        self.blocks.splice(0..0, sequence.blocks);
    }

    /// The same sequence in another slot and other blocks, with nothing computed.
    pub fn replay(&mut self, sequence: Sequence) -> Sequence {
        let slot = self.slots.pop().expect("a free slot");
        let moved = Sequence { slot, blocks: Vec::new(), computed: 0, bound: false, ..sequence.clone() };
        self.release(sequence);
        moved
    }

    /// Submits a step of these rows.
    pub fn submit(&mut self, rows: &mut [(&mut Sequence, Feed)]) -> StepId {
        let plan = self.plan(rows);
        self.engine.submit(&plan).expect("a submitted step");
        plan.step
    }

    /// A step of these rows.
    pub fn plan(&mut self, rows: &mut [(&mut Sequence, Feed)]) -> StepPlan {
        let step = StepId(self.next_step);
        self.next_step += 1;
        let mut bindings = Vec::new();
        for (sequence, _) in rows.iter_mut().filter(|(sequence, _)| !sequence.bound) {
            sequence.bound = true;
            bindings.push(sequence.binding());
        }
        let rows = rows.iter_mut().map(|(sequence, feed)| self.row(sequence, *feed, step)).collect();
        StepPlan { step, saves: Vec::new(), loads: Vec::new(), bindings, rows }
    }

    fn row(&mut self, sequence: &mut Sequence, feed: Feed, step: StepId) -> Row {
        let start = sequence.computed;
        let (tokens, sample) = match feed {
            Feed::Known(count) | Feed::Probe(count) => {
                let end = start + count;
                let all = end == sequence.tokens.len();
                (
                    RowTokens::Prompt(sequence.tokens[start..end].to_vec()),
                    all || matches!(feed, Feed::Probe(_)),
                )
            }
            Feed::Sampled => (RowTokens::Sampled(sequence.last_step), true),
        };
        let count = tokens.count() as usize;
        sequence.computed += count;
        let wanted = sequence.computed.div_ceil(self.engine.limits().block_size as usize);
        while sequence.blocks.len() < wanted {
            sequence.blocks.push(self.blocks.pop().expect("a free block"));
        }
        if sample {
            sequence.last_step = step;
        }
        Row {
            sequence: sequence.id,
            slot: sequence.slot,
            start: start as u32,
            tokens,
            blocks: sequence.blocks.clone(),
            targets: sequence.targets(start..start + count),
            output: if sample { RowOutput::Sample } else { RowOutput::None },
            mask: None,
        }
    }

    /// Waits for the oldest step in flight.
    pub fn finish(&mut self) -> StepOutcome {
        self.engine.finish().expect("a step in flight").expect("a computed step")
    }

    /// Submits a step, waits for it and books its tokens.
    pub fn step(&mut self, rows: &mut [(&mut Sequence, Feed)]) {
        self.submit(rows);
        let outcome = self.finish();
        for (sequence, _) in rows {
            sequence.take(&outcome);
        }
    }

    /// Feeds what is known in chunks of `chunk`, then generates one token a step up to `count` in all.
    pub fn generate(&mut self, sequence: &mut Sequence, chunk: usize, count: usize) {
        while sequence.generated().len() < count {
            let left = sequence.tokens.len() - sequence.computed;
            self.step(&mut [(sequence, Feed::Known(left.min(chunk)))]);
        }
    }

    /// The tokens that come of a prompt given whole, alone.
    pub fn answer(&mut self, prompt: &[TokenId], sampling: &SamplingParams, count: usize) -> Vec<TokenId> {
        let mut sequence = self.sequence(prompt, sampling.clone(), (prompt.len() + count) as u32);
        self.generate(&mut sequence, prompt.len(), count);
        let generated = sequence.generated().to_vec();
        self.release(sequence);
        generated
    }

    /// Log-probabilities of the `top` most likely tokens after each of `positions` of a fixed sequence.
    pub fn logprobs_at(
        &mut self,
        tokens: &[TokenId],
        positions: &[usize],
        sampling: &SamplingParams,
    ) -> Vec<Vec<(TokenId, f32)>> {
        let mut sequence = self.sequence(tokens, sampling.clone(), tokens.len() as u32);
        for position in positions {
            let count = position + 1 - sequence.computed;
            self.step(&mut [(&mut sequence, Feed::Probe(count))]);
        }
        let reported = std::mem::take(&mut sequence.sampled);
        self.release(sequence);
        reported.into_iter().map(|token| token.logprobs.expect("log-probabilities").top).collect()
    }
}

impl Sequence {
    /// Tokens that were generated and are known.
    pub fn generated(&self) -> &[TokenId] {
        &self.tokens[self.num_prompt..]
    }

    /// Tokens that are not computed yet.
    pub fn num_left(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Books the sequence's token of a step and what was said of its prompt, if it has them.
    pub fn take(&mut self, outcome: &StepOutcome) {
        for prompt in outcome.prompts.iter().filter(|prompt| prompt.sequence == self.id) {
            assert_eq!(prompt.start as usize, self.scored.len() + 1, "{}: the prompt has gaps", self.id);
            self.scored.extend_from_slice(&prompt.tokens);
        }
        for row in outcome.rows.iter().filter(|row| row.sequence == self.id) {
            self.sampled.push(row.token.clone());
            self.mu = row.mu;
            if self.computed >= self.tokens.len() {
                self.tokens.push(row.token.id);
            }
        }
    }

    /// Tokens of the prompt that a row with the tokens at `places` scores.
    fn targets(&self, places: std::ops::Range<usize>) -> Vec<TokenId> {
        let behind = |place: usize| (place + 1).min(self.num_prompt);
        match self.sampling.prompt_logprobs {
            Some(_) => self.tokens[behind(places.start)..behind(places.end)].to_vec(),
            None => Vec::new(),
        }
    }

    fn binding(&self) -> Binding {
        let (prompt, generated) = self.tokens.split_at(self.num_prompt);
        let history = History { prompt: prompt.to_vec(), generated: generated.to_vec(), mu: self.mu };
        Binding {
            slot: self.slot,
            sampling: self.sampling.clone(),
            history: self.sampling.needs_history().then_some(history),
            max_len: self.max_len,
        }
    }
}
