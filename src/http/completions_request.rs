//! What a text completion request says, field by field.

use serde_json::Value;
use troupe_actors::model_card::ModelCard;
use troupe_actors::tokenizer::AddSpecial;
use troupe_protocol::TokenId;

use super::error::ApiError;
use super::fields::{Fields, Unimplemented, wrong_type};
use super::params::{self, Generation, MAX_CHOICES};
use super::tenants::Tenant;
use super::tokenize::add_special;

const UNIMPLEMENTED: &[Unimplemented] = &[Unimplemented { name: "suffix", neutral: &["\"\""] }];

/// A text completion request, validated as far as that needs no tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CompletionRequest {
    /// What to complete; at least one.
    pub(super) prompts: Vec<Prompt>,
    /// Whether strings get the tokenizer's special tokens.
    pub(super) add: AddSpecial,
    /// Whether the answer begins with the prompt.
    pub(super) echo: bool,
    /// How to answer.
    pub(super) generation: Generation,
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
    let mut generation = params::read(&mut fields, card, entropy)?;
    if prompts.len() as u64 * u64::from(generation.choices) > u64::from(MAX_CHOICES) {
        let reason = format!("{} prompts of n choices are more than {MAX_CHOICES} choices", prompts.len());
        return Err(ApiError::invalid("prompt", reason));
    }
    check_best_of(&mut fields, generation.choices)?;
    let logprobs = fields.unsigned("logprobs")?;
    generation.sampling.logprobs = logprobs.map(|top| params::alternatives("logprobs", top)).transpose()?;
    let echo = fields.bool("echo")?.unwrap_or(false);
    if echo && logprobs.is_some() {
        let reason =
            "log-probabilities of a prompt are not computed, so not together with logprobs".to_owned();
        return Err(ApiError::Unsupported { param: "echo".to_owned(), reason });
    }
    let add = add_special(&mut fields)?;
    fields.finish(&[UNIMPLEMENTED, params::UNIMPLEMENTED].concat())?;
    Ok(CompletionRequest { prompts, add, echo, generation })
}

/// Choosing the best of more choices than are returned is not implemented; of as many, there is nothing to choose.
fn check_best_of(fields: &mut Fields, choices: u32) -> Result<(), ApiError> {
    match fields.unsigned("best_of")? {
        Some(best_of) if best_of != choices => {
            let reason = format!("only the value of n ({choices}) is accepted");
            Err(ApiError::Unsupported { param: "best_of".to_owned(), reason })
        }
        _ => Ok(()),
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
