//! The GGUF architectures that can be read: one row each, and the table of tensor names that they share.

use std::path::Path;

use crate::error::{ModelFileError, Result};

/// How the converter left the rows of q and k.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rotary {
    /// Interleaved per head, to be undone.
    Interleaved,
    /// As in the Hugging Face checkpoint.
    HalfSplit,
}

/// One architecture.
#[derive(Debug)]
pub(super) struct Architecture {
    /// `general.architecture`, which is also the prefix of its keys.
    pub(super) name: &'static str,
    /// `model_type` of the Hugging Face configuration that we translate to.
    pub(super) model_type: &'static str,
    pub(super) rotary: Rotary,
}

const ARCHITECTURES: [Architecture; 3] = [
    Architecture { name: "llama", model_type: "llama", rotary: Rotary::Interleaved },
    Architecture { name: "qwen2", model_type: "qwen2", rotary: Rotary::HalfSplit },
    Architecture { name: "qwen3", model_type: "qwen3", rotary: Rotary::HalfSplit },
];

/// Modules outside the blocks: GGUF name, Hugging Face name.
const TOP_MODULES: [(&str, &str); 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

/// Modules of block `N`: GGUF name after `blk.N.`, Hugging Face name after `model.layers.N.`.
const BLOCK_MODULES: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

impl Architecture {
    /// The row named by `general.architecture`.
    pub(super) fn find(path: &Path, name: &str) -> Result<&'static Self> {
        ARCHITECTURES.iter().find(|row| row.name == name).ok_or_else(|| {
            ModelFileError::UnsupportedArchitecture {
                path: path.into(),
                found: name.into(),
                known: ARCHITECTURES.map(|row| row.name).join(", "),
            }
        })
    }
}

/// Which projection's heads a tensor holds, where its rows are heads that the rotary embedding turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RotaryHeads {
    Query,
    Key,
}

/// A GGUF tensor name, taken apart and translated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TranslatedName {
    pub(super) hf_name: String,
    /// The block that the tensor belongs to.
    pub(super) layer: Option<u64>,
    pub(super) rotary_heads: Option<RotaryHeads>,
}

/// Translates a name; `None` for one that no row of the tables explains.
pub(super) fn translate(name: &str) -> Option<TranslatedName> {
    let (module, parameter) = name.rsplit_once('.')?;
    if !matches!(parameter, "weight" | "bias") {
        return None;
    }
    let Some(in_block) = module.strip_prefix("blk.") else {
        let hf = lookup(&TOP_MODULES, module)?;
        let hf_name = format!("{hf}.{parameter}");
        return Some(TranslatedName { hf_name, layer: None, rotary_heads: None });
    };
    let (layer, module) = in_block.split_once('.')?;
    let number: u64 = layer.parse().ok()?;
    if number.to_string() != layer {
        return None;
    }
    let hf = lookup(&BLOCK_MODULES, module)?;
    let rotary_heads = match module {
        "attn_q" => Some(RotaryHeads::Query),
        "attn_k" => Some(RotaryHeads::Key),
        _ => None,
    };
    let hf_name = format!("model.layers.{layer}.{hf}.{parameter}");
    Some(TranslatedName { hf_name, layer: Some(number), rotary_heads })
}

fn lookup(table: &[(&str, &'static str)], module: &str) -> Option<&'static str> {
    table.iter().find(|(gguf, _)| *gguf == module).map(|(_, hf)| *hf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_translate_by_the_table() {
        for (gguf, hf) in [
            ("token_embd.weight", "model.embed_tokens.weight"),
            ("output.weight", "lm_head.weight"),
            ("output_norm.weight", "model.norm.weight"),
            ("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"),
            ("blk.12.attn_k.bias", "model.layers.12.self_attn.k_proj.bias"),
            ("blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"),
        ] {
            assert_eq!(translate(gguf).map(|name| name.hf_name).as_deref(), Some(hf));
        }
        for unknown in
            ["blk.00.attn_q.weight", "blk.-1.attn_q.weight", "blk.attn_q.weight", "token_embd", "a.b.scale"]
        {
            assert_eq!(translate(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn no_two_modules_share_a_name() {
        for table in [&TOP_MODULES[..], &BLOCK_MODULES[..]] {
            for (at, row) in table.iter().enumerate() {
                assert!(table[at + 1..].iter().all(|other| other.0 != row.0 && other.1 != row.1), "{row:?}");
            }
        }
    }

    #[test]
    fn c185u_any_architecture_of_the_table_is_accepted() {
        for row in &ARCHITECTURES {
            let found = Architecture::find(Path::new("m.gguf"), row.name).expect("a row finds itself");
            assert_eq!(found.model_type, row.model_type);
        }
        let refused =
            Architecture::find(Path::new("m.gguf"), "mamba").expect_err("not in the table").to_string();
        assert!(refused.contains("mamba") && refused.contains("llama, qwen2, qwen3"), "{refused}");
    }
}
