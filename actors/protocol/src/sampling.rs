//! How the next token is chosen from the logits.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::{InvalidParameter, TokenId};

mod filters;

pub use filters::{Ban, Dry, DynamicTemperature, Mirostat, Xtc};

/// Below this temperature sampling is greedy: dividing by less would overflow f32 logits.
pub const GREEDY_BELOW: f32 = 1e-3;

/// The most alternatives that can be asked for with each token.
pub const MAX_LOGPROBS: u8 = 20;

/// Sampling parameters of one sequence. The executor applies them in the order of the fields up to `temperature`, then
/// draws; docs/sampling.md says more. Log-probabilities are those of the model's own distribution, before any of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// The only tokens that may be chosen, in ascending order; `None` is all.
    pub allowed: Option<Vec<TokenId>>,
    /// Tokens that may not be chosen yet.
    pub ban: Option<Ban>,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Divides positive and multiplies negative logits of tokens already in prompt or output; one is off.
    pub repetition_penalty: f32,
    /// How many of the last tokens `repetition_penalty` looks at; `None` is all.
    pub repeat_last_n: Option<u32>,
    /// Subtracted from logits of tokens already in the output, in [-2, 2].
    pub presence_penalty: f32,
    /// Subtracted once for each time a token is already in the output, in [-2, 2].
    pub frequency_penalty: f32,
    /// A penalty of repetitions.
    pub dry: Option<Dry>,
    /// Keep logits within so many standard deviations below the largest; zero keeps all.
    pub top_n_sigma: f32,
    /// Keep the `k` most likely tokens; zero keeps all.
    pub top_k: u32,
    /// Keep the smallest set of most typical tokens whose mass reaches it, in [0, 1]; one keeps all.
    pub typical_p: f32,
    /// Keep the smallest set of most likely tokens whose mass reaches `top_p`, in [0, 1]; one keeps all.
    pub top_p: f32,
    /// Drop tokens less likely than `min_p` times the most likely one, in [0, 1].
    pub min_p: f32,
    /// Drops top choices.
    pub xtc: Option<Xtc>,
    /// Divides the logits that are left; below [`GREEDY_BELOW`] the most likely token is taken.
    pub temperature: f32,
    /// Moves the temperature.
    pub dynamic_temperature: Option<DynamicTemperature>,
    /// Truncates in place of all filters from `top_n_sigma` to `xtc`, after the temperature.
    pub mirostat: Option<Mirostat>,
    /// Key of the counter-based generator ([`crate::random`]).
    pub seed: u64,
    /// `Some(n)`: report the chosen token's log-probability and the `n` most likely tokens.
    pub logprobs: Option<u8>,
    /// The same of each token of the prompt, but of the first, which nothing comes before.
    pub prompt_logprobs: Option<u8>,
}

impl SamplingParams {
    /// The most likely token each time, with nothing reported.
    pub fn greedy() -> Self {
        Self {
            allowed: None,
            ban: None,
            logit_bias: Vec::new(),
            repetition_penalty: 1.0,
            repeat_last_n: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            dry: None,
            top_n_sigma: 0.0,
            top_k: 0,
            typical_p: 1.0,
            top_p: 1.0,
            min_p: 0.0,
            xtc: None,
            temperature: 0.0,
            dynamic_temperature: None,
            mirostat: None,
            seed: 0,
            logprobs: None,
            prompt_logprobs: None,
        }
    }

    /// Whether the most likely token is taken without a draw.
    pub fn is_greedy(&self) -> bool {
        self.temperature < GREEDY_BELOW
    }

    /// Whether the output so far changes the logits.
    pub fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Whether the earlier tokens of the sequence, or what was learned of them, change how the next is chosen.
    pub fn needs_history(&self) -> bool {
        self.has_penalties() || self.dry.is_some() || self.mirostat.is_some()
    }

    /// Whether a row's token is chosen on the host, by the chain that knows all parameters: the device knows
    /// `logit_bias`, the ban, penalties without a window, `top_k`, `top_p`, `min_p` and the temperature.
    pub fn on_host(&self) -> bool {
        // The most likely token stays the most likely one whatever the temperature, and mirostat keeps it.
        let draws = !self.is_greedy();
        self.allowed.is_some()
            || (self.repetition_penalty != 1.0 && self.repeat_last_n.is_some())
            || self.dry.as_ref().is_some_and(Dry::is_on)
            || self.top_n_sigma > 0.0
            || self.typical_p < 1.0
            || self.xtc.as_ref().is_some_and(Xtc::is_on)
            || draws && self.dynamic_temperature.as_ref().is_some_and(DynamicTemperature::is_on)
            || draws && self.mirostat.is_some()
    }

    /// Checks every value against its range and the vocabulary.
    ///
    /// # Errors
    /// The first parameter out of range, under its OpenAI (or vLLM) name.
    pub fn validate(&self, vocab_size: u32) -> Result<(), InvalidParameter> {
        within("temperature", self.temperature, 0.0, 2.0)?;
        // Zero is read as "only the most likely token", as other servers do.
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        within("repetition_penalty", self.repetition_penalty, 0.01, 100.0)?;
        within("top_n_sigma", self.top_n_sigma, 0.0, 100.0)?;
        within("typical_p", self.typical_p, 0.0, 1.0)?;
        self.dry.as_ref().map_or(Ok(()), Dry::validate)?;
        self.xtc.as_ref().map_or(Ok(()), Xtc::validate)?;
        self.dynamic_temperature.as_ref().map_or(Ok(()), DynamicTemperature::validate)?;
        self.mirostat.as_ref().map_or(Ok(()), Mirostat::validate)?;
        self.validate_tokens(vocab_size)?;
        match self.logprobs {
            Some(n) if n > MAX_LOGPROBS => Err(InvalidParameter {
                param: "top_logprobs".to_string(),
                reason: format!("{n} is above the limit of {MAX_LOGPROBS}"),
            }),
            _ => Ok(()),
        }
    }

    /// Checks every token against the vocabulary, and the biases against their range.
    ///
    /// # Errors
    /// The first parameter that names a token beyond it, or is out of range.
    pub fn validate_tokens(&self, vocab_size: u32) -> Result<(), InvalidParameter> {
        let below = |param: &str, token: TokenId| {
            if token < vocab_size {
                return Ok(());
            }
            let reason = format!("token {token} is not below the vocabulary size of {vocab_size}");
            Err(InvalidParameter { param: param.to_string(), reason })
        };
        for &(token, bias) in &self.logit_bias {
            below("logit_bias", token)?;
            within("logit_bias", bias, -100.0, 100.0)?;
        }
        let breakers = self.dry.iter().flat_map(|dry| &dry.breakers);
        breakers.copied().try_for_each(|token| below("dry_sequence_breakers", token))?;
        let banned = self.ban.iter().flat_map(|ban| &ban.tokens);
        banned.copied().try_for_each(|token| below("stop_token_ids", token))?;
        let Some(allowed) = &self.allowed else { return Ok(()) };
        at_least("allowed_token_ids", allowed.len() as u32, 1)?;
        allowed.iter().copied().try_for_each(|token| below("allowed_token_ids", token))
    }
}

fn at_least(param: &str, value: u32, min: u32) -> Result<(), InvalidParameter> {
    if value >= min {
        return Ok(());
    }
    Err(InvalidParameter {
        param: param.to_string(),
        reason: format!("{value} is less than the minimum of {min}"),
    })
}

fn within(param: &str, value: f32, min: f32, max: f32) -> Result<(), InvalidParameter> {
    // Written so that NaN is outside.
    if value >= min && value <= max {
        return Ok(());
    }
    Err(InvalidParameter {
        param: param.to_string(),
        reason: format!("{value} is not between {min} and {max}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    type Set = fn(&mut SamplingParams);

    #[test]
    fn out_of_range_values_are_refused_by_name() {
        let table: &[(&str, Set)] = &[
            ("temperature", |p| p.temperature = -1.0),
            ("temperature", |p| p.temperature = f32::NAN),
            ("top_p", |p| p.top_p = 1.5),
            ("min_p", |p| p.min_p = -0.1),
            ("presence_penalty", |p| p.presence_penalty = f32::INFINITY),
            ("frequency_penalty", |p| p.frequency_penalty = -2.5),
            ("repetition_penalty", |p| p.repetition_penalty = 0.0),
            ("logit_bias", |p| p.logit_bias = vec![(100, 1.0)]),
            ("top_logprobs", |p| p.logprobs = Some(25)),
            ("top_n_sigma", |p| p.top_n_sigma = f32::NAN),
            ("top_n_sigma", |p| p.top_n_sigma = -0.5),
            ("typical_p", |p| p.typical_p = 1.01),
            ("dry_multiplier", |p| p.dry = Some(Dry { multiplier: f32::INFINITY, ..Dry::DEFAULT })),
            ("dry_base", |p| p.dry = Some(Dry { base: 0.5, ..Dry::DEFAULT })),
            ("dry_allowed_length", |p| p.dry = Some(Dry { allowed_length: 0, ..Dry::DEFAULT })),
            ("dry_sequence_breakers", |p| p.dry = Some(Dry { breakers: vec![100], ..Dry::DEFAULT })),
            ("xtc_probability", |p| p.xtc = Some(Xtc { probability: 1.5, ..Xtc::DEFAULT })),
            ("xtc_threshold", |p| p.xtc = Some(Xtc { threshold: f32::NAN, ..Xtc::DEFAULT })),
            ("dynatemp_range", |p| {
                p.dynamic_temperature = Some(DynamicTemperature { range: -1.0, exponent: 1.0 });
            }),
            ("dynatemp_exponent", |p| {
                p.dynamic_temperature = Some(DynamicTemperature { range: 0.5, exponent: f32::NAN });
            }),
            ("mirostat_tau", |p| p.mirostat = Some(Mirostat { tau: -1.0, ..Mirostat::DEFAULT })),
            ("mirostat_eta", |p| p.mirostat = Some(Mirostat { eta: 2.0, ..Mirostat::DEFAULT })),
            ("allowed_token_ids", |p| p.allowed = Some(vec![])),
            ("allowed_token_ids", |p| p.allowed = Some(vec![1, 100])),
            ("stop_token_ids", |p| p.ban = Some(Ban { tokens: vec![100], before: 3 })),
        ];
        for &(param, set) in table {
            let mut params = SamplingParams::greedy();
            assert_eq!(params.validate(100), Ok(()));
            set(&mut params);
            assert_eq!(params.validate(100).unwrap_err().param, param);
        }
    }

    #[test]
    fn only_what_the_device_does_not_know_goes_to_the_host() {
        let drawn = || SamplingParams { temperature: 1.0, ..SamplingParams::greedy() };
        let on_device: &[Set] = &[
            |_| {},
            |p| p.temperature = 0.0,
            |p| p.repetition_penalty = 1.1,
            |p| p.repeat_last_n = Some(64),
            |p| (p.top_k, p.top_p, p.min_p) = (40, 0.9, 0.1),
            |p| p.ban = Some(Ban { tokens: vec![1], before: 10 }),
            |p| p.dry = Some(Dry::DEFAULT),
            |p| p.xtc = Some(Xtc { probability: 1.0, threshold: 0.6 }),
            |p| p.dynamic_temperature = Some(DynamicTemperature::DEFAULT),
            |p| (p.temperature, p.mirostat) = (0.0, Some(Mirostat::DEFAULT)),
        ];
        let on_host: &[Set] = &[
            |p| p.allowed = Some(vec![1]),
            |p| (p.repetition_penalty, p.repeat_last_n) = (1.1, Some(64)),
            |p| p.dry = Some(Dry { multiplier: 0.8, ..Dry::DEFAULT }),
            |p| p.top_n_sigma = 1.0,
            |p| (p.temperature, p.typical_p) = (0.0, 0.9),
            |p| p.xtc = Some(Xtc { probability: 0.1, threshold: 0.1 }),
            |p| p.dynamic_temperature = Some(DynamicTemperature { range: 0.5, exponent: 1.0 }),
            |p| p.mirostat = Some(Mirostat::DEFAULT),
        ];
        for (sets, wanted) in [(on_device, false), (on_host, true)] {
            for (at, set) in sets.iter().enumerate() {
                let mut params = drawn();
                set(&mut params);
                assert_eq!(params.on_host(), wanted, "case {at}: {params:?}");
            }
        }
    }
}
