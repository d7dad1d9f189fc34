//! What cannot be served: one line that names it, and an exit code that tells a wrong call (2) from a failure (1).

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::time::Instant;

use serde_json::json;

use crate::support::{CAPITAL, PATIENCE, Server, chat, model, troupe};

fn serve(words: &[&str]) -> Output {
    troupe(&[&["serve"], words].concat()).output().unwrap()
}

/// Asserts that serving fails with `code`, in one line that holds every one of `names`.
pub fn assert_fails(words: &[&str], code: i32, names: &[&str]) {
    let output = serve(words);
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {log}");
    assert!(output.stdout.is_empty(), "{words:?}");
    assert!(!log.contains("panicked") && !log.contains("backtrace"), "{words:?}: {log}");
    let errors: Vec<&str> = log.lines().filter(|line| line.starts_with("error: ")).collect();
    let [error] = errors[..] else { panic!("{words:?}: {} lines of error in {log}", errors.len()) };
    assert_eq!(log.lines().last(), Some(error), "{words:?}");
    for name in names {
        assert!(error.contains(name), "{words:?}: {error:?} does not say {name:?}");
    }
}

#[test]
fn a_wrong_call_is_told_apart_from_a_failure() {
    let model = model();
    let model = model.to_str().unwrap();
    assert_fails(&["--model", "/nowhere/at-all.gguf", "--port", "0"], 1, &["/nowhere/at-all.gguf"]);
    assert_fails(&["--config", "/nowhere/troupe.toml"], 2, &["/nowhere/troupe.toml"]);
    let fewer = ["--model", model, "--max-num-seqs", "8", "--max-num-batched-tokens", "4"];
    assert_fails(&fewer, 2, &["max_num_batched_tokens", "max_num_seqs"]);
    assert_fails(&["--model", model, "--host", "no such host", "--port", "0"], 1, &["no such host"]);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert_fails(&["--model", model, "--port", &port], 1, &["127.0.0.1", &port]);
}

#[test]
fn limits_and_tenants_that_cannot_be_are_named_with_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("troupe.toml");
    let key = "a".repeat(64);
    let tenant = |name: &str, more: &str| {
        format!("[[tenants]]\nname = \"{name}\"\napi_keys_sha256 = [\"{key}\"]\n{more}\n")
    };
    for (file, names) in [
        (tenant("ann", "max_running = 0"), ["`ann`", "max_running", "line 4"]),
        (tenant("ann", "max_queued = -1"), ["`ann`", "max_queued", "line 4"]),
        (tenant("ann", "requests_per_minute = 0"), ["`ann`", "requests_per_minute", "line 4"]),
        (tenant("ann", "\ntokens_per_minute = 0"), ["`ann`", "tokens_per_minute", "line 5"]),
        (tenant("ann", "tokens_per_minute = 0.5"), ["`ann`", "tokens_per_minute", "line 4"]),
        (tenant("ann", "weight = 0"), ["`ann`", "weight", "line 4"]),
        (tenant("ann", "timeout_seconds = 0"), ["`ann`", "timeout_seconds", "line 4"]),
        (tenant("ann", "wieght = 1"), ["`ann`", "`wieght`", "line 4"]),
        (tenant("ann", "max_priority = \"urgent\""), ["`ann`", "max_priority", "line 4"]),
        (tenant("ann", "weight = 1\nweight = 2"), ["duplicate", "`weight`", "line 5"]),
        (tenant("ann", "") + &tenant("ann", ""), ["`ann`", "name", "line 6"]),
        (tenant("ann", "") + &tenant("bob", ""), ["`bob`", "`ann`", "line 7"]),
        ("[scheduler]\nmax_queued = 0\n".to_owned(), ["scheduler.max_queued", "0", "line 2"]),
    ] {
        fs::write(&path, &file).unwrap();
        // Before a model is looked for.
        let words = ["--config", path.to_str().unwrap(), "--model", "/nowhere.gguf", "--port", "0"];
        assert_fails(&words, 2, &[&names[..], &[path.to_str().unwrap()]].concat());
    }
}

#[test]
fn files_that_are_no_model_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();

    let whole = fs::read(model()).unwrap();
    for (name, length) in [("head.gguf", 1000), ("metadata.gguf", 1 << 20), ("tensors.gguf", 64 << 20)] {
        fs::write(at(name), &whole[..length]).unwrap();
        assert_fails(&["--model", &at(name), "--port", "0"], 1, &[name]);
    }
    fs::write(at("text.gguf"), "this is no model").unwrap();
    assert_fails(&["--model", &at("text.gguf"), "--port", "0"], 1, &["text.gguf"]);
    fs::create_dir(at("empty")).unwrap();
    assert_fails(&["--model", &at("empty"), "--port", "0"], 1, &["empty"]);
}

#[test]
fn folders_that_lack_something_name_it() {
    let dir = tempfile::tempdir().unwrap();
    let without_tokenizer = dir.path().join("without-tokenizer");
    write_folder(&without_tokenizer, "llama");
    assert_fails(
        &["--model", without_tokenizer.to_str().unwrap(), "--port", "0"],
        1,
        &["tokenizer", "without-tokenizer"],
    );

    let unknown = dir.path().join("unknown");
    write_folder(&unknown, "nonesuch");
    write_tokenizer(&unknown);
    assert_fails(&["--model", unknown.to_str().unwrap(), "--port", "0"], 1, &["nonesuch", "llama"]);

    let shapeless = dir.path().join("shapeless");
    write_folder(&shapeless, "llama");
    write_tokenizer(&shapeless);
    assert_fails(&["--model", shapeless.to_str().unwrap(), "--port", "0"], 1, &["model.layers.0"]);
}

/// A folder with a configuration and two tensors of all that the family has.
fn write_folder(dir: &Path, model_type: &str) {
    fs::create_dir(dir).unwrap();
    let config = json!({
        "model_type": model_type, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "vocab_size": 4,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
    });
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let header = json!({
        "model.embed_tokens.weight": {"dtype": "F32", "shape": [4, 16], "data_offsets": [0, 256]},
        "model.norm.weight": {"dtype": "F32", "shape": [16], "data_offsets": [256, 320]},
    })
    .to_string();
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 320]].concat();
    fs::write(dir.join("model.safetensors"), file).unwrap();
}

fn write_tokenizer(dir: &Path) {
    let vocabulary = json!({"a": 0, "b": 1, "c": 2, "</s>": 3});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"},
    });
    fs::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs::write(dir.join("tokenizer_config.json"), json!({"eos_token": "</s>"}).to_string()).unwrap();
}

#[test]
fn c021_c276_a_server_is_ready_when_it_serves_and_not_before() {
    let server = Server::loading(&["--served-model-name", "fox", "--model-alias", "reynard"]);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let models = server.client.get("/v1/models");
        let status = server.status();
        if models.status == 200 {
            assert_eq!((status.code, status.word.as_str()), (200, "ready"), "what was listed is served");
            let models = models.json();
            assert_eq!((&models["data"][0]["id"], &models["data"][1]), (&json!("fox"), &json!(null)));
            assert_eq!(models["data"][0]["max_model_len"], 8192);
            break;
        }
        assert_eq!((models.status, models.json()["error"]["code"].as_str()), (503, Some("model_not_ready")));
    }
    for name in ["fox", "reynard"] {
        let mut request = chat(CAPITAL, 32);
        request["model"] = name.into();
        let answer = server.client.post("/v1/chat/completions", &request).json();
        assert_eq!(answer["model"], "fox", "{answer}");
    }
}
