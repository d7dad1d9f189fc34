//! The chain: one order for all that can be asked for.

use troupe_protocol::random::{Draw, uniform, uniform_for};
use troupe_protocol::sampling::{Dry, GREEDY_BELOW, Mirostat};
use troupe_protocol::{History, SampledToken, SamplingParams, TokenId};

use crate::candidates::{self, Candidate, Weighed};
use crate::history::{BeyondVocabulary, Memory};
use crate::{adjust, dry, filters, logprobs, mirostat, temperature};

/// Chooses the tokens of one sequence, and remembers what that takes.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplingParams,
    memory: Memory,
    mu: Option<f32>,
}

impl Sampler {
    /// For a sequence that starts, or goes on after `history`. The parameters are valid for the vocabulary.
    ///
    /// # Errors
    /// A history with a token beyond the vocabulary.
    pub fn new(
        params: SamplingParams,
        history: Option<&History>,
        vocab_size: usize,
    ) -> Result<Self, BeyondVocabulary> {
        let memory = Memory::new(&params, history, vocab_size)?;
        let first_mu = params.mirostat.map(mirostat::first_mu);
        let mu = first_mu.map(|first| history.and_then(|history| history.mu).unwrap_or(first));
        Ok(Self { params, memory, mu })
    }

    /// What mirostat learned so far, if it is on.
    pub fn mu(&self) -> Option<f32> {
        self.mu
    }

    /// Chooses the token that takes `position` by one row of `logits` `[vocabulary]`, and books it. Only tokens of
    /// `mask` (bit `id % 32` of its word `id / 32`) may be chosen, if there is one.
    pub fn sample(&mut self, logits: &[f32], position: u32, mask: Option<&[u32]>) -> SampledToken {
        let adjusted = self.adjusted(logits, position, mask);
        // Where all that is allowed is impossible by itself, the first of it is taken.
        let first = mask.map_or(0, adjust::first_of_mask);
        let id = self.choose(candidates::of(&adjusted), position).unwrap_or(first);
        self.memory.push_generated(id);
        let logprobs = self.params.logprobs.map(|count| logprobs::of(logits, id, count.into()));
        SampledToken { id, logprobs }
    }

    /// The logits after all that changes single ones: mask, ban, biases, penalties, DRY.
    fn adjusted(&self, logits: &[f32], position: u32, mask: Option<&[u32]>) -> Vec<f32> {
        let mut logits = logits.to_vec();
        if let Some(mask) = mask {
            adjust::keep_masked(&mut logits, mask);
        }
        if let Some(allowed) = &self.params.allowed {
            adjust::keep_listed(&mut logits, allowed);
        }
        if let Some(ban) = self.params.ban.as_ref().filter(|ban| position < ban.before) {
            adjust::ban(&mut logits, &ban.tokens);
        }
        adjust::add_biases(&mut logits, &self.params.logit_bias);
        if let Some(counts) = &self.memory.counts {
            adjust::penalise(&mut logits, &self.params, counts);
        }
        if let Some(dry) = self.params.dry.as_ref().filter(|dry| Dry::is_on(dry)) {
            dry::penalise(&mut logits, dry, &self.memory.tokens);
        }
        logits
    }

    /// The chosen one of all candidates, if there are any.
    fn choose(&mut self, candidates: Vec<Candidate>, position: u32) -> Option<TokenId> {
        if candidates::largest(&candidates).is_infinite() {
            return candidates::first_largest(&candidates).map(|first| first.id);
        }
        let uniform = uniform(self.params.seed, position);
        match self.params.mirostat {
            Some(mirostat) => self.follow(mirostat, &candidates, uniform),
            None => pick(&self.params, self.filtered(candidates, position), uniform).map(|token| token.id),
        }
    }

    /// The candidates that all filters keep.
    fn filtered(&self, mut candidates: Vec<Candidate>, position: u32) -> Vec<Weighed> {
        let params = &self.params;
        filters::top_n_sigma(&mut candidates, params.top_n_sigma);
        filters::top_k(&mut candidates, params.top_k);
        let mut weighed = candidates::weigh(&candidates);
        filters::typical_p(&mut weighed, params.typical_p);
        filters::top_p(&mut weighed, params.top_p);
        filters::min_p(&mut weighed, params.min_p);
        if let Some(xtc) = params.xtc {
            filters::xtc(&mut weighed, xtc, uniform_for(Draw::Xtc, params.seed, position));
        }
        weighed
    }

    /// Draws by mirostat, and learns.
    fn follow(&mut self, how: Mirostat, candidates: &[Candidate], uniform: f32) -> Option<TokenId> {
        let mut weighed = candidates::weigh(candidates);
        let temperature = temperature::temperature(&self.params, &weighed);
        if temperature < GREEDY_BELOW {
            candidates::keep_first_largest(&mut weighed);
        } else {
            candidates::reweigh(&mut weighed, temperature);
        }
        let mu = self.mu.unwrap_or(mirostat::first_mu(how));
        mirostat::truncate(&mut weighed, mu);
        let chosen = candidates::draw(&weighed, uniform)?;
        self.mu = Some(mirostat::learn(how, mu, &weighed, chosen));
        Some(chosen.id)
    }
}

/// Draws one of the candidates, weighed at temperature one, at the temperature that is asked for.
fn pick(params: &SamplingParams, mut candidates: Vec<Weighed>, uniform: f32) -> Option<Weighed> {
    let temperature = temperature::temperature(params, &candidates);
    if temperature < GREEDY_BELOW {
        return candidates::first_largest(&candidates).copied();
    }
    candidates::reweigh(&mut candidates, temperature);
    candidates::draw(&candidates, uniform)
}
