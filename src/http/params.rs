//! What chat and text completions have in common: how tokens are chosen, where they end, how they are delivered.

use serde_json::Value;
use troupe_actors::model_card::ModelCard;
use troupe_actors::session::Admission;
use troupe_protocol::sampling::MAX_LOGPROBS;
use troupe_protocol::{SamplingParams, TokenId};

use super::admission;
use super::error::{ApiError, echo};
use super::fields::{
    Fields, Unimplemented, is_beyond_64_bits, to_list, to_number, to_string, to_u32, wrong_type,
};
use super::tenants::Tenant;

/// The most sequences of one request: prompts times choices.
pub(super) const MAX_CHOICES: u32 = 128;
/// The most stop strings of one request.
pub(super) const MAX_STOPS: usize = 16;
/// The most bytes of one stop string. Text that may be the start of one is held back, so this bounds a session.
pub(super) const MAX_STOP_BYTES: usize = 1024;
/// The most entries of `logit_bias`.
pub(super) const MAX_LOGIT_BIAS: usize = 1024;

/// How one request wants to be served.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generation {
    /// Choices for each prompt.
    pub(super) choices: u32,
    /// The most tokens of a choice; `None` goes to the end of the context.
    pub(super) max_tokens: Option<u32>,
    /// How tokens are chosen, but for the seed.
    pub(super) sampling: SamplingParams,
    /// Whose draws.
    pub(super) seed: Seed,
    /// Strings that end the text and are not part of it.
    pub(super) stop: Vec<String>,
    /// Tokens that end the text.
    pub(super) stop_tokens: Vec<TokenId>,
    /// Whether and how the answer is streamed.
    pub(super) delivery: Delivery,
    /// How it wants to be scheduled. Whose it is, the request does not say.
    pub(super) admission: Admission,
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
    Unimplemented { name: "allowed_token_ids", neutral: &[] },
    Unimplemented { name: "bad_words", neutral: &["[]"] },
    Unimplemented { name: "detokenize", neutral: &["true"] },
    Unimplemented { name: "guided_choice", neutral: &[] },
    Unimplemented { name: "guided_grammar", neutral: &[] },
    Unimplemented { name: "guided_json", neutral: &[] },
    Unimplemented { name: "guided_regex", neutral: &[] },
    Unimplemented { name: "include_stop_str_in_output", neutral: &["false"] },
    Unimplemented { name: "kv_transfer_params", neutral: &[] },
    Unimplemented { name: "length_penalty", neutral: &["1", "1.0"] },
    Unimplemented { name: "logits_processors", neutral: &[] },
    Unimplemented { name: "metadata", neutral: &["{}"] },
    Unimplemented { name: "min_tokens", neutral: &["0"] },
    Unimplemented { name: "prompt_logprobs", neutral: &[] },
    Unimplemented { name: "request_id", neutral: &[] },
    Unimplemented { name: "response_format", neutral: &[r#"{"type":"text"}"#] },
    Unimplemented { name: "return_token_ids", neutral: &["false"] },
    Unimplemented { name: "return_tokens_as_token_ids", neutral: &["false"] },
    Unimplemented { name: "skip_special_tokens", neutral: &["true"] },
    Unimplemented { name: "spaces_between_special_tokens", neutral: &["true"] },
    Unimplemented { name: "structured_outputs", neutral: &[] },
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
    let user = fields.string("user")?;
    tracing::trace!(user, "reading a request");
    let sampling = sampling(fields, card)?;
    sampling.validate(card.limits.vocab_size)?;
    Ok(Generation {
        choices: choices(fields)?,
        max_tokens: max_tokens(fields)?,
        sampling,
        seed: seed(fields)?.map_or(Seed::Fresh(entropy), Seed::Given),
        stop: stop_strings(fields)?,
        stop_tokens: stop_tokens(fields, card)?,
        delivery: delivery(fields)?,
        admission: admission::read(fields)?,
    })
}

fn sampling(fields: &mut Fields, card: &ModelCard) -> Result<SamplingParams, ApiError> {
    let defaults = card.default_sampling();
    let mut number = |name: &str, default: f32| Ok::<_, ApiError>(fields.number(name)?.unwrap_or(default));
    Ok(SamplingParams {
        temperature: number("temperature", defaults.temperature)?,
        top_p: number("top_p", defaults.top_p)?,
        min_p: number("min_p", defaults.min_p)?,
        repetition_penalty: number("repetition_penalty", defaults.repetition_penalty)?,
        presence_penalty: number("presence_penalty", defaults.presence_penalty)?,
        frequency_penalty: number("frequency_penalty", defaults.frequency_penalty)?,
        top_k: top_k(fields)?.unwrap_or(defaults.top_k),
        logit_bias: logit_bias(fields)?,
        seed: 0,
        logprobs: None,
    })
}

/// vLLM also spells "all tokens" as -1.
fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    match fields.take("top_k") {
        Some(value) if value.as_i64() == Some(-1) => Ok(Some(0)),
        Some(value) => to_u32("top_k", &value).map(Some),
        None => Ok(None),
    }
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

fn choices(fields: &mut Fields) -> Result<u32, ApiError> {
    match fields.unsigned("n")?.unwrap_or(1) {
        n if (1..=MAX_CHOICES).contains(&n) => Ok(n),
        n => Err(ApiError::invalid("n", format!("{n} is not between 1 and {MAX_CHOICES}"))),
    }
}

fn max_tokens(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let mut read = |name: &str| match fields.unsigned(name)? {
        Some(0) => Err(ApiError::invalid(name, "0 is less than the minimum of 1")),
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
        stops.extend(&card.defaults.eos_token_ids);
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

    /// The sampling parameters of one sequence.
    pub(super) fn sampling_of(&self, prompt: u32, choice: u32) -> SamplingParams {
        SamplingParams { seed: self.seed.of(prompt, choice, self.choices), ..self.sampling.clone() }
    }
}
