//! The sampling parameters that go beyond OpenAI's, as clients and people spell them: flat, each by itself optional.
//! docs/sampling.md says what each does.

use troupe_actors::tokenizer::Tokenizer;
use troupe_protocol::sampling::{Dry, DynamicTemperature, Mirostat, Xtc};
use troupe_protocol::{InvalidParameter, SamplingParams, TokenId};

/// The most sequence breakers of one request.
pub const MAX_BREAKERS: usize = 16;
/// The most bytes of one of them.
pub const MAX_BREAKER_BYTES: usize = 64;

/// What ends a repetition where nobody says otherwise, as in llama.cpp.
const BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// How many of the last tokens are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastN {
    /// All of them.
    All,
    /// So many.
    Tokens(u32),
}

impl LastN {
    fn count(self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Tokens(count) => Some(count),
        }
    }
}

/// What is `None` takes the default.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the parameters on the wire")]
pub struct SamplerOptions {
    pub repeat_last_n: Option<LastN>,
    pub dry_multiplier: Option<f32>,
    pub dry_base: Option<f32>,
    pub dry_allowed_length: Option<u32>,
    pub dry_penalty_last_n: Option<LastN>,
    pub dry_sequence_breakers: Option<Vec<String>>,
    pub top_n_sigma: Option<f32>,
    pub typical_p: Option<f32>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    pub dynatemp_range: Option<f32>,
    pub dynatemp_exponent: Option<f32>,
    /// Zero is off; two is the only version.
    pub mirostat: Option<u32>,
    pub mirostat_tau: Option<f32>,
    pub mirostat_eta: Option<f32>,
}

impl SamplerOptions {
    /// The parameters that come of these options and `defaults`, without sequence breakers: see [`Self::breakers`].
    ///
    /// # Errors
    /// A version of mirostat that is not there, or a value that is out of range though it changes nothing.
    pub fn over(&self, defaults: SamplingParams) -> Result<SamplingParams, InvalidParameter> {
        let dry = Dry {
            multiplier: self.dry_multiplier.unwrap_or(Dry::DEFAULT.multiplier),
            base: self.dry_base.unwrap_or(Dry::DEFAULT.base),
            allowed_length: self.dry_allowed_length.unwrap_or(Dry::DEFAULT.allowed_length),
            last_n: self.dry_penalty_last_n.and_then(LastN::count),
            breakers: Vec::new(),
        };
        let xtc = Xtc {
            probability: self.xtc_probability.unwrap_or(Xtc::DEFAULT.probability),
            threshold: self.xtc_threshold.unwrap_or(Xtc::DEFAULT.threshold),
        };
        let dynamic = DynamicTemperature {
            range: self.dynatemp_range.unwrap_or(DynamicTemperature::DEFAULT.range),
            exponent: self.dynatemp_exponent.unwrap_or(DynamicTemperature::DEFAULT.exponent),
        };
        let mirostat = Mirostat {
            tau: self.mirostat_tau.unwrap_or(Mirostat::DEFAULT.tau),
            eta: self.mirostat_eta.unwrap_or(Mirostat::DEFAULT.eta),
        };
        let has_mirostat = has_mirostat(self.mirostat)?;
        let all = SamplingParams {
            repeat_last_n: self.repeat_last_n.map_or(defaults.repeat_last_n, LastN::count),
            top_n_sigma: self.top_n_sigma.unwrap_or(defaults.top_n_sigma),
            typical_p: self.typical_p.unwrap_or(defaults.typical_p),
            dry: Some(dry),
            xtc: Some(xtc),
            dynamic_temperature: Some(dynamic),
            mirostat: Some(mirostat),
            ..defaults
        };
        // What is off is checked too, and then left out.
        all.validate(u32::MAX)?;
        Ok(SamplingParams {
            dry: all.dry.filter(Dry::is_on),
            xtc: all.xtc.filter(Xtc::is_on),
            dynamic_temperature: all.dynamic_temperature.filter(DynamicTemperature::is_on),
            mirostat: all.mirostat.filter(|_| has_mirostat),
            ..all
        })
    }

    /// Tokens that hold a sequence breaker, in ascending order. Looks at the whole vocabulary.
    ///
    /// # Errors
    /// Breakers that are too many, too long or empty, or one that was asked for and that no token holds.
    pub fn breakers(&self, tokenizer: &Tokenizer) -> Result<Vec<TokenId>, InvalidParameter> {
        let refuse =
            |reason: String| Err(InvalidParameter { param: "dry_sequence_breakers".to_owned(), reason });
        let given = self.dry_sequence_breakers.as_deref();
        let texts: Vec<&str> =
            given.map_or(BREAKERS.to_vec(), |texts| texts.iter().map(String::as_str).collect());
        if texts.len() > MAX_BREAKERS {
            return refuse(format!("{} strings are more than {MAX_BREAKERS}", texts.len()));
        }
        if let Some(text) = texts.iter().find(|text| text.is_empty() || text.len() > MAX_BREAKER_BYTES) {
            let bytes = text.len();
            return refuse(format!("a string of {bytes} bytes is not between 1 and {MAX_BREAKER_BYTES}"));
        }
        let mut found = Vec::new();
        let mut is_held = vec![false; texts.len()];
        for id in 0..tokenizer.vocab_size() as TokenId {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            let mut breaks = false;
            for (text, is_held) in texts.iter().zip(&mut is_held) {
                if holds(bytes, text.as_bytes()) {
                    (breaks, *is_held) = (true, true);
                }
            }
            if breaks {
                found.push(id);
            }
        }
        match texts.iter().zip(is_held).find(|(_, is_held)| !is_held) {
            Some((text, _)) if given.is_some() => refuse(format!("no token of this model holds {text:?}")),
            _ => Ok(found),
        }
    }
}

fn has_mirostat(version: Option<u32>) -> Result<bool, InvalidParameter> {
    match version {
        None | Some(0) => Ok(false),
        Some(2) => Ok(true),
        Some(other) => Err(InvalidParameter {
            param: "mirostat".to_owned(),
            reason: format!("version {other} is not implemented, only 2, and 0 for none"),
        }),
    }
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use troupe_actors::testing::byte_tokenizer;

    #[test]
    fn nothing_that_is_said_changes_nothing() {
        let drawn = SamplingParams { temperature: 1.0, ..SamplingParams::greedy() };
        assert_eq!(SamplerOptions::default().over(drawn.clone()), Ok(drawn.clone()));
        let neutral = SamplerOptions {
            repeat_last_n: Some(LastN::All),
            dry_multiplier: Some(0.0),
            dry_base: Some(2.0),
            top_n_sigma: Some(0.0),
            typical_p: Some(1.0),
            xtc_threshold: Some(0.3),
            dynatemp_exponent: Some(2.0),
            mirostat: Some(0),
            mirostat_tau: Some(3.0),
            ..SamplerOptions::default()
        };
        assert_eq!(neutral.over(drawn.clone()), Ok(drawn));
    }

    #[test]
    fn c078u_xtc_is_off_unless_asked_for_and_its_threshold_is_a_tenth() {
        let of = |probability| {
            let options = SamplerOptions { xtc_probability: probability, ..SamplerOptions::default() };
            options.over(SamplingParams::greedy()).unwrap().xtc
        };
        assert_eq!([None, Some(0.0)].map(of), [None, None]);
        assert_eq!(of(Some(0.5)), Some(Xtc { probability: 0.5, threshold: 0.1 }));
    }

    #[test]
    fn what_is_off_is_checked_all_the_same() {
        type Set = fn(&mut SamplerOptions);
        let table: [(&str, Set); 5] = [
            ("dry_base", |o| o.dry_base = Some(0.5)),
            ("xtc_threshold", |o| o.xtc_threshold = Some(-1.0)),
            ("dynatemp_exponent", |o| o.dynatemp_exponent = Some(f32::NAN)),
            ("mirostat_eta", |o| o.mirostat_eta = Some(2.0)),
            ("mirostat", |o| o.mirostat = Some(1)),
        ];
        for (param, set) in table {
            let mut options = SamplerOptions::default();
            set(&mut options);
            assert_eq!(options.over(SamplingParams::greedy()).unwrap_err().param, param);
        }
    }

    #[test]
    fn c081u_breakers_are_the_tokens_that_hold_them() {
        let tokenizer = byte_tokenizer().unwrap();
        let of = |texts: &[&str]| {
            let texts = Some(texts.iter().map(|text| (*text).to_owned()).collect());
            SamplerOptions { dry_sequence_breakers: texts, ..SamplerOptions::default() }.breakers(&tokenizer)
        };
        assert_eq!(SamplerOptions::default().breakers(&tokenizer), Ok(vec![10, 34, 42, 58]));
        assert_eq!(of(&["z", "end"]), Ok(vec![122, 256]));
        assert_eq!(of(&[]), Ok(vec![]));
        for (texts, part) in [
            (&["ab"][..], "no token of this model holds \"ab\""),
            (&[""], "a string of 0 bytes"),
            (&["x"; 17], "17 strings are more than 16"),
        ] {
            let error = of(texts).unwrap_err();
            assert!(error.param == "dry_sequence_breakers" && error.reason.contains(part), "{error}");
        }
    }
}
