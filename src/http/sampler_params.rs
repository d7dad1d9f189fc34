//! How tokens are chosen, as a request says it: OpenAI's fields, vLLM's and llama-server's, under their names.

use serde_json::Value;
use troupe_actors::model_card::ModelCard;
use troupe_protocol::sampling::Ban;
use troupe_protocol::{SamplingParams, TokenId};

use super::error::{ApiError, echo};
use super::fields::{Fields, to_list, to_number, to_string, to_u32};
use super::params::token_ids;
use crate::sampler_options::{LastN, SamplerOptions};

/// The most entries of `logit_bias`.
const MAX_LOGIT_BIAS: usize = 1024;

/// The one order of the chain, as llama-server spells it.
const ORDER: [&str; 9] =
    ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"];
/// The same in its short spelling.
const SHORT_ORDER: &str = "edskypmxt";

/// Reads how tokens are chosen, but for the seed and what is reported.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(fields: &mut Fields, card: &ModelCard) -> Result<SamplingParams, ApiError> {
    check_order(fields.take("samplers"))?;
    let defaults = card.default_sampling();
    let repetition_penalty = repetition_penalty(fields)?.unwrap_or(defaults.repetition_penalty);
    let mut number = |name: &str, default: f32| Ok::<_, ApiError>(fields.number(name)?.unwrap_or(default));
    let plain = SamplingParams {
        temperature: number("temperature", defaults.temperature)?,
        top_p: number("top_p", defaults.top_p)?,
        min_p: number("min_p", defaults.min_p)?,
        repetition_penalty,
        presence_penalty: number("presence_penalty", defaults.presence_penalty)?,
        frequency_penalty: number("frequency_penalty", defaults.frequency_penalty)?,
        top_k: top_k(fields)?.unwrap_or(defaults.top_k),
        logit_bias: logit_bias(fields)?,
        allowed: allowed(fields, card.limits.vocab_size)?,
        ..defaults
    };
    plain.validate(card.limits.vocab_size)?;
    let options = options(fields)?;
    let mut sampling = options.over(plain)?;
    if let Some(dry) = &mut sampling.dry {
        dry.breakers = options.breakers(&card.tokenizer)?;
    }
    Ok(sampling)
}

fn options(fields: &mut Fields) -> Result<SamplerOptions, ApiError> {
    Ok(SamplerOptions {
        repeat_last_n: last_n(fields, "repeat_last_n")?,
        dry_multiplier: fields.number("dry_multiplier")?,
        dry_base: fields.number("dry_base")?,
        dry_allowed_length: fields.unsigned("dry_allowed_length")?,
        dry_penalty_last_n: last_n(fields, "dry_penalty_last_n")?,
        dry_sequence_breakers: strings(fields, "dry_sequence_breakers")?,
        // llama-server's default is -1, for none.
        top_n_sigma: fields.number("top_n_sigma")?.map(|n| if n == -1.0 { 0.0 } else { n }),
        typical_p: fields.number("typical_p")?,
        xtc_probability: fields.number("xtc_probability")?,
        xtc_threshold: fields.number("xtc_threshold")?,
        dynatemp_range: fields.number("dynatemp_range")?,
        dynatemp_exponent: fields.number("dynatemp_exponent")?,
        mirostat: fields.unsigned("mirostat")?,
        mirostat_tau: fields.number("mirostat_tau")?,
        mirostat_eta: fields.number("mirostat_eta")?,
    })
}

/// vLLM's name and llama-server's.
fn repetition_penalty(fields: &mut Fields) -> Result<Option<f32>, ApiError> {
    match (fields.number("repetition_penalty")?, fields.number("repeat_penalty")?) {
        (Some(one), Some(other)) if one != other => Err(ApiError::invalid(
            "repeat_penalty",
            format!("{other} contradicts repetition_penalty of {one}"),
        )),
        (one, other) => Ok(one.or(other)),
    }
}

/// vLLM also spells "all tokens" as -1.
fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    Ok(last_n(fields, "top_k")?.map(|last| match last {
        LastN::All => 0,
        LastN::Tokens(count) => count,
    }))
}

/// A count, or -1 for all.
fn last_n(fields: &mut Fields, name: &str) -> Result<Option<LastN>, ApiError> {
    match fields.take(name) {
        Some(value) if value.as_i64() == Some(-1) => Ok(Some(LastN::All)),
        Some(value) if value.as_i64().is_some_and(|count| count < -1) => {
            Err(ApiError::invalid(name, format!("{value} is neither -1 nor between 0 and {}", u32::MAX)))
        }
        Some(value) => to_u32(name, &value).map(|count| Some(LastN::Tokens(count))),
        None => Ok(None),
    }
}

fn strings(fields: &mut Fields, name: &str) -> Result<Option<Vec<String>>, ApiError> {
    let Some(value) = fields.take(name) else { return Ok(None) };
    let items = to_list(name, value)?.into_iter().enumerate();
    items
        .map(|(index, item)| to_string(&format!("{name}[{index}]"), item))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn logit_bias(fields: &mut Fields) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let entries = fields.object("logit_bias")?.unwrap_or_default();
    if entries.len() > MAX_LOGIT_BIAS {
        let reason = format!("{} entries are more than {MAX_LOGIT_BIAS}", entries.len());
        return Err(ApiError::invalid("logit_bias", reason));
    }
    let read = |(token, bias): (&String, &Value)| {
        // One spelling for each id: `"+1"` and `"01"` would be further entries for the token of `"1"`.
        let id = token.parse().ok().filter(|id: &TokenId| id.to_string() == *token);
        let id = id
            .ok_or_else(|| ApiError::invalid("logit_bias", format!("{:?} is not a token id", echo(token))))?;
        Ok((id, to_number(&format!("logit_bias.{token}"), bias)?))
    };
    entries.iter().map(read).collect()
}

/// In ascending order.
fn allowed(fields: &mut Fields, vocab_size: u32) -> Result<Option<Vec<TokenId>>, ApiError> {
    let Some(value) = fields.take("allowed_token_ids") else { return Ok(None) };
    let mut ids = token_ids("allowed_token_ids", value, vocab_size)?;
    ids.sort_unstable();
    ids.dedup();
    Ok(Some(ids))
}

/// The chain has one order. Whoever names that one gets it.
fn check_order(samplers: Option<Value>) -> Result<(), ApiError> {
    let is_ours = match &samplers {
        None => true,
        Some(Value::String(short)) => short == SHORT_ORDER,
        Some(Value::Array(names)) => names.iter().map(Value::as_str).eq(ORDER.map(Some)),
        Some(_) => false,
    };
    if is_ours {
        return Ok(());
    }
    let reason = format!("the order of samplers is {}, and no other", ORDER.join(", "));
    Err(ApiError::Unsupported { param: "samplers".to_owned(), reason })
}

/// How many tokens come before one of `stops` may end the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MinTokens(u32);

impl MinTokens {
    /// # Errors
    /// If it is no count, or more than `max_tokens`.
    pub(super) fn read(fields: &mut Fields, max_tokens: Option<u32>) -> Result<Self, ApiError> {
        let count = fields.unsigned("min_tokens")?.unwrap_or(0);
        match max_tokens {
            Some(most) if count > most => {
                Err(ApiError::invalid("min_tokens", format!("{count} is more than max_tokens of {most}")))
            }
            _ => Ok(Self(count)),
        }
    }

    /// What may not be chosen after a prompt of `prompt` tokens.
    pub(super) fn ban(self, prompt: u32, stops: &[TokenId]) -> Option<Ban> {
        let before = prompt.saturating_add(self.0);
        (self.0 > 0).then(|| Ban { tokens: stops.to_vec(), before })
    }
}
