//! What a text completion request says, field by field.

use serde_json::Value;
use troupe_actors::model_card::ModelCard;
use troupe_actors::session::AnswerKind;
use troupe_actors::tokenizer::{AddSpecial, FillIn};
use troupe_protocol::TokenId;

use super::error::ApiError;
use super::fields::{Fields, Unimplemented, wrong_type};
use super::params::{self, Delivery, Generation, MAX_CHOICES};
use super::response_format;
use super::tenants::Tenant;
use super::tokenize::add_special;

/// Fields of this endpoint that this server does not implement.
pub(super) const UNIMPLEMENTED: &[Unimplemented] = &[];

/// A text completion request, validated as far as that needs no tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CompletionRequest {
    /// What to complete; at least one.
    pub(super) prompts: Vec<Prompt>,
    /// Whether strings get the tokenizer's special tokens.
    pub(super) add: AddSpecial,
    /// The text behind the gap that the answer fills, if it fills one.
    pub(super) suffix: Option<Suffix>,
    /// Whether the answer begins with the prompt.
    pub(super) echo: bool,
    /// How many choices are generated for each prompt, if more than are answered with.
    pub(super) best_of: Option<u32>,
    /// How to answer.
    pub(super) generation: Generation,
}

/// What follows the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suffix {
    /// The text.
    pub(super) text: String,
    /// The tokens that tell the model.
    pub(super) fill_in: FillIn,
}

/// One prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// To be encoded.
    Text(String),
    /// Encoded already; each id is below the vocabulary's size.
    Tokens(Vec<TokenId>),
}

/// Reads a text completion request.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(
    mut fields: Fields,
    card: &ModelCard,
    tenant: &Tenant,
    entropy: u64,
) -> Result<CompletionRequest, ApiError> {
    params::check_model(&mut fields, card, tenant)?;
    let prompts = prompts(fields.required("prompt")?, card.limits.vocab_size)?;
    let echo = fields.bool("echo")?.unwrap_or(false);
    // With the prompt in it, an answer may be nothing else.
    let least_tokens = if echo { 0 } else { 1 };
    let mut generation = params::read_with(&mut fields, card, entropy, least_tokens)?;
    if generation.max_tokens == Some(0) {
        generation.answer = AnswerKind::Prompt;
        generation.max_tokens = Some(1);
    }
    generation.check_format()?;
    let best_of = best_of(&mut fields, &generation)?;
    let choices = best_of.unwrap_or(generation.choices);
    if prompts.len() as u64 * u64::from(choices) > u64::from(MAX_CHOICES) {
        let reason =
            format!("{} prompts of {choices} choices are more than {MAX_CHOICES} choices", prompts.len());
        return Err(ApiError::invalid("prompt", reason));
    }
    let logprobs = fields.unsigned("logprobs")?;
    let logprobs = logprobs.map(|top| params::alternatives("logprobs", top)).transpose()?;
    generation.sampling.logprobs = logprobs;
    if echo {
        generation.sampling.prompt_logprobs = logprobs;
    }
    let add = add_special(&mut fields)?;
    let suffix = suffix(&mut fields, card)?;
    if suffix.is_some() && generation.sampling.prompt_logprobs.is_some() {
        let reason =
            "with a suffix the prompt is more than its text, so not together with logprobs".to_owned();
        return Err(ApiError::Unsupported { param: "echo".to_owned(), reason });
    }
    fields.finish(&[UNIMPLEMENTED, params::UNIMPLEMENTED, response_format::UNIMPLEMENTED].concat())?;
    Ok(CompletionRequest { prompts, add, suffix, echo, best_of, generation })
}

fn suffix(fields: &mut Fields, card: &ModelCard) -> Result<Option<Suffix>, ApiError> {
    let Some(text) = fields.string("suffix")?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let fill_in = FillIn::of(&card.tokenizer).ok_or_else(|| ApiError::Unsupported {
        param: "suffix".to_owned(),
        reason: "this model's vocabulary has no tokens for filling in".to_owned(),
    })?;
    Ok(Some(Suffix { text, fill_in }))
}

/// How many choices the answer's are the best of, if of more than themselves. Which they are is known in the end only, so
/// that they cannot be streamed.
fn best_of(fields: &mut Fields, generation: &Generation) -> Result<Option<u32>, ApiError> {
    let n = generation.choices;
    match fields.unsigned("best_of")?.filter(|&count| count != n) {
        None => Ok(None),
        Some(count) if count < n => {
            Err(ApiError::invalid("best_of", format!("{count} is less than n, which is {n}")))
        }
        Some(count) if count > MAX_CHOICES => {
            Err(ApiError::invalid("best_of", format!("{count} is above the limit of {MAX_CHOICES}")))
        }
        Some(_) if generation.delivery != Delivery::Whole => {
            Err(ApiError::invalid("best_of", "the best are known in the end only, so they are not streamed"))
        }
        count => Ok(count),
    }
}

/// A string, an array of strings, an array of tokens, or an array of arrays of tokens.
fn prompts(value: Value, vocab_size: u32) -> Result<Vec<Prompt>, ApiError> {
    let items = match value {
        Value::String(text) => return Ok(vec![Prompt::Text(text)]),
        Value::Array(items) => items,
        other => {
            return Err(wrong_type("prompt", "a string, an array of strings or an array of tokens", &other));
        }
    };
    match items.first() {
        None => Err(ApiError::invalid("prompt", "it is an empty array")),
        Some(Value::Number(_)) => {
            Ok(vec![Prompt::Tokens(params::token_ids("prompt", Value::Array(items), vocab_size)?)])
        }
        Some(_) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| prompt(&format!("prompt[{index}]"), item, vocab_size))
            .collect(),
    }
}

fn prompt(param: &str, value: Value, vocab_size: u32) -> Result<Prompt, ApiError> {
    match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(_) => Ok(Prompt::Tokens(params::token_ids(param, value, vocab_size)?)),
        other => Err(wrong_type(param, "a string or an array of tokens", &other)),
    }
}
