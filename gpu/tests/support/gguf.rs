//! Writes a checkpoint as a GGUF file, in any of the block formats.

use half::{bf16, f16};
use serde_json::Value;

use super::checkpoint::{Checkpoint, Tensor};

/// How a file's matrices are stored. Vectors are always F32, as converters leave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q8_0,
}

/// Elements of a block.
const BLOCK: usize = 32;

impl Format {
    pub const ALL: [Self; 6] = [Self::F32, Self::F16, Self::Bf16, Self::Q4_0, Self::Q4_1, Self::Q8_0];

    /// ggml's number of the type.
    fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 8,
            Self::Bf16 => 30,
        }
    }

    /// A row stored, and the values that it then holds.
    fn encode(self, row: &[f32]) -> (Vec<u8>, Vec<f32>) {
        let each = |encode: fn(f32) -> (Vec<u8>, f32)| {
            let (bytes, values): (Vec<_>, Vec<_>) = row.iter().copied().map(encode).unzip();
            (bytes.concat(), values)
        };
        match self {
            Self::F32 => each(|x| (x.to_le_bytes().to_vec(), x)),
            Self::F16 => each(|x| (f16::from_f32(x).to_le_bytes().to_vec(), f16::from_f32(x).to_f32())),
            Self::Bf16 => each(|x| (bf16::from_f32(x).to_le_bytes().to_vec(), bf16::from_f32(x).to_f32())),
            Self::Q4_0 | Self::Q4_1 | Self::Q8_0 => {
                let (bytes, values): (Vec<_>, Vec<_>) =
                    row.chunks_exact(BLOCK).map(|block| self.encode_block(block)).unzip();
                (bytes.concat(), values.concat())
            }
        }
    }

    /// A block: the scale, the least value where the format has one, then the elements.
    fn encode_block(self, block: &[f32]) -> (Vec<u8>, Vec<f32>) {
        let (least, most) = block.iter().fold((f32::MAX, f32::MIN), |(a, b), &x| (a.min(x), b.max(x)));
        let peak = most.max(-least);
        let (scale, offset, low, high) = match self {
            Self::Q4_0 => (peak / 7.0, 0.0, -8.0, 7.0),
            Self::Q4_1 => ((most - least) / 15.0, least, 0.0, 15.0),
            _ => (peak / 127.0, 0.0, -127.0, 127.0),
        };
        let (scale, offset) = (f16::from_f32(scale), f16::from_f32(offset));
        let steps: Vec<f32> =
            block.iter().map(|x| ((x - offset.to_f32()) / scale.to_f32()).round().clamp(low, high)).collect();
        let values = steps.iter().map(|step| step * scale.to_f32() + offset.to_f32()).collect();
        let mut bytes = scale.to_le_bytes().to_vec();
        if self == Self::Q4_1 {
            bytes.extend(offset.to_le_bytes());
        }
        if self == Self::Q8_0 {
            bytes.extend(steps.iter().map(|&step| step as i8 as u8));
        } else {
            // The low halves of the bytes hold the block's first half.
            let nibble = |at: usize| (steps[at] - low) as u8;
            bytes.extend((0..BLOCK / 2).map(|at| nibble(at) | nibble(at + BLOCK / 2) << 4));
        }
        (bytes, values)
    }
}

/// The file, and the checkpoint of the values that it holds.
pub fn encode(model: &Checkpoint, format: Format) -> (Vec<u8>, Checkpoint) {
    let mut file = File { pairs: metadata(model), tensors: Vec::new() };
    let mut held = model.clone();
    for (name, tensor) in &model.tensors {
        let columns = *tensor.shape.last().expect("an axis");
        let format = if tensor.shape.len() == 1 { Format::F32 } else { format };
        let (mut rows, values): (Vec<_>, Vec<_>) =
            tensor.values().chunks_exact(columns).map(|row| format.encode(row)).unzip();
        held.set(name, Tensor::f32(&tensor.shape, &values.concat()));
        if let Some(heads) = interleaved(name, model) {
            rows = interleave(&rows, heads);
        }
        let dims = tensor.shape.iter().rev().map(|&dim| dim as u64).collect();
        file.tensors.push((rename(name), dims, format.number(), rows.concat()));
    }
    (file.bytes(), held)
}

/// Heads of a projection whose rows the converter interleaves.
fn interleaved(name: &str, model: &Checkpoint) -> Option<usize> {
    let key = match name {
        _ if name.ends_with("q_proj.weight") => "num_attention_heads",
        _ if name.ends_with("k_proj.weight") => "num_key_value_heads",
        _ => return None,
    };
    model.config[key].as_u64().map(|heads| heads as usize)
}

/// Each head's halves, row by row in turn.
fn interleave(rows: &[Vec<u8>], heads: usize) -> Vec<Vec<u8>> {
    let half = rows.len() / heads / 2;
    let head = |rows: &[Vec<u8>]| -> Vec<Vec<u8>> {
        (0..half).flat_map(|at| [rows[at].clone(), rows[half + at].clone()]).collect()
    };
    rows.chunks_exact(2 * half).flat_map(head).collect()
}

fn rename(name: &str) -> String {
    let parts = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
    ];
    parts.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// Keys with type and value.
fn metadata(model: &Checkpoint) -> Vec<(String, u32, Vec<u8>)> {
    const U32: u32 = 4;
    const F32: u32 = 6;
    const TEXT: u32 = 8;
    const ARRAY: u32 = 9;
    let number = |key: &str| model.config[key].as_u64().expect("a size") as u32;
    let mut pairs = vec![("general.architecture".to_owned(), TEXT, text("llama"))];
    for (key, from) in [
        ("block_count", "num_hidden_layers"),
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
    ] {
        pairs.push((format!("llama.{key}"), U32, number(from).to_le_bytes().to_vec()));
    }
    let eps = model.config.get("rms_norm_eps").and_then(Value::as_f64).expect("a number") as f32;
    pairs.push(("llama.attention.layer_norm_rms_epsilon".to_owned(), F32, eps.to_le_bytes().to_vec()));
    pairs.push(("tokenizer.ggml.model".to_owned(), TEXT, text("gpt2")));
    let tokens: Vec<u8> = (0..number("vocab_size")).flat_map(|id| text(&format!("t{id}"))).collect();
    let head = [TEXT.to_le_bytes().to_vec(), u64::from(number("vocab_size")).to_le_bytes().to_vec()];
    pairs.push(("tokenizer.ggml.tokens".to_owned(), ARRAY, [head.concat(), tokens].concat()));
    pairs
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

struct File {
    pairs: Vec<(String, u32, Vec<u8>)>,
    /// Name, dimensions innermost first, type and bytes.
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

impl File {
    fn bytes(&self) -> Vec<u8> {
        const ALIGNMENT: usize = 32;
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.pairs.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.pairs {
            out.extend(text(key));
            out.extend(kind.to_le_bytes());
            out.extend(value);
        }
        let mut data: Vec<u8> = Vec::new();
        for (name, dims, kind, bytes) in &self.tensors {
            out.extend(text(name));
            out.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        [out, data].concat()
    }
}
