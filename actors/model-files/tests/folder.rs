//! Hugging Face folders: what is read from a good one, and what is refused in a bad one.

mod support;

use serde_json::{Value, json};
use support::{Folder, assert_refused, patterned, safetensors, safetensors_raw};
use troupe_model_files::{AffineSpec, OutputHead, TokenizerSource};

const EMBEDDING: &str = "model.embed_tokens.weight";

/// A module that MLX packed: weight, scales and biases.
fn packed(words: usize, groups: usize) -> Vec<u8> {
    safetensors(&[
        ("model.layers.0.mlp.up_proj.weight", "U32", &[2, words], patterned(8 * words)),
        ("model.layers.0.mlp.up_proj.scales", "BF16", &[2, groups], patterned(4 * groups)),
        ("model.layers.0.mlp.up_proj.biases", "BF16", &[2, groups], patterned(4 * groups)),
        ("model.norm.weight", "BF16", &[4], patterned(8)),
    ])
}

fn quantized(quantization: Value, words: usize, groups: usize) -> Folder {
    let folder = Folder::tiny(json!({ "quantization": quantization }));
    folder.write("model.safetensors", &packed(words, groups));
    folder
}

#[test]
fn a_plain_folder_opens_with_its_tensors_as_stored() {
    let model = Folder::tiny(json!({})).open().expect("a good folder");
    assert_eq!(model.model_type().expect("a family"), "llama");
    let view = model.tensor(EMBEDDING).expect("a tensor");
    assert_eq!((view.shape(), view.bytes().as_ref()), (&[4, 2][..], patterned(32).as_slice()));
    assert_refused(model.tensor("no.such").map_err(|error| error.to_string()), &["no.such"]);
}

#[test]
fn shards_open_with_and_without_an_index() {
    let shard = |name: &str| safetensors(&[(name, "F32", &[2], patterned(8))]);
    let folder = Folder::new(&[
        ("config.json", b"{}"),
        ("model-00001-of-00002.safetensors", &shard("a")),
        ("model-00002-of-00002.safetensors", &shard("b")),
    ]);
    assert_eq!(folder.open().expect("no index").tensor_names().collect::<Vec<_>>(), ["a", "b"]);

    let index =
        |b: &str| json!({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": b}}).to_string();
    let set = |b: &str| folder.write("model.safetensors.index.json", index(b).as_bytes()).open();
    let model = set("model-00002-of-00002.safetensors").expect("an index");
    assert_eq!(model.summary().num_files, 2);
    assert_refused(set("model-00001-of-00002.safetensors"), &["`b`", "does not hold it"]);
    assert_refused(set("model-00003.safetensors"), &["model-00003.safetensors", "missing"]);
    for outside in ["../secret.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ""] {
        assert_refused(set(outside), &["weight_map", "not the name of a file"]);
    }
    folder.write("model-00002-of-00002.safetensors", &shard("a"));
    std::fs::remove_file(folder.path().join("model.safetensors.index.json")).expect("removed");
    assert_refused(folder.open(), &["`a`", "also in", "model-00001"]);
}

#[test]
fn missing_files_are_named_with_a_way_out() {
    let folder = Folder::new(&[("tokenizer.json", b"{}")]);
    assert_refused(folder.open(), &["config.json", "missing"]);
    folder.write("config.json", b"{}");
    assert_refused(folder.open(), &["model.safetensors", "download complete"]);
    folder.write("pytorch_model.bin", b"pickle");
    assert_refused(folder.open(), &["pytorch_model.bin", "convert"]);
    let nowhere = folder.path().join("nowhere");
    let error = troupe_model_files::ModelFiles::open(nowhere).map_err(|error| error.to_string());
    assert_refused(error, &["nowhere", "No such file"]);
}

#[test]
fn a_missing_tokenizer_is_an_error_only_for_who_asks() {
    let folder = Folder::tiny(json!({}));
    let ask = || folder.open().expect("opens").tokenizer().map_err(|error| error.to_string());
    assert_refused(ask(), &["tokenizer.json", "no tokenizer"]);
    folder.write("tokenizer.model", b"x");
    assert_refused(ask(), &["tokenizer.model", "convert"]);
    folder.write("tokenizer.json", b"{}").write("tokenizer_config.json", br#"{"add_bos_token": true}"#);
    let Ok(TokenizerSource::HuggingFace(tokenizer)) = ask() else { panic!("a tokenizer") };
    assert_eq!((tokenizer.add_bos, tokenizer.add_eos), (Some(true), None));
}

#[test]
fn broken_json_is_refused_with_its_place() {
    let nested = "[".repeat(100_000);
    for (text, part) in
        [("{\"a\": ", "EOF"), ("[]", "an object"), ("", "EOF"), (nested.as_str(), "recursion")]
    {
        let folder = Folder::tiny(json!({}));
        assert_refused(folder.write("config.json", text.as_bytes()).open(), &["config.json", part]);
    }
    let folder = Folder::tiny(json!({}));
    assert_refused(folder.write("config.json", &[b'{', 0xff, b'}']).open(), &["config.json", "UTF-8"]);
}

#[test]
fn c105u_model_file_is_refused_and_auto_map_is_never_run() {
    assert_refused(Folder::tiny(json!({"model_file": "m.py"})).open(), &["model_file", "run code"]);
    let mapped = json!({"auto_map": {"AutoModelForCausalLM": "modeling_x.X"}});
    assert_eq!(Folder::tiny(mapped).open().expect("opens").model_type().expect("a family"), "llama");
}

#[test]
fn c186u_tie_flag_and_head_in_every_combination() {
    for (flag, has_head, expected) in [
        (Some(true), true, Some(OutputHead::Tied)),
        (Some(true), false, Some(OutputHead::Tied)),
        (Some(false), true, Some(OutputHead::Own)),
        (Some(false), false, None),
        (None, true, Some(OutputHead::Own)),
        (None, false, Some(OutputHead::Tied)),
    ] {
        let folder = Folder::tiny(flag.map_or(json!({}), |flag| json!({"tie_word_embeddings": flag})));
        if has_head {
            let tensors =
                [(EMBEDDING, "F32", &[1][..], patterned(4)), ("lm_head.weight", "F32", &[1], patterned(4))];
            folder.write("model.safetensors", &safetensors(&tensors));
        }
        assert_eq!(folder.open().expect("opens").output_head().ok(), expected, "{flag:?} {has_head}");
    }
}

#[test]
fn affine_checkpoints_are_read_with_their_overrides() {
    for (bits, words) in [(2, 8), (3, 12), (4, 16), (5, 20), (6, 24), (8, 32)] {
        for group in [32, 64, 128] {
            let folder = quantized(json!({"group_size": group, "bits": bits}), words, 128 / group);
            let model = folder.open().expect("a good folder");
            assert_eq!(model.affine("model.layers.0.mlp.up_proj"), AffineSpec::new(bits, group));
            assert_eq!(model.affine("model.norm"), None);
            assert_eq!(model.summary().num_parameters, 2 * 128 + 4);
        }
    }
    let overrides = json!({
        "group_size": 64, "bits": 4, "mode": "affine",
        "model.layers.0.mlp.up_proj": {"group_size": 32, "bits": 8}, "lm_head": false,
    });
    let model = quantized(overrides, 32, 4).open().expect("a good folder");
    let quantization = model.quantization().expect("quantised");
    assert_eq!(model.affine("model.layers.0.mlp.up_proj"), AffineSpec::new(8, 32));
    assert_eq!(quantization.for_module("lm_head"), None);
    assert_eq!(quantization.for_module("model.layers.9.mlp.up_proj"), AffineSpec::new(4, 64));
}

#[test]
fn other_quantisation_is_refused_by_name() {
    for method in ["gptq", "awq", "fp8", "mxfp4", "bitsandbytes", "compressed-tensors"] {
        let config = json!({"quantization_config": {"quant_method": method, "bits": 4, "group_size": 128}});
        assert_refused(Folder::tiny(config).open(), &["config.json", method]);
    }
    assert_refused(
        quantized(json!({"bits": 4, "group_size": 32, "mode": "mxfp4"}), 16, 4).open(),
        &["mxfp4"],
    );
    for (bits, group) in [(7, 64), (1, 64), (4, 16), (4, 256), (0, 0)] {
        let wrong = quantized(json!({"bits": bits, "group_size": group}), 16, 2);
        assert_refused(wrong.open(), &["quantization", "not supported"]);
    }
    assert_refused(quantized(json!({"bits": 4}), 16, 2).open(), &["quantization.group_size", "missing"]);
    assert_refused(quantized(json!({"bits": -4, "group_size": 64}), 16, 2).open(), &["quantization.bits"]);
}

#[test]
fn packed_tensors_that_disagree_are_refused() {
    let name = "model.layers.0.mlp.up_proj";
    let four = json!({"bits": 4, "group_size": 64});
    assert_refused(quantized(four.clone(), 16, 3).open(), &[name, "4 bits in groups of 64"]);
    assert_refused(quantized(four.clone(), 15, 2).open(), &[name, "does not fit"]);
    let folder = quantized(four.clone(), 16, 2);
    folder.write("config.json", b"{}");
    assert_refused(folder.open(), &[name, "does not say how"]);
    let scales = ("model.layers.0.mlp.up_proj.scales", "BF16", &[2, 2][..], patterned(8));
    let weight = ("model.layers.0.mlp.up_proj.weight", "U32", &[2, 16][..], patterned(128));
    folder.write("config.json", json!({"quantization": four}).to_string().as_bytes());
    folder.write("model.safetensors", &safetensors(&[scales, weight]));
    assert_refused(folder.open(), &["up_proj.biases", "missing"]);
}

#[test]
fn templates_follow_the_order_of_precedence() {
    let folder = Folder::tiny(json!({}));
    let default = || folder.open().expect("opens").chat_templates().default.clone();
    assert_eq!(default(), None);
    let listed = json!({"chat_template": [
        {"name": "default", "template": "listed"}, {"name": "rag", "template": "documents"},
    ]});
    folder.write("tokenizer_config.json", listed.to_string().as_bytes());
    assert_eq!(default().as_deref(), Some("listed"));
    let named = folder.open().expect("opens").chat_templates().named.clone();
    assert_eq!((named[0].name.as_str(), named[0].template.as_str()), ("rag", "documents"));
    folder.write("chat_template.json", br#"{"chat_template": "json"}"#);
    assert_eq!(default().as_deref(), Some("json"));
    folder.write("chat_template.jinja", b"jinja").write("additional_chat_templates/tool_use.jinja", b"tools");
    assert_eq!(default().as_deref(), Some("jinja"));
    assert_eq!(folder.open().expect("opens").chat_templates().named[0].name, "tool_use");
    let folder = Folder::tiny(json!({}));
    folder.write("tokenizer_config.json", br#"{"chat_template": [{"name": "x"}]}"#);
    assert_refused(folder.open(), &["tokenizer_config.json", "chat_template"]);
}

#[test]
fn special_tokens_are_texts_or_objects() {
    let folder = Folder::tiny(json!({}));
    folder.write(
        "tokenizer_config.json",
        br#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false},
        "unk_token": null}"#,
    );
    folder.write("special_tokens_map.json", br#"{"eos_token": "other", "unk_token": "<unk>"}"#);
    let model = folder.open().expect("opens");
    let tokens = model.special_tokens();
    assert_eq!(
        (tokens.bos.as_deref(), tokens.eos.as_deref(), tokens.unk.as_deref(), tokens.pad.as_deref()),
        (Some("<s>"), Some("</s>"), Some("<unk>"), None)
    );
    folder.write("tokenizer_config.json", br#"{"bos_token": 1}"#);
    assert_refused(folder.open(), &["tokenizer_config.json", "bos_token"]);
}

#[test]
fn generation_defaults_fall_back_to_the_configuration() {
    let folder = Folder::tiny(json!({"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": -1}));
    let read = || folder.open().map(|model| model.generation_defaults().clone());
    let defaults = read().expect("opens");
    assert_eq!(
        (defaults.eos_token_ids, defaults.bos_token_id, defaults.pad_token_id),
        (vec![2], Some(1), None)
    );
    folder.write("generation_config.json", br#"{"eos_token_id": [3, 2], "temperature": 0.6, "top_k": 20}"#);
    let defaults = read().expect("opens");
    assert_eq!(
        (defaults.eos_token_ids, defaults.temperature, defaults.top_k),
        (vec![3, 2], Some(0.6), Some(20))
    );
    folder.write("generation_config.json", br#"{"typical_p": 0.9, "repetition_penalty": 1.1}"#);
    let defaults = read().expect("opens");
    assert_eq!((defaults.typical_p, defaults.repetition_penalty), (Some(0.9), Some(1.1)));
    for (text, part) in [
        (r#"{"temperature": -1}"#, "temperature"),
        (r#"{"top_p": 1.5}"#, "top_p"),
        (r#"{"top_k": 0.5}"#, "top_k"),
        (r#"{"typical_p": 2}"#, "typical_p"),
        (r#"{"eos_token_id": "</s>"}"#, "eos_token_id"),
        (r#"{"eos_token_id": 4}"#, "outside the vocabulary"),
    ] {
        folder.write("generation_config.json", text.as_bytes());
        assert_refused(read(), &[part]);
    }
}

#[test]
fn wrong_safetensors_headers_are_refused() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"t": {{"dtype": "{dtype}", "shape": {shape}, "data_offsets": {offsets}}}}}"#)
    };
    for (header, parts) in [
        (entry("F32", "[2]", "[0, 4]"), &["`t`", "needs 8 bytes"][..]),
        (entry("F32", "[2]", "[8, 0]"), &["`t`", "8..0"]),
        (entry("F32", "[4]", "[0, 16]"), &["truncated", "`t`"]),
        (entry("F32", "[4294967296, 4294967296]", "[0, 8]"), &["`t`", "larger than any file"]),
        (entry("U8", "[2305843009213693951]", "[0, 2305843009213693951]"), &["truncated", "`t`"]),
        (entry("F8_E4M3", "[8]", "[0, 8]"), &["`t`", "F8_E4M3", "not supported"]),
        (entry("F99", "[8]", "[0, 8]"), &["header", "F99"]),
        (entry("F32", "[1,1,1,1,1,1,1,1,2]", "[0, 8]"), &["`t`", "9 dimensions"]),
        (
            r#"{"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
             "b": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}"#
                .to_owned(),
            &["overlap"],
        ),
        (entry("U8", "[4]", "[0, 4]"), &["data", "belong to no tensor"]),
        (entry("U8", "[4]", "[4, 8]"), &["data", "belong to no tensor"]),
        ("[".repeat(10_000), &["header"]),
        ("{".to_owned(), &["header"]),
    ] {
        let folder = Folder::tiny(json!({}));
        assert_refused(folder.write("model.safetensors", &safetensors_raw(&header, &[0; 8])).open(), parts);
    }
}

#[test]
fn the_fingerprint_tells_models_apart_and_stays() {
    let folder = Folder::tiny(json!({}));
    let print = || folder.open().expect("opens").fingerprint();
    let first = print();
    assert_eq!(first, print());
    let mut tuned = patterned(32);
    tuned[16] ^= 1;
    folder.write("model.safetensors", &safetensors(&[(EMBEDDING, "F32", &[4, 2], tuned)]));
    assert_ne!(first, print(), "the same shapes with other numbers");
    assert_ne!(first, Folder::tiny(json!({"rope_theta": 5})).open().expect("opens").fingerprint());
}

#[test]
fn the_fingerprint_sees_a_change_of_a_row_of_a_large_tensor() {
    let folder = Folder::tiny(json!({}));
    let (rows, columns) = (96, 1024);
    let original = patterned(rows * columns * 4);
    let print = |bytes: &[u8]| {
        let shape = [rows, columns];
        let tensors = [(EMBEDDING, "F32", &shape[..], bytes.to_vec())];
        folder.write("model.safetensors", &safetensors(&tensors)).open().expect("opens").fingerprint()
    };
    let first = print(&original);
    assert_eq!(first, print(&original));
    // Any change of the first or last byte, and any that is as long as the distance of two samples.
    let long = original.len() / 17;
    for start in [0, 1, long, 4 * long + 7, 11 * long, original.len() - long] {
        let mut tuned = original.clone();
        tuned[start..start + long].iter_mut().for_each(|byte| *byte ^= 1);
        assert_ne!(first, print(&tuned), "bytes from {start}");
    }
    for at in [0, original.len() - 1] {
        let mut tuned = original.clone();
        tuned[at] ^= 1;
        assert_ne!(first, print(&tuned), "byte {at}");
    }
}

#[test]
#[cfg(unix)]
fn a_folder_of_links_opens_as_the_hubs_cache_lays_it_out() {
    let blobs = Folder::tiny(json!({}));
    let snapshot = Folder::new(&[]);
    for name in ["config.json", "model.safetensors"] {
        std::os::unix::fs::symlink(blobs.path().join(name), snapshot.path().join(name)).expect("a link");
    }
    let model = snapshot.open().expect("opens");
    assert_eq!(model.fingerprint(), blobs.open().expect("opens").fingerprint());
}

#[test]
fn what_is_not_a_regular_file_is_refused() {
    for name in ["config.json", "model.safetensors", "generation_config.json"] {
        let folder = Folder::tiny(json!({}));
        let path = folder.path().join(name);
        if path.exists() {
            std::fs::remove_file(&path).expect("removed");
        }
        std::fs::create_dir(&path).expect("a folder");
        assert_refused(folder.open(), &[name, "not a regular file"]);
    }
}

#[test]
fn a_configuration_over_the_size_limit_is_refused_unread() {
    let folder = Folder::tiny(json!({}));
    let file = std::fs::File::create(folder.path().join("config.json")).expect("a file");
    file.set_len(1 << 40).expect("a sparse file");
    assert_refused(folder.open(), &["config.json", "1099511627776", "limit"]);
}

#[test]
#[cfg(unix)]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = Folder::new(&[]);
    let pipe = folder.path().join("m.gguf");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let opened = troupe_model_files::ModelFiles::open(&pipe).map_err(|error| error.to_string());
    assert_refused(opened, &["m.gguf", "not a regular file"]);
}
