//! What a model would take of memory. Pure arithmetic over the numbers of its configuration.

use serde::Serialize;
use serde_json::{Map, Value};
use troupe_config::{Device, EngineConfig, KvCacheDtype, Weights};
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
    fn kv_bytes_per_token(&self, kept: KvKept) -> Option<u64> {
        let head_bytes = self.head_dim?.checked_mul(kept.element_bytes)?.checked_add(kept.scale_bytes)?;
        self.num_layers?.checked_mul(self.num_kv_heads?)?.checked_mul(2)?.checked_mul(head_bytes)
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

/// What the KV blocks keep of one head of one token: numbers, and the scale that they share.
#[derive(Clone, Copy)]
struct KvKept {
    element_bytes: u64,
    scale_bytes: u64,
}

impl KvKept {
    /// Weights as stored are taken for halves.
    fn decide(engine: &EngineConfig) -> Self {
        let plain = |element_bytes| Self { element_bytes, scale_bytes: 0 };
        match (engine.kv_cache_dtype, engine.weights) {
            (KvCacheDtype::F32, _) | (KvCacheDtype::Auto, Weights::F32) => plain(4),
            (KvCacheDtype::F16 | KvCacheDtype::Bf16, _) => plain(2),
            (KvCacheDtype::Auto, Weights::Auto | Weights::Stored) => plain(2),
            (KvCacheDtype::Int8, _) => Self { element_bytes: 1, scale_bytes: 4 },
        }
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
        let kv_bytes_per_token = shape.kv_bytes_per_token(KvKept::decide(engine));
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
        let plain = |element_bytes| KvKept { element_bytes, scale_bytes: 0 };
        // SmolLM2-135M: 2 · 30 layers · 3 heads · 64 numbers.
        assert_eq!(shape(full.clone()).kv_bytes_per_token(plain(2)), Some(23_040));
        assert_eq!(shape(json!({ "text_config": full })).kv_bytes_per_token(plain(4)), Some(46_080));
        let own_head_dim = shape(json!({
            "num_hidden_layers": 1, "hidden_size": 576, "num_attention_heads": 9, "head_dim": 128
        }));
        assert_eq!(own_head_dim.kv_bytes_per_token(plain(1)), Some(2 * 9 * 128));
        assert_eq!(shape(json!({ "hidden_size": 8 })).kv_bytes_per_token(plain(2)), None);
        assert_eq!(shape(json!({ "hidden_size": 8, "num_attention_heads": 0 })).head_dim, None);
        let huge = json!({ "num_hidden_layers": u64::MAX, "num_attention_heads": 2, "head_dim": 1 });
        assert_eq!(shape(huge).kv_bytes_per_token(plain(2)), None);
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
        // 100 tokens round up to 7 blocks.
        engine.block_size = 16;
        let on_cpu = Budget::new(shape, &summary, &engine, Some(1 << 20));
        assert_eq!((on_cpu.weight_bytes, on_cpu.kv_bytes), (1062, Some(3 * 112 * 2 * 2 * 8 * 2)));
        assert_eq!(on_cpu.fits(), Some(true));
        engine.weights = Weights::F32;
        assert_eq!(Budget::new(shape, &summary, &engine, None).weight_bytes, 4000);
        engine.weights = Weights::Auto;
        for (dtype, bytes) in
            [(KvCacheDtype::F32, 8 * 4), (KvCacheDtype::Bf16, 8 * 2), (KvCacheDtype::Int8, 8 + 4)]
        {
            engine.kv_cache_dtype = dtype;
            let budget = Budget::new(shape, &summary, &engine, None);
            assert_eq!(budget.kv_bytes_per_token, Some(2 * 2 * bytes), "{dtype:?}");
        }
        engine.kv_cache_dtype = KvCacheDtype::Auto;

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
