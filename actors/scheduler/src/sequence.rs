//! One sequence as the core sees it.

use alloc::vec::Vec;

use troupe_protocol::{
    Binding, BlockId, BlockName, History, NewSequence, RowOutput, RowTokens, SlotId, StepId, TokenId,
    TokenLogprobs, TokenMask, Usage,
};

use crate::cache::Chain;
use crate::event::Timestamp;
use crate::tenants::{Price, Ticket};

#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) request: NewSequence,
    pub(crate) arrived: Timestamp,
    pub(crate) generated: Vec<TokenId>,
    /// What mirostat learned of them.
    pub(crate) mu: Option<f32>,
    /// Tokens sampled by steps in flight, not yet known here.
    pub(crate) unread: u32,
    /// Tokens that the session has room for.
    pub(crate) credit: u32,
    /// Failed steps that it took part in.
    pub(crate) replays: u8,
    pub(crate) progress: Progress,
    pub(crate) phase: Phase,
    pub(crate) guidance: Guidance,
    /// Tokens of the prompt whose log-probabilities its session has, or does not want. The first token has none.
    pub(crate) scored_tokens: u32,
    /// Tokens of the prompt that the cache held when it first left the queue.
    pub(crate) cached_tokens: u32,
    /// Tokens from the first on that its tenant was charged for. What is computed again is not charged again.
    pub(crate) charged_tokens: u32,
    /// Names of its full blocks.
    root: BlockName,
    chain: Chain,
}

/// Whether a sequence ever left the queue. A replay waits too, but is not counted as queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    New,
    Started,
}

/// What a sequence may say next. A mask stays until a token was read that it allowed, so that what is computed again is
/// sampled within the same one.
#[derive(Debug)]
pub(crate) enum Guidance {
    /// Anything.
    Free,
    /// A token of the mask.
    Given(TokenMask),
    /// What its session is still to say, which was told the last token at this time.
    Awaited(Timestamp),
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// In the queue; owns nothing.
    Waiting,
    /// Holds a slot and blocks.
    Running(Residence),
}

#[derive(Debug)]
pub(crate) struct Residence {
    pub(crate) slot: SlotId,
    /// Covers at least `num_scheduled_tokens`.
    pub(crate) blocks: Vec<BlockId>,
    /// Tokens submitted for computing, in flight or done.
    pub(crate) num_scheduled_tokens: u32,
    /// The last step with a row of this sequence.
    pub(crate) last_step: Option<StepId>,
    /// The first step with a row since it has this residence.
    pub(crate) first_step: Option<StepId>,
    /// Blocks from the first on whose contents have names.
    pub(crate) num_named: usize,
    /// Whether streams paused for its prompt.
    pub(crate) in_pauses: bool,
}

/// The row that a sequence could have in the next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NextRow {
    pub(crate) start: u32,
    pub(crate) source: RowSource,
    pub(crate) output: RowOutput,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RowSource {
    /// This many tokens from `start` on, known here.
    Known(u32),
    /// The token that this step samples.
    Sampled(StepId),
}

impl NextRow {
    pub(crate) fn count(&self) -> u32 {
        match self.source {
            RowSource::Known(count) => count,
            RowSource::Sampled(_) => 1,
        }
    }
}

impl Sequence {
    pub(crate) fn new(mut request: NewSequence, arrived: Timestamp, root: BlockName) -> Self {
        let credit = request.credit;
        let guidance = request.mask.take().map_or(Guidance::Free, Guidance::Given);
        let scored_tokens = match request.sampling.prompt_logprobs {
            Some(_) => 1,
            None => request.prompt.len() as u32,
        };
        Self {
            request,
            arrived,
            generated: Vec::new(),
            mu: None,
            unread: 0,
            credit,
            replays: 0,
            progress: Progress::New,
            phase: Phase::Waiting,
            guidance,
            scored_tokens,
            cached_tokens: 0,
            charged_tokens: 0,
            root,
            chain: Chain::default(),
        }
    }

    /// Where it queues.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { tenant: self.request.tenant, priority: self.request.priority, arrived: self.arrived }
    }

    /// When nobody wants it any more.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        Some(Timestamp(self.arrived.0.saturating_add(self.request.timeout?)))
    }

    /// Names the full blocks of what is known by now.
    pub(crate) fn extend_chain(&mut self, block_size: u32) {
        let tokens = self.request.prompt.iter().chain(&self.generated);
        self.chain.extend(self.root, block_size as usize, tokens);
    }

    /// Forgets the names, since blocks have another size.
    pub(crate) fn reset_chain(&mut self) {
        self.chain = Chain::default();
    }

    /// Names of its full blocks, as far as they were given.
    pub(crate) fn names(&self) -> &[BlockName] {
        self.chain.names()
    }

    /// Names of the blocks that it could take from the cache: what is wanted of the model's predictions is computed anew, of one
    /// token at least.
    pub(crate) fn wanted_names(&self, block_size: u32) -> &[BlockName] {
        let first_predicted = if self.is_scored() { self.num_known_tokens() } else { self.scored_tokens };
        let most = first_predicted.saturating_sub(1) / block_size;
        let names = self.names();
        &names[..names.len().min(most as usize)]
    }

    /// Whether no log-probabilities of its prompt are to come.
    pub(crate) fn is_scored(&self) -> bool {
        self.scored_tokens as usize >= self.request.prompt.len()
    }

    /// The tokens of the prompt that a row from `start` to `end` is to score: each of its tokens predicts the next.
    pub(crate) fn targets(&self, start: u32, end: u32) -> &[TokenId] {
        let prompt = &self.request.prompt;
        if self.is_scored() {
            return &[];
        }
        let behind = |at: u32| prompt.len().min(at as usize + 1);
        &prompt[behind(start)..behind(end)]
    }

    /// Books log-probabilities of the tokens of its prompt from `start` on, and gives those that its session does not have.
    pub(crate) fn score(&mut self, start: u32, mut logprobs: Vec<TokenLogprobs>) -> Vec<TokenLogprobs> {
        let known = self.scored_tokens.saturating_sub(start) as usize;
        logprobs.drain(..known.min(logprobs.len()));
        self.scored_tokens += logprobs.len() as u32;
        logprobs
    }

    /// What the tokens from `start` to `end` cost that were not charged yet: prompt tokens, then generated ones.
    pub(crate) fn charge(&mut self, start: u32, end: u32) -> [(Price, u32); 2] {
        let first = start.max(self.charged_tokens);
        let prompt = self.request.prompt.len() as u32;
        let count = |from: u32, to: u32| to.saturating_sub(from);
        self.charged_tokens = self.charged_tokens.max(end);
        [(Price::Prefill, count(first, end.min(prompt))), (Price::Decode, count(first.max(prompt), end))]
    }

    /// Tokens whose ids are known here: the prompt and what was generated.
    pub(crate) fn num_known_tokens(&self) -> u32 {
        (self.request.prompt.len() + self.generated.len()) as u32
    }

    /// Whether each token has to be read before the next is computed, so that the sequence sits out the lookahead: the host
    /// chooses it, and it is not on the device to go on from.
    pub(crate) fn is_lockstep(&self) -> bool {
        self.request.sampling.on_host()
    }

    pub(crate) fn is_guided(&self) -> bool {
        !matches!(self.guidance, Guidance::Free)
    }

    /// Whether one more token may be sampled: the session has room for it, the limit is not reached, and nothing has to be
    /// known first that is not.
    pub(crate) fn may_sample(&self) -> bool {
        let is_known = match self.guidance {
            Guidance::Awaited(_) => false,
            Guidance::Free | Guidance::Given(_) => self.unread == 0 || !self.is_lockstep(),
        };
        is_known
            && self.credit > self.unread
            && self.generated.len() as u32 + self.unread < self.request.max_tokens
    }

    /// Since when nothing but its next mask is missing.
    pub(crate) fn awaits_mask(&self) -> Option<Timestamp> {
        match self.guidance {
            Guidance::Awaited(since) if self.credit > 0 => Some(since),
            _ => None,
        }
    }

    /// What a row that samples now may say.
    pub(crate) fn mask(&self) -> Option<TokenMask> {
        match &self.guidance {
            Guidance::Given(mask) => Some(mask.clone()),
            Guidance::Free | Guidance::Awaited(_) => None,
        }
    }

    /// What the row may say that `step` computes and that waits for its mask: nothing if that is still to come, or the
    /// sequence has lost the row.
    pub(crate) fn late_mask(&self, step: StepId) -> Option<TokenMask> {
        self.residence().filter(|residence| residence.last_step == Some(step)).and_then(|_| self.mask())
    }

    /// Takes back the row of `step`, of one token at `start`, whose mask did not come: it gives no token, and is computed
    /// again when there is a mask to sample within.
    pub(crate) fn take_back(&mut self, step: StepId, start: u32) {
        self.unread -= 1;
        if let Some(residence) = self.residence_mut().filter(|residence| residence.last_step == Some(step)) {
            residence.num_scheduled_tokens = start;
        }
    }

    /// Books a mask, if it is the one that is awaited.
    pub(crate) fn give_mask(&mut self, generated: u32, mask: TokenMask) {
        if matches!(self.guidance, Guidance::Awaited(_)) && generated as usize == self.generated.len() {
            self.guidance = Guidance::Given(mask);
        }
    }

    /// Books a token that was read.
    pub(crate) fn generate(&mut self, token: TokenId, now: Timestamp) {
        self.generated.push(token);
        self.credit = self.credit.saturating_sub(1);
        if self.is_guided() {
            self.guidance = Guidance::Awaited(now);
        }
    }

    /// Running, but waiting for its client: nothing in flight, no credit.
    pub(crate) fn is_stalled(&self) -> bool {
        self.unread == 0 && self.credit == 0
    }

    pub(crate) fn residence(&self) -> Option<&Residence> {
        match &self.phase {
            Phase::Waiting => None,
            Phase::Running(residence) => Some(residence),
        }
    }

    pub(crate) fn residence_mut(&mut self) -> Option<&mut Residence> {
        match &mut self.phase {
            Phase::Waiting => None,
            Phase::Running(residence) => Some(residence),
        }
    }

    /// Gives up slot and blocks.
    pub(crate) fn leave(&mut self) -> Option<Residence> {
        match core::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Waiting => None,
            Phase::Running(residence) => Some(residence),
        }
    }

    /// The row that it could have in the next step, of at most `budget` (at least one) tokens.
    pub(crate) fn next_row(&self, budget: u32) -> Option<NextRow> {
        let Phase::Running(residence) = &self.phase else { return None };
        if !self.may_sample() {
            return None;
        }
        let start = residence.num_scheduled_tokens;
        let left = self.num_known_tokens().saturating_sub(start);
        if left > 0 {
            let count = left.min(budget);
            let output = if count == left { RowOutput::Sample } else { RowOutput::None };
            return Some(NextRow { start, source: RowSource::Known(count), output });
        }
        // All known tokens are scheduled, so the last row sampled and its step is in flight.
        let source = RowSource::Sampled(residence.last_step?);
        // The mask that is known is that of the token in flight.
        let output = if self.is_guided() { RowOutput::SampleLater } else { RowOutput::Sample };
        Some(NextRow { start, source, output })
    }

    /// Ids of `count` known tokens from `start` on.
    pub(crate) fn known_tokens(&self, start: u32, count: u32) -> RowTokens {
        let (prompt, first, end) = (&self.request.prompt, start as usize, (start + count) as usize);
        let mut tokens = Vec::with_capacity(count as usize);
        tokens.extend_from_slice(&prompt[first.min(prompt.len())..end.min(prompt.len())]);
        let beyond = |at: usize| at.saturating_sub(prompt.len());
        tokens.extend_from_slice(&self.generated[beyond(first)..beyond(end)]);
        RowTokens::Prompt(tokens)
    }

    pub(crate) fn binding(&self, slot: SlotId) -> Binding {
        let history = self.request.sampling.needs_history().then(|| History {
            prompt: self.request.prompt.clone(),
            generated: self.generated.clone(),
            mu: self.mu,
        });
        Binding { slot, sampling: self.request.sampling.clone(), history, max_len: self.request.max_len() }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.request.prompt.len() as u32,
            cached_tokens: self.cached_tokens,
            completion_tokens: self.generated.len() as u32,
            reasoning_tokens: 0,
        }
    }
}
