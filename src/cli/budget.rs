//! What a model would take of memory. Pure arithmetic over the numbers of its configuration.

use serde::Serialize;
use serde_json::{Map, Value};
use troupe_config::{Device, EngineConfig, Weights};
use troupe_model_files::Summary;
use troupe_protocol::StepDefaults;

/// The numbers of a transformer that decide what its KV cache takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Shape {
    pub(super) num_layers: Option<u64>,
    pub(super) hidden_size: Option<u64>,
    pub(super) num_heads: Option<u64>,
    pub(super) num_kv_heads: Option<u64>,
    pub(super) head_dim: Option<u64>,
}

impl Shape {
    /// Reads Hugging Face's keys, at the top or (models with several towers) under `text_config`.
    pub(super) fn of(config: &Map<String, Value>) -> Self {
        let number = |key: &str| {
            let nested = || config.get("text_config").and_then(|text| text.get(key));
            config.get(key).or_else(nested).and_then(Value::as_u64)
        };
        let hidden_size = number("hidden_size");
        let num_heads = number("num_attention_heads");
        let split = || hidden_size?.checked_div(num_heads?);
        Self {
            num_layers: number("num_hidden_layers"),
            hidden_size,
            num_heads,
            num_kv_heads: number("num_key_value_heads").or(num_heads),
            head_dim: number("head_dim").or_else(split),
        }
    }

    /// Bytes of keys and values of one token over all layers. An upper bound for models that keep
    /// less in some layers.
    fn kv_bytes_per_token(&self, element_bytes: u64) -> Option<u64> {
        let elements = self.num_layers?.checked_mul(self.num_kv_heads?)?.checked_mul(self.head_dim?)?;
        elements.checked_mul(2)?.checked_mul(element_bytes)
    }
}

/// In which type weights are kept, once `auto` is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeptAs {
    Stored,
    F32,
}

impl KeptAs {
    fn decide(engine: &EngineConfig) -> Self {
        match engine.weights {
            Weights::Auto | Weights::Stored => Self::Stored,
            Weights::F32 => Self::F32,
        }
    }
}

/// Bytes of one number that is computed with, and so kept in the KV blocks: f32, or halves where weights as stored are
/// computed as they are. Without a look at the devices of this machine, `auto` is taken for the CPU.
fn element_bytes(engine: &EngineConfig) -> u64 {
    match (engine.weights, engine.device) {
        (Weights::Stored, _) | (Weights::Auto, Device::Gpu) => 2,
        (Weights::F32, _) | (Weights::Auto, Device::Auto | Device::Cpu) => 4,
    }
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Budget {
    pub(super) weights_kept_as: KeptAs,
    pub(super) weight_bytes: u64,
    pub(super) kv_bytes_per_token: Option<u64>,
    pub(super) max_num_seqs: u32,
    pub(super) max_model_len: Option<u64>,
    /// What was configured, or room for every sequence at its longest.
    pub(super) kv_bytes: Option<u64>,
    pub(super) total_bytes: Option<u64>,
    pub(super) available_bytes: Option<u64>,
}

impl Budget {
    pub(super) fn new(
        shape: Shape,
        summary: &Summary,
        engine: &EngineConfig,
        available_bytes: Option<u64>,
    ) -> Self {
        let kept = KeptAs::decide(engine);
        let weight_bytes = match kept {
            KeptAs::Stored => summary.bytes_by_format.values().sum(),
            KeptAs::F32 => summary.num_parameters.saturating_mul(4),
        };
        let kv_bytes_per_token = shape.kv_bytes_per_token(element_bytes(engine));
        let max_model_len = match (engine.max_model_len.map(u64::from), summary.context_length) {
            (Some(asked), Some(limit)) => Some(asked.min(limit)),
            (asked, limit) => asked.or(limit),
        };
        let defaults = if engine.device == Device::Gpu { StepDefaults::GPU } else { StepDefaults::CPU };
        let max_num_seqs = engine.max_num_seqs.unwrap_or(defaults.max_num_seqs);
        let longest = || {
            let block = u64::from(engine.block_size);
            let tokens = max_model_len?.checked_next_multiple_of(block)?;
            tokens.checked_mul(u64::from(max_num_seqs))?.checked_mul(kv_bytes_per_token?)
        };
        let kv_bytes = engine.kv_cache_memory.or_else(longest);
        Self {
            weights_kept_as: kept,
            weight_bytes,
            kv_bytes_per_token,
            max_num_seqs,
            max_model_len,
            kv_bytes,
            total_bytes: kv_bytes.and_then(|kv| kv.checked_add(weight_bytes)),
            available_bytes,
        }
    }

    /// Whether it fits; `None` if one of the numbers is not known.
    pub(super) fn fits(&self) -> Option<bool> {
        Some(self.total_bytes? <= self.available_bytes?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use troupe_config::{Config, Sources};

    use super::*;

    fn shape(config: Value) -> Shape {
        Shape::of(config.as_object().unwrap())
    }

    #[test]
    fn shapes_are_read_in_every_spelling() {
        let full = json!({
            "num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3
        });
        // SmolLM2-135M: 2 · 30 layers · 3 heads · 64 numbers.
        assert_eq!(shape(full.clone()).kv_bytes_per_token(2), Some(23_040));
        assert_eq!(shape(json!({ "text_config": full })).kv_bytes_per_token(4), Some(46_080));
        let own_head_dim = shape(json!({
            "num_hidden_layers": 1, "hidden_size": 576, "num_attention_heads": 9, "head_dim": 128
        }));
        assert_eq!(own_head_dim.kv_bytes_per_token(1), Some(2 * 9 * 128));
        assert_eq!(shape(json!({ "hidden_size": 8 })).kv_bytes_per_token(2), None);
        assert_eq!(shape(json!({ "hidden_size": 8, "num_attention_heads": 0 })).head_dim, None);
        let huge = json!({ "num_hidden_layers": u64::MAX, "num_attention_heads": 2, "head_dim": 1 });
        assert_eq!(shape(huge).kv_bytes_per_token(2), None);
    }

    #[test]
    fn a_budget_adds_weights_and_kv() {
        let shape =
            Shape { num_layers: Some(2), num_kv_heads: Some(1), head_dim: Some(8), ..Shape::default() };
        let summary = Summary {
            format: troupe_model_files::ModelFormat::Gguf,
            architecture: None,
            num_parameters: 1000,
            num_tensors: 1,
            bytes_by_format: [("Q8_0".to_owned(), 1062)].into(),
            file_bytes: 2000,
            num_files: 1,
            quantization: None,
            context_length: Some(100),
            vocab_size: None,
        };
        let mut engine = Config::load(Sources::default()).unwrap().engine;
        engine.max_num_seqs = Some(3);
        // 100 tokens round up to 7 blocks of 16.
        let on_cpu = Budget::new(shape, &summary, &engine, Some(1 << 20));
        assert_eq!((on_cpu.weight_bytes, on_cpu.kv_bytes), (1062, Some(3 * 112 * 2 * 2 * 8 * 4)));
        assert_eq!(on_cpu.fits(), Some(true));
        engine.weights = Weights::F32;
        assert_eq!(Budget::new(shape, &summary, &engine, None).weight_bytes, 4000);
        engine.weights = Weights::Auto;

        engine.device = Device::Gpu;
        engine.max_model_len = Some(16);
        let stored = Budget::new(shape, &summary, &engine, Some(1));
        assert_eq!((stored.weight_bytes, stored.kv_bytes), (1062, Some(3 * 16 * 2 * 2 * 8 * 2)));
        assert_eq!(stored.fits(), Some(false));

        engine.kv_cache_memory = Some(77);
        let given = Budget::new(Shape::default(), &summary, &engine, None);
        assert_eq!((given.kv_bytes, given.total_bytes, given.fits()), (Some(77), Some(1139), None));
    }
}
