//! Reading a rotary embedding's configuration, with the reference's rules for what is left out.

use troupe_protocol::LengthClasses;

use super::{Rope, Scaling};
use crate::error::{ConfigError, Result};
use crate::models::ConfigReader;

/// All kinds of scaling.
const KNOWN: &str = "default, linear, dynamic, llama3, yarn, longrope";

/// The most tokens that a model is made for, if its configuration says: `max_position_embeddings`, stretched by
/// those scalings that extend it. The others (Llama 3's, LongRoPE) come with the extended length there.
///
/// # Errors
/// An unusable key.
pub fn context_limit(config: &ConfigReader) -> Result<Option<u32>> {
    const KEY: &str = "max_position_embeddings";
    let Some(max_len) = config.size_opt(KEY)? else { return Ok(None) };
    let section = Section::find(config)?;
    let stretched = |len: u32, factor: f64| Some((f64::from(len) * factor) as u32);
    Ok(match section.kind()? {
        "linear" | "dynamic" => stretched(max_len as u32, section.factor()?),
        "yarn" => stretched(section.trained_len()?, section.stretch()?),
        _ => Some(max_len as u32),
    })
}

/// Which sequences have their positions encoded alike.
///
/// # Errors
/// An unusable key.
pub fn length_classes(config: &ConfigReader) -> Result<LengthClasses> {
    let section = Section::find(config)?;
    Ok(match section.kind()? {
        "dynamic" => LengthClasses::EachBeyond(section.max_len()?),
        "longrope" | "su" => LengthClasses::SplitAt(section.trained_len()?),
        _ => LengthClasses::One,
    })
}

impl Rope {
    /// Reads `rope_parameters` (transformers v5) or, failing that, `rope_scaling` and `rope_theta` (v4), for
    /// heads of `head_dim` dimensions.
    ///
    /// # Errors
    /// A missing or unusable key, or an unknown scaling.
    pub fn from_config(config: &ConfigReader, head_dim: usize) -> Result<Self> {
        let found = Section::find(config)?;
        let section = &found.section;
        let theta = section.f64("rope_theta")?.or(config.f64("rope_theta")?).unwrap_or(10_000.0);
        if theta <= 1.0 {
            return Err(config.invalid("rope_theta", format!("{theta} is not above 1")).into());
        }
        let partial = section.f64("partial_rotary_factor")?.or(config.f64("partial_rotary_factor")?);
        let dims = (head_dim as f64 * partial.unwrap_or(1.0)) as usize;
        if dims == 0 || !dims.is_multiple_of(2) || dims > head_dim {
            let reason = format!("{dims} of {head_dim} dimensions cannot be rotated");
            return Err(config.invalid("head_dim", reason).into());
        }
        let (scaling, magnitude) = found.scaling(dims / 2)?;
        Ok(Self { dims, theta, scaling, magnitude })
    }
}

/// The section on scaling, and where to look for what it leaves out.
struct Section<'a> {
    config: &'a ConfigReader,
    section: ConfigReader,
}

impl<'a> Section<'a> {
    /// `rope_parameters`, else `rope_scaling`, else an empty section.
    fn find(config: &'a ConfigReader) -> Result<Self> {
        let found = config.object("rope_parameters")?.or(config.object("rope_scaling")?);
        Ok(Self { config, section: found.unwrap_or_else(ConfigReader::empty) })
    }

    fn kind(&self) -> Result<&str> {
        Ok(self.section.str("rope_type")?.or(self.section.str("type")?).unwrap_or("default"))
    }

    /// The scaling of `pairs` frequencies, and the factor on sines and cosines.
    fn scaling(&self, pairs: usize) -> Result<(Scaling, f64)> {
        let section = &self.section;
        let scaling = match self.kind()? {
            "default" => Scaling::None,
            "linear" => Scaling::Linear { factor: self.factor()? },
            "dynamic" => Scaling::Dynamic { factor: self.factor()?, trained_len: self.max_len()? },
            "llama3" => self.llama3()?,
            "yarn" => return self.yarn(),
            "longrope" | "su" => return self.longrope(pairs),
            other => {
                return Err(section.invalid("rope_type", format!("`{other}` is not one of {KNOWN}")).into());
            }
        };
        Ok((scaling, 1.0))
    }

    fn llama3(&self) -> Result<Scaling> {
        let (low, high) = (self.number("low_freq_factor")?, self.number("high_freq_factor")?);
        if low >= high {
            let reason = format!("{high} is not above the low_freq_factor of {low}");
            return Err(self.section.invalid("high_freq_factor", reason).into());
        }
        Ok(Scaling::Llama3 { factor: self.factor()?, low, high, trained_len: self.trained_len()? })
    }

    fn yarn(&self) -> Result<(Scaling, f64)> {
        let factor = self.stretch()?;
        let scaling = Scaling::Yarn {
            factor,
            beta_fast: self.nonzero("beta_fast")?.unwrap_or(32.0),
            beta_slow: self.nonzero("beta_slow")?.unwrap_or(1.0),
            trained_len: self.trained_len()?,
            truncate: self.section.bool("truncate")?.unwrap_or(true),
        };
        let of = |mscale: f64| 0.1 * mscale * factor.ln() + 1.0;
        let implied = match (self.nonzero("mscale")?, self.nonzero("mscale_all_dim")?) {
            (Some(mscale), Some(all_dim)) => of(mscale) / of(all_dim),
            _ => of(1.0),
        };
        Ok((scaling, self.section.f64("attention_factor")?.unwrap_or(implied)))
    }

    fn longrope(&self, pairs: usize) -> Result<(Scaling, f64)> {
        let trained_len = self.trained_len()?;
        let implied = (1.0 + self.stretch()?.ln() / f64::from(trained_len).ln()).sqrt();
        let scaling = Scaling::LongRope {
            short: self.factors("short_factor", pairs)?,
            long: self.factors("long_factor", pairs)?,
            trained_len,
        };
        Ok((scaling, self.section.f64("attention_factor")?.unwrap_or(implied)))
    }

    /// How many times longer than trained the context is: `factor`, or the ratio of the two lengths.
    fn stretch(&self) -> Result<f64> {
        if self.section.f64("factor")?.is_some() {
            return self.factor();
        }
        Ok((f64::from(self.max_len()?) / f64::from(self.trained_len()?)).max(1.0))
    }

    fn factor(&self) -> Result<f64> {
        let factor = self.number("factor")?;
        if factor < 1.0 {
            return Err(self.section.invalid("factor", format!("{factor} is below 1")).into());
        }
        Ok(factor)
    }

    /// One factor for each rotated pair.
    fn factors(&self, key: &str, pairs: usize) -> Result<Vec<f64>, ConfigError> {
        let list = self.section.f64_list(key)?.ok_or_else(|| self.section.missing(key))?;
        if list.len() != pairs {
            let reason = format!("{} factors for {pairs} frequencies", list.len());
            return Err(self.section.invalid(key, reason));
        }
        Ok(list)
    }

    /// The length that the model was first trained on; the root of the configuration has the last word.
    fn trained_len(&self) -> Result<u32> {
        const KEY: &str = "original_max_position_embeddings";
        match self.config.u32(KEY)?.or(self.section.u32(KEY)?) {
            Some(0 | 1) => Err(self.section.invalid(KEY, "it is below 2").into()),
            Some(len) => Ok(len),
            None => self.max_len(),
        }
    }

    fn max_len(&self) -> Result<u32> {
        const KEY: &str = "max_position_embeddings";
        match self.config.u32(KEY)?.ok_or_else(|| self.config.missing(KEY))? {
            0 | 1 => Err(self.config.invalid(KEY, "it is below 2").into()),
            len => Ok(len),
        }
    }

    fn number(&self, key: &str) -> Result<f64, ConfigError> {
        self.section.f64(key)?.ok_or_else(|| self.section.missing(key))
    }

    /// Zero counts as absent, as it does in the reference.
    fn nonzero(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        Ok(self.section.f64(key)?.filter(|&number| number != 0.0))
    }
}
