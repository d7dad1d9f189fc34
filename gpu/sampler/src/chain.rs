//! The chain: one order for all that can be asked for.

use troupe_protocol::random::{Draw, uniform, uniform_for};
use troupe_protocol::sampling::{Dry, DynamicTemperature, GREEDY_BELOW, Mirostat, Xtc};
use troupe_protocol::{History, SampledToken, SamplingParams, TokenId};

use crate::candidates::{self, Candidate, Weighed};
use crate::history::{BeyondVocabulary, Memory};
use crate::mass::Ranked;
use crate::{adjust, dry, filters, logprobs, mirostat, temperature};

/// Room to work in, kept between rows: it is as large as the vocabulary, and asking the system for it anew takes longer
/// than the work.
#[derive(Debug, Default)]
pub struct Scratch {
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
    weighed: Vec<Weighed>,
    ranked: Vec<Ranked>,
}

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
    pub fn sample(
        &mut self,
        logits: &[f32],
        position: u32,
        mask: Option<&[u32]>,
        scratch: &mut Scratch,
    ) -> SampledToken {
        scratch.logits.clear();
        scratch.logits.extend_from_slice(logits);
        self.adjust(&mut scratch.logits, position, mask);
        candidates::fill(&mut scratch.candidates, &scratch.logits);
        // Where all that is allowed is impossible by itself, the first of it is taken.
        let first = mask.map_or(0, adjust::first_of_mask);
        let id = self.choose(position, scratch).unwrap_or(first);
        self.memory.push_generated(id);
        let reported = |count: u8| logprobs::of(logits, id, count.into(), &mut scratch.logits);
        SampledToken { id, logprobs: self.params.logprobs.map(reported) }
    }

    /// All that changes single logits: mask, ban, biases, penalties, DRY.
    fn adjust(&self, logits: &mut [f32], position: u32, mask: Option<&[u32]>) {
        if let Some(mask) = mask {
            adjust::keep_masked(logits, mask);
        }
        if let Some(allowed) = &self.params.allowed {
            adjust::keep_listed(logits, allowed);
        }
        if let Some(ban) = self.params.ban.as_ref().filter(|ban| position < ban.before) {
            adjust::ban(logits, &ban.tokens);
        }
        adjust::add_biases(logits, &self.params.logit_bias);
        if let Some(counts) = &self.memory.counts {
            adjust::penalise(logits, &self.params, counts);
        }
        if let Some(dry) = self.params.dry.as_ref().filter(|dry| Dry::is_on(dry)) {
            dry::penalise(logits, dry, &self.memory.tokens);
        }
    }

    /// The chosen one of all candidates, if there are any.
    fn choose(&mut self, position: u32, scratch: &mut Scratch) -> Option<TokenId> {
        let Scratch { logits, candidates, weighed, .. } = scratch;
        if candidates::largest(candidates).is_infinite() {
            return candidates::first_largest(candidates).map(|first| first.id);
        }
        let uniform = uniform(self.params.seed, position);
        if let Some(mirostat) = self.params.mirostat {
            candidates::weigh(weighed, candidates, 1.0);
            return self.follow(mirostat, weighed, uniform);
        }
        filters::top_n_sigma(candidates, self.params.top_n_sigma);
        filters::top_k(candidates, self.params.top_k, logits);
        if needs_masses(&self.params) {
            return self.choose_by_mass(position, uniform, scratch);
        }
        filters::min_p(candidates, self.params.min_p);
        if self.params.is_greedy() {
            return candidates::first_largest(candidates).map(|first| first.id);
        }
        candidates::weigh(weighed, candidates, self.params.temperature);
        candidates::draw(weighed, uniform).map(|chosen| chosen.id)
    }

    /// The chosen one of what the filters from typical-p on keep.
    fn choose_by_mass(&self, position: u32, uniform: f32, scratch: &mut Scratch) -> Option<TokenId> {
        let (params, Scratch { candidates, weighed, ranked, .. }) = (&self.params, scratch);
        candidates::weigh(weighed, candidates, 1.0);
        filters::typical_p(weighed, params.typical_p, ranked);
        filters::top_p(weighed, params.top_p, ranked);
        filters::min_p(weighed, params.min_p);
        if let Some(xtc) = params.xtc {
            filters::xtc(weighed, xtc, uniform_for(Draw::Xtc, params.seed, position));
        }
        candidates::reweigh(weighed, 1.0);
        let temperature = temperature::temperature(params, weighed);
        if temperature < GREEDY_BELOW {
            return candidates::first_largest(weighed).map(|first| first.id);
        }
        candidates::reweigh(weighed, temperature);
        candidates::draw(weighed, uniform).map(|chosen| chosen.id)
    }

    /// Draws by mirostat from candidates weighed at temperature one, and learns.
    fn follow(&mut self, how: Mirostat, weighed: &mut Vec<Weighed>, uniform: f32) -> Option<TokenId> {
        let temperature = temperature::temperature(&self.params, weighed);
        if temperature < GREEDY_BELOW {
            candidates::keep_first_largest(weighed);
        } else {
            candidates::reweigh(weighed, temperature);
        }
        let mu = self.mu.unwrap_or(mirostat::first_mu(how));
        mirostat::truncate(weighed, mu);
        let chosen = candidates::draw(weighed, uniform)?;
        self.mu = Some(mirostat::learn(how, mu, weighed, chosen));
        Some(chosen.id)
    }
}

/// Whether a filter or the temperature looks at probabilities. The others read them off the logits.
fn needs_masses(params: &SamplingParams) -> bool {
    params.typical_p < 1.0
        || params.top_p < 1.0
        || params.xtc.as_ref().is_some_and(Xtc::is_on)
        || params.dynamic_temperature.as_ref().is_some_and(DynamicTemperature::is_on)
}
