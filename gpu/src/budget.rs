//! Dividing memory: how many KV blocks, and so how long a sequence may grow.

use mlx_sys::Dtype;
use troupe_protocol::{EngineLimits, LoadRequest};

use crate::error::{GpuError, Result};
use crate::kv::{CacheKind, KvBody, KvShape};
use crate::models::ConfigReader;

/// Without a given size, KV blocks take at most this share of the memory that is available.
const AVAILABLE_SHARE: f64 = 0.25;

/// What is assumed to be available where the system does not say.
const ASSUMED_AVAILABLE: u64 = 4 << 30;

/// Bounds of the engine and shape of its KV memory.
///
/// # Errors
/// Unusable configuration, or a KV size that does not hold a single block.
pub fn plan(
    request: &LoadRequest,
    config: &ConfigReader,
    kinds: &[CacheKind],
    dtype: Dtype,
    body: KvBody,
) -> Result<(EngineLimits, KvShape)> {
    let trained = config.u32("max_position_embeddings")?.unwrap_or(u32::MAX);
    let wanted_len = request.max_model_len.unwrap_or(trained).min(trained);
    let per_token: u64 = kinds.iter().map(|kind| kind.bytes_per_token(dtype)).sum();
    let per_block = per_token * u64::from(request.block_size);
    // More than every sequence at its longest is never used.
    let per_sequence = u64::from(wanted_len.div_ceil(request.block_size));
    let most = per_sequence
        .saturating_mul(u64::from(request.max_num_seqs))
        .min(u64::from(u32::MAX / request.block_size));
    let bytes =
        request.kv_cache_bytes.unwrap_or_else(|| (available_memory() as f64 * AVAILABLE_SHARE) as u64);
    let num_blocks = (bytes / per_block).min(most);
    if num_blocks == 0 {
        return Err(GpuError::KvTooSmall { wanted: bytes, blocks: num_blocks, least: 1 });
    }
    let limits = EngineLimits {
        max_model_len: wanted_len.min(num_blocks as u32 * request.block_size),
        max_num_seqs: request.max_num_seqs,
        max_num_batched_tokens: request.max_num_batched_tokens,
        block_size: request.block_size,
        num_blocks: num_blocks as u32,
        vocab_size: config.u32("vocab_size")?.ok_or_else(|| config.missing("vocab_size"))?,
    };
    let (num_blocks, block_size) = (num_blocks as usize, request.block_size as usize);
    Ok((limits, KvShape { num_blocks, block_size, dtype, body }))
}

/// Bytes of memory that could be taken without swapping.
fn available_memory() -> u64 {
    // Linux says it in kibibytes; elsewhere the file is not there.
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(ASSUMED_AVAILABLE, |kib| kib * 1024)
}
