//! GGUF files: what is read from a good one, and what is refused in a bad one.

mod support;

use serde_json::json;
use support::{GgufWriter, assert_refused, open_bytes, patterned, string};
use troupe_model_files::{OutputHead, TokenizerSource};

fn refused(change: impl FnOnce(&mut GgufWriter), parts: &[&str]) {
    let mut file = GgufWriter::tiny();
    change(&mut file);
    assert_refused(file.open(), parts);
}

#[test]
fn metadata_becomes_a_hugging_face_configuration() {
    let mut file = GgufWriter::tiny();
    file.f32("llama.rope.freq_base", 500_000.0);
    let model = file.open().expect("a good file");
    let expected = json!({
        "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 64, "max_position_embeddings": 64,
        "vocab_size": 4, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0, "bos_token_id": 0, "eos_token_id": 1,
    });
    assert_eq!(json!(model.config()), expected);
}

#[test]
fn versions_2_and_3_read_the_same() {
    let mut file = GgufWriter::tiny();
    let three = file.open().expect("version 3");
    file.version = 2;
    let two = file.open().expect("version 2");
    assert_eq!(two.config(), three.config());
    assert!(two.tensor_names().eq(three.tensor_names()));
}

#[test]
fn rows_of_q_and_k_come_back_in_hugging_face_order() {
    let model = GgufWriter::tiny().open().expect("a good file");
    for (name, head_rows, stored) in [
        ("model.layers.0.self_attn.q_proj.weight", 16, patterned(32 * 18)),
        ("model.layers.0.self_attn.k_proj.weight", 16, patterned(16 * 34)),
    ] {
        let view = model.tensor(name).expect("a tensor");
        let row_bytes = stored.len() / view.shape()[0];
        for (row, bytes) in view.bytes().chunks(row_bytes).enumerate() {
            let (head, half, j) = (row / head_rows, row % head_rows / 8, row % 8);
            let at = (head * head_rows + 2 * j + half) * row_bytes;
            assert_eq!(bytes, &stored[at..at + row_bytes], "{name} row {row}");
        }
    }
}

#[test]
fn the_bias_of_q_is_permuted_as_its_rows_are() {
    let mut file = GgufWriter::tiny();
    let stored: Vec<f32> = (0..32).map(|row| row as f32).collect();
    let bytes: Vec<u8> = stored.iter().flat_map(|number| number.to_le_bytes()).collect();
    file.tensor("blk.0.attn_q.bias", &[32], 0, &bytes);
    let model = file.open().expect("a good file");
    let view = model.tensor("model.layers.0.self_attn.q_proj.bias").expect("a tensor");
    let values = troupe_model_files::to_f32(&view).expect("floats");
    let head = |first: i32| (0..8).map(move |j| first + 2 * j).chain((0..8).map(move |j| first + 2 * j + 1));
    assert_eq!(model.config()["attention_bias"], json!(true));
    assert_eq!(values, head(0).chain(head(16)).map(|row| row as f32).collect::<Vec<_>>());
}

#[test]
fn c186u_the_head_is_tied_exactly_when_there_is_no_output_tensor() {
    let mut file = GgufWriter::tiny();
    assert_eq!(file.open().expect("tied").output_head().expect("a head"), OutputHead::Tied);
    file.tensor("output.weight", &[32, 4], 0, &patterned(512));
    let own = file.open().expect("own");
    assert_eq!(own.output_head().expect("a head"), OutputHead::Own);
    assert_eq!(own.config()["tie_word_embeddings"], json!(false));
}

#[test]
fn the_tokenizer_and_templates_come_from_the_metadata() {
    let mut file = GgufWriter::tiny();
    file.u32("tokenizer.ggml.eot_token_id", 2).text("tokenizer.chat_template.tool_use", "tools");
    let model = file.open().expect("a good file");
    let TokenizerSource::Gguf(tokenizer) = model.tokenizer().expect("a tokenizer") else { panic!("of GGUF") };
    assert_eq!(tokenizer.tokens, ["<s>", "</s>", "a", "b"]);
    assert_eq!(tokenizer.merges, ["a b"]);
    assert_eq!(model.special_tokens().bos.as_deref(), Some("<s>"));
    assert_eq!(model.generation_defaults().eos_token_ids, [1, 2]);
    assert_eq!(model.chat_templates().default.as_deref(), Some("{{ messages }}"));
    assert_eq!(model.chat_templates().named[0].name, "tool_use");
}

#[test]
fn rope_scaling_is_translated() {
    type Change = fn(&mut GgufWriter);
    let table: [(Change, serde_json::Value); 6] = [
        (|file| _ = file.f32("llama.rope.scale_linear", 2.0), json!({"rope_type": "linear", "factor": 2.0})),
        (|file| _ = file.f32("llama.rope.scale_linear", 1.0), serde_json::Value::Null),
        (
            |file| {
                file.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0);
            },
            json!({"rope_type": "linear", "factor": 4.0}),
        ),
        (
            |file| {
                file.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0);
                file.u32("llama.rope.scaling.original_context_length", 16);
            },
            json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
        ),
        (
            |file| {
                let ones: Vec<u8> = std::iter::repeat_n(1.0f32.to_le_bytes(), 8).flatten().collect();
                file.tensor("rope_freqs.weight", &[8], 0, &ones);
            },
            json!({"rope_type": "longrope", "short_factor": vec![1.0; 8], "long_factor": vec![1.0; 8],
                   "original_max_position_embeddings": 64, "attention_factor": 1.0}),
        ),
        (
            |file| {
                file.text("llama.rope.scaling.type", "none");
            },
            serde_json::Value::Null,
        ),
    ];
    for (change, expected) in table {
        let mut file = GgufWriter::tiny();
        change(&mut file);
        let model = file.open().expect("a good file");
        assert_eq!(model.config().get("rope_scaling").cloned().unwrap_or_default(), expected);
        assert!(!model.contains("rope_freqs.weight"));
    }
}

#[test]
fn c180u_ids_outside_the_vocabulary_are_refused() {
    for name in ["bos_token_id", "eos_token_id", "padding_token_id", "unknown_token_id"] {
        let key = format!("tokenizer.ggml.{name}");
        refused(|file| _ = file.u32(&key, 4), &[&key, "id 4", "4 tokens"]);
    }
    let more = ["t"; 5];
    refused(|file| _ = file.texts("tokenizer.ggml.tokens", &more), &["token_embd.weight", "5 tokens"]);
}

#[test]
fn c185u_an_unknown_architecture_is_refused_with_the_list_of_known_ones() {
    refused(|file| _ = file.text("general.architecture", "mamba"), &["mamba", "llama"]);
}

#[test]
fn c188u_empty_dimensions_and_keys_are_refused() {
    refused(|file| _ = file.tensor("output_norm.weight", &[0], 0, &[]), &["output_norm.weight", "is 0"]);
    refused(|file| _ = file.u32("", 1), &["a key is empty"]);
    refused(|file| _ = file.tensor("", &[1], 0, &[0; 4]), &["a name is empty"]);
    let zero = [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes(), &0u64.to_le_bytes()].concat();
    assert_refused(open_bytes(&zero, "m.gguf"), &["general.architecture", "missing"]);
}

#[test]
fn c190u_dimensions_whose_product_wraps_are_refused() {
    for dims in [&[(1 << 42) + 1, 1 << 22][..], &[!31, 2], &[1 << 62, 1 << 62, 1 << 62, 1 << 62]] {
        for kind in [0, 3] {
            refused(
                |file| _ = file.tensor("output_norm.weight", dims, kind, &[0; 64]),
                &["output_norm.weight"],
            );
        }
    }
    let huge = [(1u64 << 42) + 1];
    refused(
        |file| _ = file.tensor("output_norm.weight", &huge, 0, &[0; 64]),
        &["truncated", "output_norm.weight"],
    );
}

#[test]
fn c191u_hostile_headers_are_refused_before_anything_is_allocated() {
    let long = (1u64 << 30).to_le_bytes();
    refused(|file| _ = file.pair("x", 8, &long), &["truncated", "`x`"]);
    refused(|file| _ = file.u32("general.alignment", 1 << 30), &["general.alignment"]);
    refused(|file| _ = file.u32("general.alignment", 0), &["general.alignment", "power of two"]);
    refused(|file| _ = file.u32("general.alignment", 48), &["general.alignment", "power of two"]);
    let nested = [9u32.to_le_bytes().to_vec(), u64::MAX.to_le_bytes().to_vec()].concat();
    refused(|file| _ = file.pair("x", 9, &nested), &["`x`", "arrays of arrays"]);
    let many = [0u32.to_le_bytes().to_vec(), u64::MAX.to_le_bytes().to_vec()].concat();
    refused(|file| _ = file.pair("x", 9, &many), &["`x`", "cannot fit"]);
    refused(|file| _ = file.tensor("output_norm.weight", &[1; 5], 0, &[0; 4]), &["5 dimensions"]);
    let mut header = [&b"GGUF"[..], &3u32.to_le_bytes(), &1u64.to_le_bytes(), &0u64.to_le_bytes()].concat();
    header.extend(string("t"));
    header.extend(u32::MAX.to_le_bytes());
    header.extend([0; 64]);
    assert_refused(open_bytes(&header, "m.gguf"), &["`t`", "4294967295 dimensions"]);
    for counts in [[u64::MAX, 0], [0, u64::MAX]] {
        let header =
            [&b"GGUF"[..], &3u32.to_le_bytes(), &counts[0].to_le_bytes(), &counts[1].to_le_bytes()].concat();
        assert_refused(open_bytes(&header, "m.gguf"), &["cannot fit", "truncated or corrupt"]);
    }
}

#[test]
fn counts_over_the_limits_are_refused_though_the_file_could_hold_them() {
    for (counts, what) in [([1u64 << 19, 0], "number of tensors"), ([0, 1 << 17], "number of metadata keys")]
    {
        let mut file =
            [&b"GGUF"[..], &3u32.to_le_bytes(), &counts[0].to_le_bytes(), &counts[1].to_le_bytes()].concat();
        file.resize(16 << 20, 0);
        assert_refused(open_bytes(&file, "m.gguf"), &[what, "over the limit"]);
    }
}

#[test]
fn other_versions_byte_orders_and_files_are_refused_by_name() {
    refused(|file| file.version = 1, &["version 1", "2 and 3"]);
    refused(|file| file.version = 4, &["version 4"]);
    refused(|file| file.version = 3u32.swap_bytes(), &["big-endian"]);
    assert_refused(open_bytes(b"PK\x03\x04 something else", "m.gguf"), &["m.gguf", "not a GGUF file"]);
    assert_refused(open_bytes(b"PK\x03\x04 something else", "m.zip"), &["m.zip", "config.json"]);
    assert_refused(open_bytes(b"", "m.gguf"), &["truncated"]);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (kind, name) in [(12, "Q4_K"), (14, "Q6_K"), (39, "MXFP4"), (99, "number 99")] {
        let change = |file: &mut GgufWriter| _ = file.tensor("output_norm.weight", &[32], kind, &[0; 64]);
        refused(change, &["output_norm.weight", name, "Q4_1"]);
    }
    refused(|file| _ = file.u32("llama.expert_count", 8), &["llama.expert_count", "not supported"]);
    refused(|file| _ = file.u32("split.count", 2), &["split.count", "merge"]);
    refused(|file| _ = file.text("llama.rope.scaling.type", "warp"), &["rope.scaling.type", "warp"]);
    refused(|file| _ = file.tensor("blk.0.ssm_in.weight", &[32], 0, &[0; 128]), &["blk.0.ssm_in.weight"]);
    refused(|file| _ = file.tensor("blk.1.attn_v.weight", &[32], 0, &[0; 128]), &["blk.1", "1 blocks"]);
}

#[test]
fn wrong_metadata_names_its_key() {
    for key in ["llama.block_count", "llama.embedding_length", "llama.attention.head_count"] {
        refused(|file| _ = file.without(key), &[key, "missing"]);
        refused(|file| _ = file.u32(key, 0), &[key, "from 1"]);
        refused(|file| _ = file.text(key, "many"), &[key, "whole number"]);
    }
    refused(|file| _ = file.u32("llama.attention.head_count_kv", 3), &["head_count_kv", "divide"]);
    refused(
        |file| _ = file.f32("llama.attention.layer_norm_rms_epsilon", f32::NAN),
        &["rms_epsilon", "finite"],
    );
    refused(|file| _ = file.pair("x", 7, &[2]), &["`x`", "bool"]);
    refused(|file| _ = file.pair("x", 13, &[0; 8]), &["`x`", "value type 13"]);
    refused(|file| _ = file.pair("x", 8, &[1, 0, 0, 0, 0, 0, 0, 0, 0xff]), &["`x`", "UTF-8"]);
}

#[test]
fn wrong_tensors_name_themselves() {
    let data = patterned(4096);
    let embedding = |dims: &[u64], parts: &[&str]| {
        refused(|file| _ = file.tensor("token_embd.weight", dims, 0, &data), parts);
    };
    embedding(&[31, 4], &["token_embd.weight", "[4, 31]"]);
    embedding(&[32], &["token_embd.weight", "[32]"]);
    refused(|file| _ = file.tensor("blk.0.attn_q.weight", &[32, 16], 0, &data), &["attn_q", "16 rows"]);
    refused(|file| _ = file.tensor("blk.0.ffn_up.weight", &[33, 2], 3, &data), &["ffn_up", "Q4_1"]);
    let mut short = GgufWriter::tiny().bytes();
    short.truncate(short.len() - 33);
    assert_refused(open_bytes(&short, "m.gguf"), &["truncated", "blk.0.attn_k.weight", "download it again"]);
}

#[test]
fn overlapping_and_repeated_tensors_are_refused() {
    // Each entry ends with its offset: writing that of the first over that of the second makes them overlap.
    let bytes = GgufWriter::tiny().bytes();
    let name = string("output_norm.weight");
    let at = bytes.windows(name.len()).position(|window| window == name).expect("the entry")
        + name.len()
        + 4
        + 8
        + 4;
    let mut overlapping = bytes.clone();
    overlapping[at..at + 8].fill(0);
    assert_refused(open_bytes(&overlapping, "m.gguf"), &["overlap", "output_norm.weight"]);
    let mut unaligned = bytes.clone();
    unaligned[at] += 1;
    assert_refused(open_bytes(&unaligned, "m.gguf"), &["output_norm.weight", "alignment"]);
    // The two names that start alike differ in one letter.
    let mut repeated = bytes;
    let key = string("blk.0.attn_k.weight");
    let at = repeated.windows(key.len()).position(|window| window == key).expect("the entry");
    repeated[at..at + key.len()].copy_from_slice(&string("blk.0.attn_q.weight"));
    assert_refused(open_bytes(&repeated, "m.gguf"), &["blk.0.attn_q.weight", "named twice"]);
}
