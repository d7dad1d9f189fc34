//! GGUF metadata as the configuration that a Hugging Face folder of the same model would hold, so that a model family
//! reads one shape of configuration.

use serde_json::{Map, Value, json};

use super::architecture::Architecture;
use super::metadata::Metadata;
use crate::error::{ModelFileError, Result};

/// A whole number larger than any that describes a model: what a hostile file is stopped at.
const MAX_NUMBER: u64 = 1 << 31;
/// Keys whose presence means something that is not read; ignoring it would give wrong numbers.
const REFUSED: [&str; 4] = [
    "expert_count",
    "rope.scaling.yarn_log_multiplier",
    "attention.clamp_kqv",
    "attention.temperature_scale",
];

/// What the configuration and the tensors have to agree on, out of the metadata, checked to be positive.
#[derive(Debug)]
pub(super) struct Dimensions {
    pub(super) hidden_size: u64,
    pub(super) num_layers: u64,
    pub(super) num_heads: u64,
    pub(super) num_kv_heads: u64,
    pub(super) head_dim: u64,
}

/// What is known of a model only from its tensors.
#[derive(Debug)]
pub(super) struct FromTensors {
    /// Rows of the token embedding.
    pub(super) vocab_size: usize,
    /// Whether `output.weight` is absent.
    pub(super) tied_head: bool,
    /// Whether q, k, v and o have biases.
    pub(super) attention_bias: bool,
    /// Whether the projections of the feed-forward part have biases.
    pub(super) mlp_bias: bool,
    /// Values of `rope_freqs.weight`: what each rotary frequency is divided by.
    pub(super) rope_freqs: Option<Vec<f32>>,
    /// Values of `rope_factors_short.weight` and `rope_factors_long.weight`.
    pub(super) rope_factors: Option<(Vec<f32>, Vec<f32>)>,
}

/// Metadata keys under the architecture's prefix.
pub(super) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'static Architecture,
}

impl<'a> Keys<'a> {
    pub(super) fn new(metadata: &'a Metadata, architecture: &'static Architecture) -> Self {
        Self { metadata, architecture }
    }

    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    fn error(&self, key: &str, problem: impl Into<String>) -> ModelFileError {
        ModelFileError::key(self.metadata.path(), self.full(key), problem)
    }

    /// A number from 1 to [`MAX_NUMBER`].
    fn positive(&self, key: &str) -> Result<Option<u64>> {
        match self.metadata.unsigned(&self.full(key))? {
            Some(number) if !(1..=MAX_NUMBER).contains(&number) => {
                Err(self.error(key, format!("expected a number from 1 to {MAX_NUMBER}, found {number}")))
            }
            number => Ok(number),
        }
    }

    fn required(&self, key: &str) -> Result<u64> {
        self.positive(key)?.ok_or_else(|| self.error(key, "missing"))
    }

    fn float(&self, key: &str) -> Result<Option<f64>> {
        self.metadata.float(&self.full(key))
    }

    fn required_float(&self, key: &str) -> Result<f64> {
        self.float(key)?.ok_or_else(|| self.error(key, "missing"))
    }
}

/// Reads what the tensors are checked against, and refuses keys that change the model in ways that are not read.
pub(super) fn dimensions(keys: &Keys<'_>) -> Result<Dimensions> {
    for key in REFUSED {
        // Converters write a harmless zero for some of these.
        if keys.metadata.contains(&keys.full(key)) && keys.float(key)? != Some(0.0) {
            return Err(keys.error(key, "not supported"));
        }
    }
    let hidden = keys.required("embedding_length")?;
    let num_heads = keys.required("attention.head_count")?;
    let num_kv_heads = keys.positive("attention.head_count_kv")?.unwrap_or(num_heads);
    if !num_heads.is_multiple_of(num_kv_heads) {
        let problem = format!("{num_heads} query heads do not divide over {num_kv_heads} key heads");
        return Err(keys.error("attention.head_count_kv", problem));
    }
    let head_dim = match keys.positive("attention.key_length")? {
        Some(length) => length,
        None if hidden.is_multiple_of(num_heads) => hidden / num_heads,
        None => {
            let problem =
                format!("{num_heads} heads do not divide {hidden}, and attention.key_length is missing");
            return Err(keys.error("attention.head_count", problem));
        }
    };
    if keys.positive("attention.value_length")?.is_some_and(|length| length != head_dim) {
        return Err(keys.error("attention.value_length", format!("differs from the key length {head_dim}")));
    }
    if !head_dim.is_multiple_of(2) {
        return Err(keys.error("attention.key_length", format!("expected an even number, found {head_dim}")));
    }
    let num_layers = keys.required("block_count")?;
    Ok(Dimensions { hidden_size: hidden, num_layers, num_heads, num_kv_heads, head_dim })
}

/// The whole configuration.
pub(super) fn config(
    keys: &Keys<'_>,
    dimensions: &Dimensions,
    tensors: &FromTensors,
) -> Result<Map<String, Value>> {
    let context = keys.required("context_length")?;
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    set("model_type", json!(keys.architecture.model_type));
    set("hidden_size", json!(dimensions.hidden_size));
    set("num_hidden_layers", json!(dimensions.num_layers));
    set("num_attention_heads", json!(dimensions.num_heads));
    set("num_key_value_heads", json!(dimensions.num_kv_heads));
    set("head_dim", json!(dimensions.head_dim));
    set("intermediate_size", json!(keys.required("feed_forward_length")?));
    set("max_position_embeddings", json!(context));
    set("vocab_size", json!(tensors.vocab_size));
    set("tie_word_embeddings", json!(tensors.tied_head));
    set("attention_bias", json!(tensors.attention_bias));
    set("mlp_bias", json!(tensors.mlp_bias));
    set("hidden_act", json!("silu"));
    set("rms_norm_eps", json!(keys.required_float("attention.layer_norm_rms_epsilon")?));
    // llama.cpp's own default.
    set("rope_theta", json!(keys.float("rope.freq_base")?.unwrap_or(10_000.0)));
    if let Some(turned) = keys.positive("rope.dimension_count")?
        && turned != dimensions.head_dim
    {
        set("partial_rotary_factor", json!(turned as f64 / dimensions.head_dim as f64));
    }
    if let Some(window) = keys.positive("attention.sliding_window")? {
        set("sliding_window", json!(window));
    }
    if let Some(scaling) = rope_scaling(keys, tensors, context)? {
        set("rope_scaling", scaling);
    }
    for (key, gguf) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
        if let Some(id) = keys.metadata.unsigned(&format!("tokenizer.ggml.{gguf}_token_id"))? {
            set(key, json!(id));
        }
    }
    Ok(config)
}

/// `rope_scaling`, or `None` for plain rotary embedding.
///
/// The frequency divisors of `rope_freqs.weight`, which is how a converter stores the `llama3` kind, become a
/// `longrope` entry whose short and long factors are both those divisors and whose attention factor is 1: the same
/// arithmetic, with no loss.
fn rope_scaling(keys: &Keys<'_>, tensors: &FromTensors, context: u64) -> Result<Option<Value>> {
    let kind_key = keys.full("rope.scaling.type");
    let original = keys.positive("rope.scaling.original_context_length")?.unwrap_or(context);
    let kind = keys.metadata.string(&kind_key)?;
    let factor = || keys.required_float("rope.scaling.factor");
    if let Some(freqs) = &tensors.rope_freqs {
        if !matches!(kind, None | Some("none")) {
            return Err(ModelFileError::key(
                keys.metadata.path(),
                kind_key,
                "given beside rope_freqs.weight",
            ));
        }
        return Ok(Some(longrope(freqs, freqs, original, Some(1.0))));
    }
    Ok(match kind {
        // Files from before the key have at most a linear factor.
        None => match keys.float("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => keys.float("rope.scale_linear")?,
        }
        .filter(|&factor| factor != 1.0)
        .map(linear),
        Some("none") => None,
        Some("linear") => Some(linear(factor()?)),
        Some("yarn") => Some(yarn(keys, factor()?, original)?),
        Some("longrope") => {
            let Some((short, long)) = &tensors.rope_factors else {
                let problem = "longrope needs rope_factors_short.weight and rope_factors_long.weight";
                return Err(ModelFileError::key(keys.metadata.path(), kind_key, problem));
            };
            Some(longrope(short, long, original, keys.float("rope.scaling.attn_factor")?))
        }
        Some(other) => {
            let problem = format!("`{other}` is not one of none, linear, yarn, longrope");
            return Err(ModelFileError::key(keys.metadata.path(), kind_key, problem));
        }
    })
}

fn linear(factor: f64) -> Value {
    json!({"rope_type": "linear", "factor": factor})
}

fn longrope(short: &[f32], long: &[f32], original: u64, attention_factor: Option<f64>) -> Value {
    let mut entry = json!({
        "rope_type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": original,
    });
    if let Some(attention_factor) = attention_factor {
        entry["attention_factor"] = json!(attention_factor);
    }
    entry
}

/// llama.cpp multiplies YaRN's own attention factor by `attn_factor`; Hugging Face's key replaces it.
fn yarn(keys: &Keys<'_>, factor: f64, original: u64) -> Result<Value> {
    let mut entry = json!({
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
    });
    let multiplier = match keys.float("rope.scaling.yarn_attn_factor")? {
        Some(multiplier) => Some(multiplier),
        None => keys.float("rope.scaling.attn_factor")?,
    };
    if let Some(multiplier) = multiplier {
        entry["attention_factor"] = json!(multiplier * (0.1 * factor.max(1.0).ln() + 1.0));
    }
    for (key, gguf) in
        [("beta_fast", "rope.scaling.yarn_beta_fast"), ("beta_slow", "rope.scaling.yarn_beta_slow")]
    {
        if let Some(beta) = keys.float(gguf)? {
            entry[key] = json!(beta);
        }
    }
    Ok(entry)
}
