//! Damaged files: every truncation and many byte flips end in a model or an error, never in a panic, and never in more
//! memory than the file could fill.

mod support;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use support::{Folder, GgufWriter, open_bytes, patterned, read_everything, safetensors};

fn small_safetensors() -> Vec<u8> {
    safetensors(&[
        ("model.layers.0.mlp.up_proj.weight", "U32", &[2, 4], patterned(32)),
        ("model.layers.0.mlp.up_proj.scales", "F16", &[2, 1], patterned(4)),
        ("model.layers.0.mlp.up_proj.biases", "F16", &[2, 1], patterned(4)),
        ("model.norm.weight", "F32", &[4], patterned(16)),
    ])
}

fn open_weights(weights: &[u8]) -> Result<troupe_model_files::ModelFiles, String> {
    let config = json!({"model_type": "llama", "quantization": {"bits": 4, "group_size": 32}}).to_string();
    Folder::new(&[("config.json", config.as_bytes()), ("model.safetensors", weights)]).open()
}

/// The most memory that this process ever had mapped, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("the peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn every_truncation_of_a_gguf_file_is_refused() {
    let bytes = GgufWriter::tiny().bytes();
    // The last tensor ends the file, so every shorter one lacks something.
    open_bytes(&bytes, "m.gguf").expect("whole, it opens");
    for length in 0..bytes.len() {
        let error = open_bytes(&bytes[..length], "m.gguf").err();
        assert!(error.is_some(), "opened with {length} of {} bytes", bytes.len());
    }
}

#[test]
fn every_truncation_of_a_safetensors_file_is_refused() {
    let bytes = small_safetensors();
    open_weights(&bytes).expect("whole, it opens");
    for length in 0..bytes.len() {
        assert!(open_weights(&bytes[..length]).is_err(), "opened with {length} of {} bytes", bytes.len());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_length_in_a_header_allocates_nothing() {
    const ALLOWED_KIB: u64 = 128 << 10;
    let before = peak_kib();
    let bytes = GgufWriter::tiny().bytes();
    for at in 8..bytes.len() - 8 {
        let mut hostile = bytes.clone();
        hostile[at..at + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
        if let Ok(model) = open_bytes(&hostile, "m.gguf") {
            read_everything(&model);
        }
    }
    for length in [1u64 << 26, 1 << 40, u64::MAX] {
        let file = [&length.to_le_bytes()[..], b"{}"].concat();
        assert!(open_weights(&file).is_err());
    }
    let grown = peak_kib() - before;
    assert!(grown < ALLOWED_KIB, "{grown} KiB more");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, rng_seed: RngSeed::Fixed(2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_of_a_gguf_file_never_panic(flips in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut bytes = GgufWriter::tiny().bytes();
        for (at, value) in flips {
            let at = at % bytes.len();
            bytes[at] ^= value;
        }
        if let Ok(model) = open_bytes(&bytes, "m.gguf") {
            read_everything(&model);
        }
    }

    #[test]
    fn flipped_bytes_of_a_safetensors_file_never_panic(
        flips in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = small_safetensors();
        for (at, value) in flips {
            let at = at % bytes.len();
            bytes[at] ^= value;
        }
        if let Ok(model) = open_weights(&bytes) {
            read_everything(&model);
        }
    }
}
