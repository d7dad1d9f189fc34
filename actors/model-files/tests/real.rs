//! The default model, as its makers published it.

mod support;

use serde_json::{Value, json};
use support::{read_everything, real_gguf};
use troupe_model_files::{ModelFiles, OutputHead, TokenizerSource, to_f32};

fn open() -> ModelFiles {
    ModelFiles::open(real_gguf()).expect("the default model opens")
}

#[test]
fn the_configuration_is_that_of_the_published_folder() {
    let model = open();
    let expected = json!({
        "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "head_dim": 64, "intermediate_size": 1536, "max_position_embeddings": 8192,
        "vocab_size": 49152, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 100_000.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
    });
    assert_eq!(json!(model.config()), expected);
    assert_eq!(model.output_head().expect("a head"), OutputHead::Tied);
}

#[test]
fn every_tensor_has_the_shape_that_the_configuration_asks_for() {
    let model = open();
    let size = |key: &str| model.config()[key].as_u64().expect("a number") as usize;
    let (hidden, inner, vocab) = (size("hidden_size"), size("intermediate_size"), size("vocab_size"));
    let (q, kv) =
        (size("num_attention_heads") * size("head_dim"), size("num_key_value_heads") * size("head_dim"));
    let mut expected =
        vec![("model.embed_tokens".to_owned(), vec![vocab, hidden]), ("model.norm".into(), vec![hidden])];
    for layer in 0..size("num_hidden_layers") {
        for (module, shape) in [
            ("input_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![q, hidden]),
            ("self_attn.k_proj", vec![kv, hidden]),
            ("self_attn.v_proj", vec![kv, hidden]),
            ("self_attn.o_proj", vec![hidden, q]),
            ("post_attention_layernorm", vec![hidden]),
            ("mlp.gate_proj", vec![inner, hidden]),
            ("mlp.up_proj", vec![inner, hidden]),
            ("mlp.down_proj", vec![hidden, inner]),
        ] {
            expected.push((format!("model.layers.{layer}.{module}"), shape));
        }
    }
    assert_eq!(model.tensor_names().count(), expected.len());
    for (module, shape) in expected {
        let name = format!("{module}.weight");
        assert_eq!(model.tensor(&name).expect("a tensor").shape(), shape, "{name}");
    }
}

#[test]
fn the_summary_adds_up() {
    let summary = open().summary();
    assert_eq!(summary.num_parameters, 134_515_008);
    assert_eq!(summary.quantization.as_deref(), Some("Q4_1"));
    assert_eq!(summary.context_length, Some(8192));
    let tensors: u64 = summary.bytes_by_format.values().sum();
    assert!(tensors < summary.file_bytes && summary.file_bytes - tensors < 2_000_000, "{summary:?}");
    let json = serde_json::to_value(&summary).expect("plain data");
    assert_eq!(json["architecture"], Value::from("llama"));
}

#[test]
fn the_tokenizer_is_whole() {
    let model = open();
    let TokenizerSource::Gguf(tokenizer) = model.tokenizer().expect("a tokenizer") else { panic!("of GGUF") };
    assert_eq!((tokenizer.model.as_str(), tokenizer.pre.as_deref()), ("gpt2", Some("smollm")));
    assert_eq!((tokenizer.tokens.len(), tokenizer.merges.len()), (49152, 48900));
    assert_eq!((tokenizer.add_bos, tokenizer.add_space_prefix), (Some(false), Some(false)));
    let tokens = model.special_tokens();
    assert_eq!((tokens.bos.as_deref(), tokens.eos.as_deref()), (Some("<|im_start|>"), Some("<|im_end|>")));
    assert_eq!(model.generation_defaults().eos_token_ids, [2]);
    assert!(
        model.chat_templates().default.as_deref().is_some_and(|text| text.contains("<|im_start|>system"))
    );
}

#[test]
fn every_number_is_finite_and_of_ordinary_size() {
    let model = open();
    read_everything(&model);
    for view in model.tensors() {
        let values = to_f32(&view).expect("floats");
        let square: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
        let rms = (square / values.len() as f64).sqrt();
        assert!((1e-3..20.0).contains(&rms), "{}: {rms}", view.name());
    }
}
