//! Small checkpoints, and a driver that steps an engine as a scheduler would.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod checkpoint;
pub mod driver;
pub mod gguf;
pub mod reference;
pub mod running;

use std::path::Path;

use troupe_protocol::{CpuOptions, DeviceChoice, KvCacheDtype, LoadRequest, SamplingParams, WeightDtype};

/// Small blocks, so that short sequences cross their borders.
pub const BLOCK_SIZE: u32 = 8;

/// How a tiny checkpoint is loaded, in f32 and on the CPU.
pub fn request(path: &Path) -> LoadRequest {
    LoadRequest {
        path: path.to_str().expect("a path of UTF-8").to_owned(),
        device: DeviceChoice::Cpu,
        weights: WeightDtype::F32,
        kv_cache_dtype: KvCacheDtype::Auto,
        max_model_len: None,
        max_num_seqs: Some(16),
        max_num_batched_tokens: Some(1024),
        block_size: BLOCK_SIZE,
        kv_cache_bytes: Some(16 << 20),
        store: None,
        cpu: CpuOptions::default(),
    }
}

/// The default model, which `make models` fetches, with its weights as they are served.
pub fn default_model() -> LoadRequest {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.exists(), "{} is missing: run `make models`", path.display());
    LoadRequest {
        block_size: 32,
        weights: WeightDtype::Auto,
        kv_cache_bytes: Some(512 << 20),
        store: None,
        ..request(&path)
    }
}

/// Greedy, with the log-probabilities of the `n` most likely tokens.
pub fn greedy_with_logprobs(n: u8) -> SamplingParams {
    SamplingParams { logprobs: Some(n), ..SamplingParams::greedy() }
}

/// The parameters of a seeded draw that uses every truncation.
pub fn seeded(seed: u64) -> SamplingParams {
    SamplingParams { temperature: 0.8, top_p: 0.9, top_k: 40, seed, ..SamplingParams::greedy() }
}
