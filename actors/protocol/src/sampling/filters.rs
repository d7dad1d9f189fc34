//! Parameters of the filters that only the host's chain knows. docs/sampling.md says what each does, and when.

use alloc::vec::Vec;

use super::{at_least, within};
use crate::{InvalidParameter, TokenId};

/// Makes tokens less likely that would go on with a repetition of what was said (DRY).
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// The penalty of a repetition as long as `allowed_length`, over 0 and at most 100.
    pub multiplier: f32,
    /// The factor for each further token of it, in [1, 10].
    pub base: f32,
    /// Repetitions shorter than this are free; at least one.
    pub allowed_length: u32,
    /// How many of the last tokens are searched; `None` is all.
    pub last_n: Option<u32>,
    /// Tokens that a repetition does not reach across, in ascending order.
    pub breakers: Vec<TokenId>,
}

impl Dry {
    /// As llama.cpp has it, without breakers.
    pub const DEFAULT: Self =
        Self { multiplier: 0.0, base: 1.75, allowed_length: 2, last_n: None, breakers: Vec::new() };

    pub(super) fn validate(&self) -> Result<(), InvalidParameter> {
        within("dry_multiplier", self.multiplier, 0.0, 100.0)?;
        within("dry_base", self.base, 1.0, 10.0)?;
        at_least("dry_allowed_length", self.allowed_length, 1)
    }

    /// Whether it changes anything.
    pub fn is_on(&self) -> bool {
        self.multiplier > 0.0 && self.last_n != Some(0)
    }
}

/// Excludes, now and then, all top choices but the least likely one (XTC).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xtc {
    /// How often, in [0, 1].
    pub probability: f32,
    /// What makes a token a top choice, in [0, 1]. There are never two above one half.
    pub threshold: f32,
}

impl Xtc {
    /// As llama.cpp has it.
    pub const DEFAULT: Self = Self { probability: 0.0, threshold: 0.1 };

    pub(super) fn validate(&self) -> Result<(), InvalidParameter> {
        within("xtc_probability", self.probability, 0.0, 1.0)?;
        within("xtc_threshold", self.threshold, 0.0, 1.0)
    }

    /// Whether it changes anything.
    pub fn is_on(&self) -> bool {
        self.probability > 0.0 && self.threshold <= 0.5
    }
}

/// A temperature that grows with the entropy of the candidates, from `temperature - range` to `temperature + range`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicTemperature {
    /// In [0, 2]; zero leaves the temperature as it is.
    pub range: f32,
    /// Of the entropy's share of what it could be, in [0, 10].
    pub exponent: f32,
}

impl DynamicTemperature {
    /// As llama.cpp has it.
    pub const DEFAULT: Self = Self { range: 0.0, exponent: 1.0 };

    pub(super) fn validate(&self) -> Result<(), InvalidParameter> {
        within("dynatemp_range", self.range, 0.0, 2.0)?;
        within("dynatemp_exponent", self.exponent, 0.0, 10.0)
    }

    /// Whether it changes anything.
    pub fn is_on(&self) -> bool {
        self.range > 0.0
    }
}

/// Keeps the surprise of the text near a target (mirostat v2), in place of all truncating filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirostat {
    /// The target in bits, in [0, 100].
    pub tau: f32,
    /// How fast it learns, in [0, 1].
    pub eta: f32,
}

impl Mirostat {
    /// As llama.cpp has it.
    pub const DEFAULT: Self = Self { tau: 5.0, eta: 0.1 };

    pub(super) fn validate(&self) -> Result<(), InvalidParameter> {
        within("mirostat_tau", self.tau, 0.0, 100.0)?;
        within("mirostat_eta", self.eta, 0.0, 1.0)
    }
}

/// Tokens that are not chosen early in a sequence: those that would end it before `min_tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// The tokens.
    pub tokens: Vec<TokenId>,
    /// Positions below this one, counted from the start of the prompt, do not take them.
    pub before: u32,
}
