//! Tiny Llama folders whose weights are a formula of tensor name and index. The formula is written once more in
//! scripts/fixtures/llama_tiny.py, which asks the reference about the same checkpoints.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A tensor as it stands in a safetensors file.
#[derive(Clone)]
pub struct Tensor {
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    pub fn f32(shape: &[usize], values: &[f32]) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>());
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { dtype: "F32", shape: shape.to_vec(), bytes }
    }

    /// The values of an F32 tensor.
    pub fn values(&self) -> Vec<f32> {
        assert_eq!(self.dtype, "F32");
        let quads = self.bytes.chunks_exact(4);
        quads.map(|quad| f32::from_le_bytes(quad.try_into().expect("four bytes"))).collect()
    }
}

/// A folder in the making.
#[derive(Clone)]
pub struct Checkpoint {
    pub config: Map<String, Value>,
    pub tensors: BTreeMap<String, Tensor>,
}

impl Checkpoint {
    /// A Llama of this configuration with weights by the formula.
    pub fn llama(config: &Value) -> Self {
        let config = config.as_object().expect("an object").clone();
        let tensors = shapes(&config).into_iter().map(|(name, shape)| {
            let values = weights(&name, &shape);
            (name, Tensor::f32(&shape, &values))
        });
        Self { tensors: tensors.collect(), config }
    }

    /// The smallest configuration, with these keys changed.
    pub fn tiny(changes: &Value) -> Self {
        let mut config = json!({
            "model_type": "llama",
            "vocab_size": 64,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": false,
        });
        for (key, value) in changes.as_object().expect("an object") {
            config[key] = value.clone();
        }
        Self::llama(&config)
    }

    pub fn set(&mut self, name: &str, tensor: Tensor) {
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// Writes the folder.
    pub fn write(&self) -> TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = Value::Object(self.config.clone()).to_string();
        std::fs::write(folder.path().join("config.json"), config).expect("a written file");
        std::fs::write(folder.path().join("model.safetensors"), self.safetensors()).expect("a written file");
        folder
    }

    fn safetensors(&self) -> Vec<u8> {
        let mut header = Map::new();
        let mut data: Vec<u8> = Vec::new();
        for (name, tensor) in &self.tensors {
            let start = data.len();
            data.extend(&tensor.bytes);
            let offsets = [start, data.len()];
            let entry = json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets});
            header.insert(name.clone(), entry);
        }
        let header = Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    }
}

/// Names and shapes of a Llama's tensors.
fn shapes(config: &Map<String, Value>) -> Vec<(String, Vec<usize>)> {
    let size = |key: &str| config.get(key).and_then(Value::as_u64).map(|n| n as usize);
    let flag = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
    let need = |key: &str| size(key).expect("a size");
    let (hidden, inner, heads) =
        (need("hidden_size"), need("intermediate_size"), need("num_attention_heads"));
    let head_dim = size("head_dim").unwrap_or(hidden / heads);
    let kv = size("num_key_value_heads").unwrap_or(heads) * head_dim;
    let (attention, mlp) = (flag("attention_bias"), flag("mlp_bias"));
    let mut out = vec![
        ("model.embed_tokens.weight".to_owned(), vec![need("vocab_size"), hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    if !flag("tie_word_embeddings") {
        out.push(("lm_head.weight".to_owned(), vec![need("vocab_size"), hidden]));
    }
    for layer in 0..need("num_hidden_layers") {
        let at = |name: &str| format!("model.layers.{layer}.{name}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            out.push((at(&format!("{norm}.weight")), vec![hidden]));
        }
        for (module, rows, columns, bias) in [
            ("self_attn.q_proj", heads * head_dim, hidden, attention),
            ("self_attn.k_proj", kv, hidden, attention),
            ("self_attn.v_proj", kv, hidden, attention),
            ("self_attn.o_proj", hidden, heads * head_dim, attention),
            ("mlp.gate_proj", inner, hidden, mlp),
            ("mlp.up_proj", inner, hidden, mlp),
            ("mlp.down_proj", hidden, inner, mlp),
        ] {
            out.push((at(&format!("{module}.weight")), vec![rows, columns]));
            if bias {
                out.push((at(&format!("{module}.bias")), vec![rows]));
            }
        }
    }
    out
}

/// The formula.
pub fn weights(name: &str, shape: &[usize]) -> Vec<f32> {
    let columns = *shape.last().expect("an axis") as f64;
    let of = |noise: f64| match name {
        _ if name.ends_with("norm.weight") => 1.0 + noise * 0.25,
        _ if name.ends_with(".bias") => noise * 0.5,
        _ => noise * (2.5 / columns.sqrt()),
    };
    (1..=shape.iter().product::<usize>() as u64).map(|at| of(noise(name, at)) as f32).collect()
}

/// The finaliser of `SplitMix64` over a counter, keyed by the name, as multiples of 2^-23 in [-1, 1).
fn noise(name: &str, counter: u64) -> f64 {
    let mut z = fnv1a(name).wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(counter));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f64 / f64::from(1 << 23) - 1.0
}

fn fnv1a(name: &str) -> u64 {
    let step = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
