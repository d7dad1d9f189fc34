//! What chat and text completions have in common: how tokens are chosen, where they end, how they are delivered.

use serde_json::Value;
use troupe_actors::model_card::ModelCard;
use troupe_actors::session::{Admission, AnswerKind, Reading};
use troupe_protocol::sampling::MAX_LOGPROBS;
use troupe_protocol::{SamplingParams, TokenId};

use super::admission::{self, ServiceTier};
use super::error::ApiError;
use super::fields::{Fields, Unimplemented, is_beyond_64_bits, to_list, to_string, to_u32, wrong_type};
use super::response_format::{self, Format};
use super::sampler_params::{self, MinTokens};
use super::tenants::Tenant;

/// The most sequences of one request: prompts times choices.
pub(super) const MAX_CHOICES: u32 = 128;
/// The most stop strings of one request.
pub(super) const MAX_STOPS: usize = 16;
/// The most bytes of one stop string. Text that may be the start of one is held back, so this bounds a session.
pub(super) const MAX_STOP_BYTES: usize = 1024;

/// The most entries of `metadata`.
const MAX_METADATA: usize = 16;
/// The most characters of a key in it.
const MAX_METADATA_KEY: usize = 64;
/// The most characters of a value in it.
const MAX_METADATA_VALUE: usize = 512;

/// How one request wants to be served.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generation {
    /// Choices for each prompt.
    pub(super) choices: u32,
    /// The most tokens of a choice; `None` goes to the end of the context.
    pub(super) max_tokens: Option<u32>,
    /// What a choice is.
    pub(super) answer: AnswerKind,
    /// The least tokens of a choice before it may end by itself.
    pub(super) min_tokens: MinTokens,
    /// How tokens are chosen, but for the seed and what `min_tokens` bans.
    pub(super) sampling: SamplingParams,
    /// Whose draws.
    pub(super) seed: Seed,
    /// Strings that end the text and are not part of it.
    pub(super) stop: Vec<String>,
    /// Tokens that end the text.
    pub(super) stop_tokens: Vec<TokenId>,
    /// How reasoning and calls are told from content; all is content without it.
    pub(super) reading: Option<Reading>,
    /// What the text has to be.
    pub(super) format: Option<Format>,
    /// Whether and how the answer is streamed.
    pub(super) delivery: Delivery,
    /// How it wants to be scheduled. Whose it is, the request does not say.
    pub(super) admission: Admission,
    /// The class of service that it named, or the lower one that its tenant may have. The answer says which.
    pub(super) service_tier: Option<ServiceTier>,
}

/// Where the draws of a request come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seed {
    /// The client's: each prompt's choices count up from it.
    Given(u64),
    /// Fresh entropy: each sequence of the request has its own.
    Fresh(u64),
}

impl Seed {
    /// The seed of choice `choice` (of `choices`) for prompt `prompt`.
    pub(super) fn of(self, prompt: u32, choice: u32, choices: u32) -> u64 {
        match self {
            Self::Given(seed) => seed.wrapping_add(u64::from(choice)),
            Self::Fresh(seed) => {
                seed.wrapping_add(u64::from(prompt) * u64::from(choices) + u64::from(choice))
            }
        }
    }
}

/// How an answer travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// One JSON document.
    Whole,
    /// Server-sent events.
    Stream {
        /// Whether a last chunk tells the usage.
        include_usage: bool,
    },
}

/// Fields of both endpoints that this server does not implement.
pub(super) const UNIMPLEMENTED: &[Unimplemented] = &[
    Unimplemented { name: "bad_words", neutral: &["[]"] },
    Unimplemented { name: "detokenize", neutral: &["true"] },
    Unimplemented { name: "include_stop_str_in_output", neutral: &["false"] },
    Unimplemented { name: "kv_transfer_params", neutral: &[] },
    Unimplemented { name: "length_penalty", neutral: &["1", "1.0"] },
    Unimplemented { name: "logits_processors", neutral: &[] },
    Unimplemented { name: "min_keep", neutral: &["0"] },
    Unimplemented { name: "prompt_logprobs", neutral: &[] },
    Unimplemented { name: "request_id", neutral: &[] },
    Unimplemented { name: "return_token_ids", neutral: &["false"] },
    Unimplemented { name: "return_tokens_as_token_ids", neutral: &["false"] },
    Unimplemented { name: "skip_special_tokens", neutral: &["true"] },
    Unimplemented { name: "spaces_between_special_tokens", neutral: &["true"] },
    Unimplemented { name: "truncate_prompt_tokens", neutral: &[] },
    Unimplemented { name: "use_beam_search", neutral: &["false"] },
    Unimplemented { name: "vllm_xargs", neutral: &[] },
];

/// Refuses a model that is not served, or not to this tenant: it cannot tell one from the other. No model at all means
/// the one that is served.
///
/// # Errors
/// [`ApiError::ModelNotFound`], or a wrong type.
pub(super) fn check_model(fields: &mut Fields, card: &ModelCard, tenant: &Tenant) -> Result<(), ApiError> {
    let model = fields.string("model")?.unwrap_or_else(|| card.id.clone());
    if card.answers_to(&model) && tenant.may_ask_for(&model) {
        Ok(())
    } else {
        Err(ApiError::ModelNotFound { model })
    }
}

/// Takes the common fields; `logprobs` is the caller's, since the endpoints spell it differently.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(fields: &mut Fields, card: &ModelCard, entropy: u64) -> Result<Generation, ApiError> {
    read_with(fields, card, entropy, 1)
}

/// The same where `max_tokens` is at least `least_tokens`.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read_with(
    fields: &mut Fields,
    card: &ModelCard,
    entropy: u64,
    least_tokens: u32,
) -> Result<Generation, ApiError> {
    labels(fields)?;
    let sampling = sampler_params::read(fields, card)?;
    let max_tokens = max_tokens(fields, least_tokens)?;
    let (admission, service_tier) = admission::read(fields)?;
    Ok(Generation {
        choices: choices(fields)?,
        max_tokens,
        answer: AnswerKind::Generated,
        min_tokens: MinTokens::read(fields, max_tokens)?,
        sampling,
        seed: seed(fields)?.map_or(Seed::Fresh(entropy), Seed::Given),
        stop: stop_strings(fields)?,
        stop_tokens: stop_tokens(fields, card)?,
        reading: None,
        format: response_format::read(fields)?,
        delivery: delivery(fields)?,
        admission,
        service_tier,
    })
}

/// Takes what clients write for their own records, and what only a cache of many machines needs. Nothing is kept of it.
fn labels(fields: &mut Fields) -> Result<(), ApiError> {
    let user = fields.string("user")?;
    let safety_identifier = fields.string("safety_identifier")?;
    let prompt_cache_key = fields.string("prompt_cache_key")?;
    tracing::trace!(user, safety_identifier, prompt_cache_key, "reading a request");
    let metadata = fields.object("metadata")?.unwrap_or_default();
    if metadata.len() > MAX_METADATA {
        let reason = format!("{} entries are more than {MAX_METADATA}", metadata.len());
        return Err(ApiError::invalid("metadata", reason));
    }
    for (key, value) in metadata {
        let (length, value) = (key.chars().count(), to_string(&format!("metadata.{key}"), value)?);
        if length > MAX_METADATA_KEY || value.chars().count() > MAX_METADATA_VALUE {
            let reason = format!(
                "a key has up to {MAX_METADATA_KEY} characters and a value up to {MAX_METADATA_VALUE}"
            );
            return Err(ApiError::invalid(format!("metadata.{key}"), reason));
        }
    }
    Ok(())
}

fn choices(fields: &mut Fields) -> Result<u32, ApiError> {
    match fields.unsigned("n")?.unwrap_or(1) {
        n if (1..=MAX_CHOICES).contains(&n) => Ok(n),
        n => Err(ApiError::invalid("n", format!("{n} is not between 1 and {MAX_CHOICES}"))),
    }
}

fn max_tokens(fields: &mut Fields, least: u32) -> Result<Option<u32>, ApiError> {
    let mut read = |name: &str| match fields.unsigned(name)? {
        Some(bound) if bound < least => {
            Err(ApiError::invalid(name, format!("{bound} is less than the minimum of {least}")))
        }
        bound => Ok(bound),
    };
    match (read("max_tokens")?, read("max_completion_tokens")?) {
        (Some(old), Some(new)) if old != new => {
            Err(ApiError::invalid("max_tokens", format!("{old} contradicts max_completion_tokens of {new}")))
        }
        (old, new) => Ok(new.or(old)),
    }
}

/// Any integer of 64 bits; a negative one stands for its two's complement.
fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let read = |value: Value| match &value {
        Value::Number(number) if !number.is_f64() => {
            Ok(number.as_u64().unwrap_or_else(|| number.as_i64().map_or(0, i64::cast_unsigned)))
        }
        Value::Number(number) if is_beyond_64_bits(number) => {
            let reason = format!("{number} is not between {} and {}", i64::MIN, u64::MAX);
            Err(ApiError::invalid("seed", reason))
        }
        other => Err(wrong_type("seed", "an integer of 64 bits", other)),
    };
    fields.take("seed").map(read).transpose()
}

fn stop_strings(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let stops = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::String(stop)) => vec![stop],
        Some(Value::Array(stops)) => stops
            .into_iter()
            .enumerate()
            .map(|(index, stop)| to_string(&format!("stop[{index}]"), stop))
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(wrong_type("stop", "a string or an array of strings", &other)),
    };
    if stops.len() > MAX_STOPS {
        return Err(ApiError::invalid("stop", format!("{} strings are more than {MAX_STOPS}", stops.len())));
    }
    for stop in &stops {
        match stop.len() {
            0 => return Err(ApiError::invalid("stop", "a stop string is empty")),
            1..=MAX_STOP_BYTES => {}
            bytes => {
                let reason = format!("a stop string of {bytes} bytes is longer than {MAX_STOP_BYTES}");
                return Err(ApiError::invalid("stop", reason));
            }
        }
    }
    Ok(stops)
}

fn stop_tokens(fields: &mut Fields, card: &ModelCard) -> Result<Vec<TokenId>, ApiError> {
    let mut stops = match fields.take("stop_token_ids") {
        Some(value) => token_ids("stop_token_ids", value, card.limits.vocab_size)?,
        None => Vec::new(),
    };
    if stops.len() > MAX_STOPS {
        return Err(ApiError::invalid(
            "stop_token_ids",
            format!("{} are more than {MAX_STOPS}", stops.len()),
        ));
    }
    if !fields.bool("ignore_eos")?.unwrap_or(false) {
        stops.extend(card.end_tokens());
    }
    Ok(stops)
}

/// How many alternatives to report with each token; asked for as `param`.
///
/// # Errors
/// If it is above [`MAX_LOGPROBS`].
pub(super) fn alternatives(param: &str, count: u32) -> Result<u8, ApiError> {
    match u8::try_from(count) {
        Ok(count) if count <= MAX_LOGPROBS => Ok(count),
        _ => Err(ApiError::invalid(param, format!("{count} is above the limit of {MAX_LOGPROBS}"))),
    }
}

/// A list of ids below the vocabulary's size, named `param` in errors.
///
/// # Errors
/// If it is no list, or holds something else.
pub(super) fn token_ids(param: &str, value: Value, vocab_size: u32) -> Result<Vec<TokenId>, ApiError> {
    let read = |(index, value): (usize, Value)| match to_u32(&format!("{param}[{index}]"), &value)? {
        id if id < vocab_size => Ok(id),
        id => {
            let reason = format!("token {id} is not below the vocabulary size of {vocab_size}");
            Err(ApiError::invalid(format!("{param}[{index}]"), reason))
        }
    };
    to_list(param, value)?.into_iter().enumerate().map(read).collect()
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    const UNIMPLEMENTED: &[Unimplemented] = &[
        Unimplemented { name: "continuous_usage_stats", neutral: &["false"] },
        Unimplemented { name: "include_obfuscation", neutral: &["false"] },
    ];
    let stream = fields.bool("stream")?.unwrap_or(false);
    match (stream, fields.take("stream_options")) {
        (false, None) => Ok(Delivery::Whole),
        (false, Some(_)) => {
            Err(ApiError::invalid("stream_options", "it is allowed only when stream is true"))
        }
        (true, None) => Ok(Delivery::Stream { include_usage: false }),
        (true, Some(options)) => {
            let mut options = Fields::of(options, "stream_options")?;
            let within = |error: ApiError| error.within("stream_options");
            let include_usage = options.bool("include_usage").map_err(within)?.unwrap_or(false);
            options.finish(UNIMPLEMENTED).map_err(within)?;
            Ok(Delivery::Stream { include_usage })
        }
    }
}

impl Generation {
    /// Refuses a choice of tokens beside a format, which would take its place.
    ///
    /// # Errors
    /// If there are both.
    pub(super) fn check_format(&self) -> Result<(), ApiError> {
        match self.format.as_ref().filter(|_| self.sampling.allowed.is_some()) {
            Some(format) => {
                Err(ApiError::invalid("allowed_token_ids", format!("it contradicts {}", format.param())))
            }
            None => Ok(()),
        }
    }

    /// The most tokens of a choice after a prompt of `prompt` tokens.
    ///
    /// # Errors
    /// If the prompt is empty or both do not fit the context. `part` is the parameter that holds the prompt.
    pub(super) fn room(&self, prompt: usize, part: &'static str, limit: u32) -> Result<u32, ApiError> {
        if prompt == 0 {
            return Err(ApiError::invalid(part, "it holds no token"));
        }
        // A prompt as long as the context leaves no room for the one token that is generated at least.
        let completion = self.max_tokens.unwrap_or(1);
        if prompt as u64 + u64::from(completion) > u64::from(limit) {
            return Err(ApiError::ContextLength {
                part,
                prompt: prompt as u64,
                completion: completion.into(),
                limit,
            });
        }
        Ok(self.max_tokens.unwrap_or(limit - prompt as u32))
    }

    /// How the answer of one sequence is read, with ids of its own for its calls.
    pub(super) fn reading_of(&self, index: u32) -> Option<Reading> {
        let own =
            |reading: Reading| Reading { id_seed: reading.id_seed.wrapping_add(index.into()), ..reading };
        self.reading.clone().map(own)
    }

    /// The sampling parameters of choice `choice` for prompt number `prompt`, which has `length` tokens.
    pub(super) fn sampling_of(&self, prompt: u32, choice: u32, length: usize) -> SamplingParams {
        SamplingParams {
            ban: self.min_tokens.ban(length as u32, &self.stop_tokens),
            seed: self.seed.of(prompt, choice, self.choices),
            ..self.sampling.clone()
        }
    }
}
