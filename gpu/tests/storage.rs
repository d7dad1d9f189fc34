//! Every way of storing weights computes what the same values say as plain f32.

mod support;

use mlx_sys::{Array, Dtype, Packing, Quantized};
use serde_json::json;
use support::checkpoint::{Checkpoint, Tensor};
use support::driver::Driver;
use support::gguf::{self, Format};
use support::{greedy_with_logprobs, request};
use tempfile::TempDir;
use troupe_protocol::{Activations, CpuOptions, LoadRequest, TokenId, WeightDtype};

/// Products of dequantised groups, summed in another order.
const QUANTISED_TOLERANCE: f32 = 1e-3;

/// The CPU's kernels compute in f32, but for activations of 16 bits beside quantised weights.
const KERNELS_TOLERANCE: f32 = 1e-3;

/// Activations in f16, whose steps are 2^-10 of a value, through two layers.
const F16_TOLERANCE: f32 = 0.05;

/// The same in bf16, with steps of 2^-7.
const BF16_TOLERANCE: f32 = 0.3;

/// Log-probabilities of the whole vocabulary at three places of a sequence of 30.
fn logprobs(folder: &TempDir, file: &str, weights: WeightDtype) -> Vec<Vec<(TokenId, f32)>> {
    let path = folder.path().join(file);
    logprobs_of(&LoadRequest { weights, ..request(&path) })
}

fn logprobs_of(request: &LoadRequest) -> Vec<Vec<(TokenId, f32)>> {
    let tokens: Vec<TokenId> = (0..30).map(|at| (11 * at * at + at + 3) % 64).collect();
    let mut found = Driver::load(request).logprobs_at(&tokens, &[0, 14, 29], &greedy_with_logprobs(64));
    found.iter_mut().for_each(|top| top.sort_by_key(|&(id, _)| id));
    found
}

#[track_caller]
fn assert_close(found: &[Vec<(TokenId, f32)>], wanted: &[Vec<(TokenId, f32)>], tolerance: f32, at: &str) {
    for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
        assert_eq!(found.0, wanted.0);
        assert!((found.1 - wanted.1).abs() <= tolerance, "{at}: token {}: {} {}", found.0, found.1, wanted.1);
    }
}

/// Rows of whole groups of every size.
fn wide() -> Checkpoint {
    Checkpoint::tiny(&json!({"hidden_size": 128, "intermediate_size": 256}))
}

/// `model` as an MLX-quantised folder, and with the values that it then holds.
fn quantised(model: &Checkpoint, packing: impl Fn(&str) -> Option<Packing>) -> (Checkpoint, Checkpoint) {
    let (mut packed, mut held) = (model.clone(), model.clone());
    for (name, tensor) in &model.tensors {
        let Some(module) = name.strip_suffix(".weight").filter(|_| tensor.shape.len() == 2) else { continue };
        let Some(packing) = packing(module) else { continue };
        let [rows, columns] = [tensor.shape[0] as i32, tensor.shape[1] as i32];
        let array = Array::from_slice(&tensor.values(), &[rows, columns]).unwrap();
        let quantized = Quantized::quantize(&array, packing).unwrap();
        packed.set(name, raw("U32", &quantized.packed));
        packed.set(&format!("{module}.scales"), raw("F32", &quantized.scales));
        packed.set(&format!("{module}.biases"), raw("F32", &quantized.biases));
        held.set(name, raw("F32", &quantized.dequantize(Dtype::F32).unwrap()));
    }
    (packed, held)
}

fn raw(dtype: &'static str, array: &Array) -> Tensor {
    let bytes = match dtype {
        "U32" => array.to_vec::<u32>().unwrap().iter().flat_map(|word| word.to_le_bytes()).collect(),
        _ => array.to_vec::<f32>().unwrap().iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    Tensor { dtype, shape: array.shape().iter().map(|&dim| dim as usize).collect(), bytes }
}

#[test]
fn quantised_folders_of_every_packing_hold_their_values() {
    let model = wide();
    for bits in [2, 3, 4, 5, 6, 8] {
        for group_size in [32, 64, 128] {
            let at = format!("{bits} bits in groups of {group_size}");
            let packing = Packing { group_size, bits };
            let (mut packed, held) = quantised(&model, |_| Some(packing));
            packed.config.insert("quantization".into(), json!({"bits": bits, "group_size": group_size}));
            let (packed, held) = (packed.write(), held.write());
            let wanted = logprobs(&held, "", WeightDtype::F32);
            assert_eq!(logprobs(&packed, "", WeightDtype::F32), wanted, "{at}");
            assert_close(&logprobs(&packed, "", WeightDtype::Stored), &wanted, QUANTISED_TOLERANCE, &at);
            assert_close(&logprobs(&packed, "", WeightDtype::Auto), &wanted, KERNELS_TOLERANCE, &at);
        }
    }
}

#[test]
fn a_layer_may_be_packed_otherwise_or_not_at_all() {
    let own = |module: &str| match module {
        "model.layers.0.self_attn.v_proj" => Some(Packing { group_size: 64, bits: 8 }),
        "model.layers.1.mlp.up_proj" | "lm_head" => None,
        _ => Some(Packing { group_size: 32, bits: 4 }),
    };
    let (mut packed, held) = quantised(&wide(), own);
    packed.config.insert(
        "quantization".into(),
        json!({
            "bits": 4,
            "group_size": 32,
            "model.layers.0.self_attn.v_proj": {"bits": 8, "group_size": 64},
            "model.layers.1.mlp.up_proj": false,
            "lm_head": false,
        }),
    );
    let (packed, held) = (packed.write(), held.write());
    let wanted = logprobs(&held, "", WeightDtype::F32);
    assert_eq!(logprobs(&packed, "", WeightDtype::F32), wanted);
    assert_close(&logprobs(&packed, "", WeightDtype::Stored), &wanted, QUANTISED_TOLERANCE, "stored");
}

#[test]
fn gguf_files_of_every_format_hold_their_values() {
    for tied in [false, true] {
        let model = Checkpoint::tiny(&json!({"tie_word_embeddings": tied}));
        for format in Format::ALL {
            let at = format!("{format:?}, tied head: {tied}");
            let (bytes, held) = gguf::encode(&model, format);
            let folder = held.write();
            std::fs::write(folder.path().join("model.gguf"), bytes).unwrap();
            let wanted = logprobs(&folder, "", WeightDtype::F32);
            assert_eq!(logprobs(&folder, "model.gguf", WeightDtype::F32), wanted, "{at}");
            let tolerance = match format {
                Format::F32 => QUANTISED_TOLERANCE,
                Format::Bf16 => BF16_TOLERANCE,
                _ => F16_TOLERANCE,
            };
            assert_close(&logprobs(&folder, "model.gguf", WeightDtype::Stored), &wanted, tolerance, &at);
            assert_close(
                &logprobs(&folder, "model.gguf", WeightDtype::Auto),
                &wanted,
                KERNELS_TOLERANCE,
                &at,
            );
        }
    }
}

#[test]
fn folders_in_half_precision_hold_their_values() {
    for (dtype, tolerance) in [("F16", F16_TOLERANCE), ("BF16", BF16_TOLERANCE)] {
        let (mut halved, mut held) = (Checkpoint::tiny(&json!({})), Checkpoint::tiny(&json!({})));
        for (name, tensor) in Checkpoint::tiny(&json!({})).tensors {
            let (bytes, values): (Vec<_>, Vec<_>) =
                tensor.values().into_iter().map(|x| half(dtype, x)).unzip();
            held.set(&name, Tensor::f32(&tensor.shape, &values));
            halved.set(&name, Tensor { dtype, shape: tensor.shape, bytes: bytes.concat() });
        }
        let (halved, held) = (halved.write(), held.write());
        let wanted = logprobs(&held, "", WeightDtype::F32);
        assert_eq!(logprobs(&halved, "", WeightDtype::F32), wanted, "{dtype}");
        assert_close(&logprobs(&halved, "", WeightDtype::Stored), &wanted, tolerance, dtype);
        assert_close(&logprobs(&halved, "", WeightDtype::Auto), &wanted, KERNELS_TOLERANCE, dtype);
    }
}

fn half(dtype: &str, x: f32) -> ([u8; 2], f32) {
    if dtype == "F16" {
        let x = half::f16::from_f32(x);
        return (x.to_le_bytes(), x.to_f32());
    }
    let x = half::bf16::from_f32(x);
    (x.to_le_bytes(), x.to_f32())
}

#[test]
fn activations_are_as_exact_as_they_were_asked_to_be() {
    let (mut packed, held) = quantised(&wide(), |_| Some(Packing { group_size: 64, bits: 4 }));
    packed.config.insert("quantization".into(), json!({"bits": 4, "group_size": 64}));
    let (packed, held) = (packed.write(), held.write());
    let wanted = logprobs(&held, "", WeightDtype::F32);
    let with = |activations, threads| {
        let cpu = CpuOptions { threads, activations, ..CpuOptions::default() };
        logprobs_of(&LoadRequest { weights: WeightDtype::Auto, cpu, ..request(packed.path()) })
    };
    for (activations, tolerance) in [
        (Activations::F32, QUANTISED_TOLERANCE),
        (Activations::Int16, KERNELS_TOLERANCE),
        (Activations::Int8, 0.2),
    ] {
        let found = with(Some(activations), Some(1));
        assert_close(&found, &wanted, tolerance, &format!("{activations:?}"));
        assert_eq!(with(Some(activations), Some(3)), found, "{activations:?} on three threads");
    }
    assert_eq!(with(None, None), with(Some(Activations::Int16), None));
    assert_ne!(with(Some(Activations::Int8), None), with(None, None));
}
