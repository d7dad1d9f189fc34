//! How the next token is chosen from the logits.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::{InvalidParameter, TokenId};

/// Below this temperature sampling is greedy: dividing by less would overflow f32 logits.
pub const GREEDY_BELOW: f32 = 1e-3;

/// The most alternatives that can be asked for with each token.
pub const MAX_LOGPROBS: u8 = 20;

/// Sampling parameters of one sequence. The executor applies them in this order: penalties,
/// `logit_bias`, temperature, `top_k`, `top_p`, `min_p`, draw. Log-probabilities are those of the
/// model's own distribution, before any of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; below [`GREEDY_BELOW`] the most likely token is taken.
    pub temperature: f32,
    /// Keep the `k` most likely tokens; zero keeps all.
    pub top_k: u32,
    /// Keep the smallest set of most likely tokens whose mass reaches `top_p`, in (0, 1].
    pub top_p: f32,
    /// Drop tokens less likely than `min_p` times the most likely one, in [0, 1].
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens already in prompt or output; one is off.
    pub repetition_penalty: f32,
    /// Subtracted from logits of tokens already in the output, in [-2, 2].
    pub presence_penalty: f32,
    /// Subtracted once for each time a token is already in the output, in [-2, 2].
    pub frequency_penalty: f32,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Key of the counter-based generator ([`crate::random::uniform`]).
    pub seed: u64,
    /// `Some(n)`: report the chosen token's log-probability and the `n` most likely tokens.
    pub logprobs: Option<u8>,
}

impl SamplingParams {
    /// The most likely token each time, with nothing reported.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            logprobs: None,
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
        for &(token, bias) in &self.logit_bias {
            if token >= vocab_size {
                return Err(InvalidParameter {
                    param: "logit_bias".to_string(),
                    reason: format!("token {token} is not below the vocabulary size of {vocab_size}"),
                });
            }
            within("logit_bias", bias, -100.0, 100.0)?;
        }
        match self.logprobs {
            Some(n) if n > MAX_LOGPROBS => Err(InvalidParameter {
                param: "top_logprobs".to_string(),
                reason: format!("{n} is above the limit of {MAX_LOGPROBS}"),
            }),
            _ => Ok(()),
        }
    }
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
        let table: [(&str, Set); 9] = [
            ("temperature", |p| p.temperature = -1.0),
            ("temperature", |p| p.temperature = f32::NAN),
            ("top_p", |p| p.top_p = 1.5),
            ("min_p", |p| p.min_p = -0.1),
            ("presence_penalty", |p| p.presence_penalty = f32::INFINITY),
            ("frequency_penalty", |p| p.frequency_penalty = -2.5),
            ("repetition_penalty", |p| p.repetition_penalty = 0.0),
            ("logit_bias", |p| p.logit_bias = vec![(100, 1.0)]),
            ("top_logprobs", |p| p.logprobs = Some(25)),
        ];
        for (param, set) in table {
            let mut params = SamplingParams::greedy();
            assert_eq!(params.validate(100), Ok(()));
            set(&mut params);
            assert_eq!(params.validate(100).unwrap_err().param, param);
        }
    }
}
