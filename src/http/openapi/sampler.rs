//! The rest of the sampling chain, forms that an answer is held to, and labels; the readers are `sampler_params.rs`,
//! `response_format.rs`, `admission.rs` and `params.rs`.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::generation::{mirostat, service_tier};
use super::tools::ResponseFormat;

/// The sampling chain beyond what OpenAI's clients know. docs/sampling.md gives its order.
#[derive(ToSchema)]
pub(super) struct Sampler {
    /// `repetition_penalty` under llama.cpp's name.
    #[schema(minimum = 0.01, maximum = 100)]
    repeat_penalty: Option<f32>,
    /// Of how many of the last tokens repetition counts; 0 none, -1 and absent all.
    #[schema(minimum = -1, maximum = 4294967295u64)]
    repeat_last_n: Option<i64>,
    /// Strength of DRY; 0 is off.
    dry_multiplier: Option<f32>,
    /// What DRY's penalty grows by with each token of a repetition.
    dry_base: Option<f32>,
    /// Repetitions up to this length cost nothing.
    dry_allowed_length: Option<u32>,
    /// In how many of the last tokens DRY looks; -1 is all.
    #[schema(minimum = -1, maximum = 4294967295u64)]
    dry_penalty_last_n: Option<i64>,
    /// Texts at which a repetition ends.
    dry_sequence_breakers: Option<Vec<String>>,
    /// Keeps logits within so many standard deviations of the largest; 0 and -1 keep all.
    #[schema(minimum = -1, maximum = 100)]
    top_n_sigma: Option<f32>,
    /// Keeps the tokens of most typical information that together have this probability.
    #[schema(minimum = 0, maximum = 1)]
    typical_p: Option<f32>,
    /// How often XTC takes the most likely tokens away.
    #[schema(minimum = 0, maximum = 1)]
    xtc_probability: Option<f32>,
    /// Above which probability XTC takes tokens away, but for the least likely of them.
    #[schema(minimum = 0, maximum = 1)]
    xtc_threshold: Option<f32>,
    /// The temperature varies by this much with the distribution's entropy.
    dynatemp_range: Option<f32>,
    /// How it varies.
    dynatemp_exponent: Option<f32>,
    /// 2 takes Mirostat 2.0 in place of the filters; 0 is off.
    #[schema(schema_with = mirostat)]
    mirostat: Option<u32>,
    /// The surprise that Mirostat aims at.
    mirostat_tau: Option<f32>,
    /// How fast it learns.
    mirostat_eta: Option<f32>,
    /// The order of the filters: only the one that is documented.
    #[schema(value_type = Option<Object>)]
    samplers: Option<Value>,
    /// The only tokens that may be chosen.
    #[schema(min_items = 1)]
    allowed_token_ids: Option<Vec<u32>>,
    /// Tokens before which nothing ends the text but a format that is complete.
    #[schema(minimum = 0, maximum = 4294967295u64)]
    min_tokens: Option<i64>,
}

/// What the text is held to while it is generated: at most one of these.
#[derive(ToSchema)]
pub(super) struct Format {
    /// `text`, `json_object`, or `json_schema` with a schema.
    response_format: Option<ResponseFormat>,
    /// One of `json`, `regex`, `choice`, `grammar`, `json_object`.
    #[schema(value_type = Option<Object>)]
    structured_outputs: Option<Map<String, Value>>,
    /// A JSON schema.
    #[schema(value_type = Option<Object>)]
    guided_json: Option<Map<String, Value>>,
    /// A regular expression for the whole text.
    guided_regex: Option<String>,
    /// The texts that it may be.
    #[schema(min_items = 1)]
    guided_choice: Option<Vec<String>>,
    /// A Lark grammar.
    guided_grammar: Option<String>,
}

/// What clients write for their own records.
#[derive(ToSchema)]
pub(super) struct Labels {
    /// Pairs of texts. They change nothing.
    metadata: Option<BTreeMap<String, String>>,
    /// Whom the client asks for. It changes nothing.
    #[schema(max_length = 512)]
    safety_identifier: Option<String>,
    /// For caches of many machines. It changes nothing.
    prompt_cache_key: Option<String>,
    /// How urgent it is; the answer names the one that was used.
    #[schema(schema_with = service_tier)]
    service_tier: Option<String>,
}
