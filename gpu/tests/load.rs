//! Models that cannot be loaded: each error names what is wrong with them.

mod support;

use std::io::{self, Write};
use std::sync::mpsc;

use serde_json::{Value, json};
use support::checkpoint::{Checkpoint, Tensor};
use support::request;
use tempfile::TempDir;
use troupe_gpu::Engine;
use troupe_protocol::{Activations, CpuOptions, DeviceChoice, KvCacheDtype, LoadRequest, WeightDtype};

fn load(request: &LoadRequest) -> Result<Engine, String> {
    Engine::load(request, &mut |_, _| {}).map_err(|error| error.to_string())
}

/// Log lines of `run`.
fn logged<T>(run: impl FnOnce() -> T) -> String {
    let (sender, lines) = mpsc::channel::<Vec<u8>>();
    let writer = move || Sink(sender.clone());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    tracing::subscriber::with_default(subscriber, run);
    String::from_utf8(lines.try_iter().flatten().collect()).unwrap()
}

struct Sink(mpsc::Sender<Vec<u8>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[track_caller]
fn assert_refused(folder: &TempDir, parts: &[&str]) {
    let error = load(&request(folder.path())).err().expect("refused");
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn every_tensor_is_needed_in_its_shape_and_type() {
    let model = Checkpoint::tiny(&json!({"attention_bias": true, "mlp_bias": true}));
    assert!(load(&request(model.write().path())).is_ok());
    for (name, tensor) in &model.tensors {
        let mut other = model.clone();
        other.tensors.remove(name);
        assert_refused(&other.write(), &[name]);

        let mut taller = tensor.clone();
        taller.shape[0] += 1;
        let row = tensor.bytes.len() / tensor.shape[0];
        taller.bytes.extend(vec![0; row]);
        other.set(name, taller.clone());
        assert_refused(
            &other.write(),
            &[name, &format!("{:?}", taller.shape), &format!("{:?}", tensor.shape)],
        );

        other.set(name, Tensor { dtype: "I32", ..tensor.clone() });
        assert_refused(&other.write(), &[name, "I32"]);
    }
}

#[test]
fn weights_that_give_no_numbers_are_refused() {
    for value in [f32::NAN, f32::INFINITY] {
        let mut model = Checkpoint::tiny(&json!({}));
        let shape = model.tensors["model.norm.weight"].shape.clone();
        model.set("model.norm.weight", Tensor::f32(&shape, &vec![value; shape.iter().product()]));
        assert_refused(&model.write(), &["not finite"]);
    }
}

#[test]
fn an_unknown_architecture_is_refused_with_the_known_ones() {
    let changed = |model_type: Value| {
        let mut model = Checkpoint::tiny(&json!({}));
        model.config.insert("model_type".into(), model_type);
        model.write()
    };
    assert_refused(&changed(json!("perceptron")), &["unknown architecture `perceptron`", "known: llama"]);
    assert_refused(&changed(Value::Null), &["model_type"]);
    assert_refused(&changed(json!(7)), &["model_type"]);
}

#[test]
fn unusable_configurations_name_the_key() {
    let rope = |section: Value| json!({"rope_parameters": section});
    let longrope = |short: Value, long: Value| {
        json!({
            "rope_parameters": {"rope_type": "longrope", "short_factor": short, "long_factor": long},
            "head_dim": 8,
        })
    };
    let ones = || json!([1, 1, 1, 1]);
    for (changes, parts) in [
        (json!({"hidden_act": "gelu"}), &["hidden_act", "gelu", "silu"][..]),
        (json!({"num_key_value_heads": 3}), &["num_key_value_heads", "4 heads", "3"]),
        (json!({"num_key_value_heads": 0}), &["num_key_value_heads", "0"]),
        (json!({"num_attention_heads": 6}), &["hidden_size", "64", "6 heads"]),
        (json!({"head_dim": 7}), &["head_dim", "7"]),
        (json!({"head_dim": -8}), &["head_dim", "-8"]),
        (json!({"hidden_size": null}), &["hidden_size"]),
        (json!({"vocab_size": 1_u64 << 40}), &["vocab_size", "1099511627776"]),
        (json!({"vocab_size": (1 << 24) + 1}), &["vocab_size", "2^24"]),
        (json!({"num_hidden_layers": 1.5}), &["num_hidden_layers", "1.5"]),
        (json!({"intermediate_size": "96"}), &["intermediate_size", "\"96\""]),
        (json!({"rms_norm_eps": "small"}), &["rms_norm_eps", "small"]),
        (json!({"attention_bias": 1}), &["attention_bias", "1 is not true or false"]),
        (json!({"max_position_embeddings": 0}), &["max_position_embeddings", "0 is not a size"]),
        (json!({"max_position_embeddings": -1}), &["max_position_embeddings", "-1"]),
        (json!({"rope_theta": 0}), &["rope_theta", "0 is not above 1"]),
        (json!({"rope_scaling": [4]}), &["rope_scaling", "an object"]),
        (
            json!({"rope_scaling": {"type": "spiral", "factor": 2}}),
            &["rope_scaling.rope_type", "`spiral`", "yarn"],
        ),
        (rope(json!({"rope_type": "linear"})), &["rope_parameters.factor"]),
        (rope(json!({"rope_type": "linear", "factor": 0.5})), &["rope_parameters.factor", "0.5 is below 1"]),
        (rope(json!({"rope_type": "dynamic", "factor": "2"})), &["rope_parameters.factor", "\"2\""]),
        (rope(json!({"rope_type": "llama3", "factor": 2})), &["rope_parameters.low_freq_factor"]),
        (
            rope(json!({"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4})),
            &["rope_parameters.high_freq_factor", "4"],
        ),
        (
            rope(json!({"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 0})),
            &["original_max_position_embeddings", "below 2"],
        ),
        (rope(json!({"partial_rotary_factor": 1.5})), &["24 of 16"]),
        (longrope(ones(), Value::Null), &["rope_parameters.long_factor"]),
        (longrope(json!([1, 1]), ones()), &["rope_parameters.short_factor", "2 factors for 4"]),
        (longrope(json!([1, 1, 1, 0]), ones()), &["rope_parameters.short_factor", "positive"]),
    ] {
        let mut model = Checkpoint::tiny(&json!({}));
        model.config.extend(changes.as_object().unwrap().clone());
        assert_refused(&model.write(), parts);
    }
}

#[test]
fn files_that_are_not_what_they_say_are_refused_by_name() {
    let write = |name: &str, bytes: &[u8]| {
        let folder = Checkpoint::tiny(&json!({})).write();
        std::fs::write(folder.path().join(name), bytes).unwrap();
        folder
    };
    let whole = Checkpoint::tiny(&json!({})).write();
    let weights = std::fs::read(whole.path().join("model.safetensors")).unwrap();
    assert_refused(&write("model.safetensors", &weights[..weights.len() - 1]), &["model.safetensors"]);
    assert_refused(&write("model.safetensors", &weights[..100]), &["model.safetensors"]);
    assert_refused(&write("model.safetensors", &[0xff; 64]), &["model.safetensors"]);
    assert_refused(
        &write("config.json", b"{\"model_type\": \"llama\", \"rms_norm_eps\": NaN}"),
        &["config.json"],
    );
    assert_refused(&write("config.json", b"[]"), &["config.json"]);
    std::fs::remove_file(whole.path().join("config.json")).unwrap();
    assert_refused(&whole, &["config.json"]);
}

#[test]
fn a_device_or_memory_that_is_not_there_is_refused() {
    let folder = Checkpoint::tiny(&json!({})).write();
    let small = LoadRequest { kv_cache_bytes: Some(100), ..request(folder.path()) };
    assert!(load(&small).err().unwrap().contains("100 bytes"));
    let large = LoadRequest { kv_cache_bytes: Some(1 << 60), ..request(folder.path()) };
    let begin = format!("engine.kv_cache_memory of {} bytes is more than the ", 1_u64 << 60);
    assert!(load(&large).err().unwrap().starts_with(&begin));

    let on_gpu = LoadRequest { device: DeviceChoice::Gpu, ..request(folder.path()) };
    let found = load(&on_gpu);
    assert_eq!(found.is_ok(), mlx_sys::Device::Gpu.is_available());
    assert!(found.err().is_none_or(|error| error.contains("no GPU")));
}

#[test]
fn kv_memory_bounds_the_length_that_is_announced() {
    let folder = Checkpoint::tiny(&json!({})).write();
    // Two layers of keys and values of two heads of 16 in f32, in blocks of 8.
    let block = 2 * 2 * 2 * 16 * 4 * 8;
    for (blocks, asked, len) in
        [(5, None, 40), (100, None, 256), (1_000, None, 256), (100, Some(50), 50), (7, Some(50), 50)]
    {
        let engine = load(&LoadRequest {
            kv_cache_bytes: Some(blocks * block + block - 1),
            max_model_len: asked,
            ..request(folder.path())
        })
        .unwrap();
        let limits = engine.limits();
        assert_eq!((limits.max_model_len, limits.vocab_size), (len, 64), "{blocks} blocks, {asked:?}");
        assert_eq!(
            u64::from(limits.num_blocks),
            blocks,
            "a size is taken as it is: the prefix cache uses the rest"
        );
        assert_eq!(blocks * block, engine.info().kv_bytes);
    }
    let short =
        LoadRequest { kv_cache_bytes: Some(6 * block), max_model_len: Some(50), ..request(folder.path()) };
    assert!(load(&short).err().unwrap().contains("6 blocks, but a sequence needs at least 7"));
}

#[test]
fn without_a_size_there_is_kv_memory_for_every_sequence_at_its_longest() {
    let folder = Checkpoint::tiny(&json!({})).write();
    let load_request = LoadRequest {
        kv_cache_bytes: None,
        max_num_seqs: Some(3),
        max_model_len: Some(50),
        ..request(folder.path())
    };
    assert_eq!(load(&load_request).unwrap().limits().num_blocks, 3 * 7);
}

#[test]
fn a_length_that_memory_bounds_is_warned_of() {
    let folder = Checkpoint::tiny(&json!({})).write();
    let block = 2 * 2 * 2 * 16 * 4 * 8;
    for (blocks, asked, warned) in [(5, None, true), (32, None, false), (7, Some(50), false)] {
        let request = LoadRequest {
            kv_cache_bytes: Some(blocks * block),
            max_model_len: asked,
            ..request(folder.path())
        };
        let lines = logged(|| load(&request).unwrap());
        let warning =
            "engine.kv_cache_memory) hold 40 tokens: max_model_len is that, not the model's own 256";
        assert_eq!(lines.contains(warning), warned, "{blocks} blocks, {asked:?}: {lines}");
    }
}

#[test]
fn kv_blocks_take_the_bytes_of_their_type() {
    let folder = Checkpoint::tiny(&json!({})).write();
    // Two layers of keys and values of two heads of 16, in blocks of 8; int8 heads have a scale of four bytes.
    let block = |head: u64| 2 * 2 * 2 * head * 8;
    for (dtype, head) in [
        (KvCacheDtype::Auto, 16 * 2),
        (KvCacheDtype::F32, 16 * 4),
        (KvCacheDtype::F16, 16 * 2),
        (KvCacheDtype::Bf16, 16 * 2),
        (KvCacheDtype::Int8, 16 + 4),
    ] {
        let engine = load(&LoadRequest {
            weights: WeightDtype::Auto,
            kv_cache_dtype: dtype,
            kv_cache_bytes: Some(10 * block(head)),
            ..request(folder.path())
        })
        .unwrap();
        assert_eq!((engine.limits().num_blocks, engine.info().kv_bytes), (10, 10 * block(head)), "{dtype}");
    }
}

#[test]
fn kv_blocks_of_stock_operations_are_of_the_type_that_is_computed_in() {
    let folder = Checkpoint::tiny(&json!({})).write();
    let stored = |kv_cache_dtype| {
        load(&LoadRequest { weights: WeightDtype::Stored, kv_cache_dtype, ..request(folder.path()) })
    };
    for dtype in [KvCacheDtype::Auto, KvCacheDtype::F32] {
        assert!(stored(dtype).is_ok(), "{dtype}");
    }
    for dtype in [KvCacheDtype::F16, KvCacheDtype::Bf16, KvCacheDtype::Int8] {
        let error = stored(dtype).err().expect("refused");
        assert!(error.contains(&format!("KV cache of {dtype} ")) && error.contains("f32"), "{error}");
    }
}

#[test]
fn the_context_is_what_the_configuration_says_stretched_by_its_scaling() {
    let scaled =
        |kind: &str| json!({ "rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 32 });
    for (scaling, limit) in
        [(json!(null), 128), (scaled("linear"), 512), (scaled("dynamic"), 512), (scaled("yarn"), 128)]
    {
        let config = json!({ "max_position_embeddings": 128, "rope_scaling": scaling });
        let folder = Checkpoint::tiny(&config).write();
        assert_eq!(load(&request(folder.path())).unwrap().limits().max_model_len, limit, "{config}");
        let longer = LoadRequest { max_model_len: Some(limit + 1), ..request(folder.path()) };
        let error = load(&longer).err().unwrap();
        assert!(error.contains(&format!("exceeds the {limit} tokens")), "{error}");
    }
}

#[test]
fn options_of_the_cpu_that_cannot_be_followed_are_refused() {
    let folder = Checkpoint::tiny(&json!({})).write();
    let with = |weights, cpu| load(&LoadRequest { weights, cpu, ..request(folder.path()) }).err();
    for threads in [0, 257] {
        let cpu = CpuOptions { threads: Some(threads), ..CpuOptions::default() };
        let wanted = format!("cpu.threads of {threads} is not between 1 and 256");
        assert_eq!(with(WeightDtype::Auto, cpu), Some(wanted));
    }
    let cpu = CpuOptions { activations: Some(Activations::Int8), ..CpuOptions::default() };
    for (weights, reason) in [
        (WeightDtype::F32, "weights are kept as f32"),
        (WeightDtype::Stored, "weights are computed with in the type of the file"),
        (WeightDtype::Auto, "the model has no quantised weights that a kernel takes"),
    ] {
        assert_eq!(with(weights, cpu), Some(format!("cpu.activations is set to int8, but {reason}")));
    }
}
