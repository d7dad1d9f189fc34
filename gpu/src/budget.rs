//! Dividing memory: how many KV blocks, and so how long a sequence may grow.

use mlx_sys::{Device, Dtype, memory};
use troupe_protocol::{EngineLimits, LoadRequest, StepDefaults};

use crate::error::{GpuError, Result};
use crate::host::{self, Memory};
use crate::kv::{CacheKind, KvBody, KvShape};
use crate::layers::{context_limit, length_classes};
use crate::models::ConfigReader;

/// Without a given size, KV blocks take at most this share of the memory that the host has free: others live there.
const HOST_SHARE: f64 = 0.25;

/// Without a given size, weights and KV blocks together take at most this share of a GPU's memory; the rest is for
/// what a step computes.
const GPU_SHARE: f64 = 0.85;

/// Logits, as f32, that log-probabilities of prompts may take in one step.
const PROMPT_LOGITS_BYTES: u32 = 32 << 20;

/// What is assumed to be free where nobody says.
const ASSUMED_FREE: u64 = 4 << 30;

/// What the engine computes with and in.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Where steps run.
    pub device: Device,
    /// Type of the KV blocks' elements.
    pub dtype: Dtype,
    /// Who reads and writes them.
    pub body: KvBody,
}

/// Refuses a given KV size that the device can never have. Needs nothing of a model, so that it is refused before
/// minutes of loading.
///
/// # Errors
/// More bytes than the GPU, or for the CPU the machine, has in all.
pub fn check_kv_size(request: &LoadRequest, device: Device) -> Result<()> {
    let Some(wanted) = request.kv_cache_bytes else { return Ok(()) };
    let (owner, total) = match device {
        Device::Cpu => ("machine", host::memory().map(|memory| memory.total)),
        Device::Gpu => ("GPU", device.memory_bytes()?),
    };
    match total {
        Some(total) if wanted > total => Err(GpuError::KvTooLarge { wanted, total, owner }),
        Some(_) | None => Ok(()),
    }
}

/// Bounds of the engine and shape of its KV memory. Weights are loaded already, and count as used.
///
/// A given KV size is taken as it is: what sequences leave of it, cached prefixes use. Without one, there are blocks for
/// every sequence at its longest, if they fit.
///
/// # Errors
/// Unusable configuration, or a KV size that does not hold a single block.
pub fn plan(
    request: &LoadRequest,
    config: &ConfigReader,
    kinds: &[CacheKind],
    place: Place,
) -> Result<(EngineLimits, KvShape)> {
    let limit = context_limit(config)?.unwrap_or(u32::MAX);
    let wanted_len = match request.max_model_len {
        Some(wanted) if wanted > limit => return Err(GpuError::ContextTooLong { wanted, limit }),
        Some(wanted) => wanted,
        None => limit,
    };
    let (max_num_seqs, max_num_batched_tokens) = step_bounds(request, place.device);
    let block_size = request.block_size;
    let per_token: u64 = kinds.iter().map(|kind| kind.bytes_per_token(place.dtype)).sum();
    let per_sequence = u64::from(wanted_len.div_ceil(block_size));
    let (bytes, most) = match request.kv_cache_bytes {
        Some(bytes) => (bytes, u64::MAX),
        None => (free_bytes(place.device)?, per_sequence.saturating_mul(u64::from(max_num_seqs))),
    };
    // Slots are numbered by i32.
    let most = most.min(u64::from(i32::MAX as u32 / block_size));
    let num_blocks = (bytes / (per_token * u64::from(block_size))).min(most);
    // A length that was asked for is a promise; otherwise what fits is what is announced.
    let least = if request.max_model_len.is_some() { per_sequence } else { 1 };
    if num_blocks < least {
        return Err(GpuError::KvTooSmall { wanted: bytes, blocks: num_blocks, least });
    }
    let max_model_len = wanted_len.min(num_blocks as u32 * block_size);
    if max_model_len < wanted_len {
        tracing::warn!(
            "{bytes} bytes for KV blocks (engine.kv_cache_memory) hold {max_model_len} tokens: max_model_len is that, not \
             the model's own {wanted_len}"
        );
    }
    warn_beyond_free(request, place.device);
    let vocab_size = config.size("vocab_size")? as u32;
    let limits = EngineLimits {
        max_model_len,
        max_num_seqs,
        max_num_batched_tokens,
        max_num_prompt_logprobs: max_num_prompt_logprobs(vocab_size),
        block_size,
        num_blocks: num_blocks as u32,
        num_stored_blocks: 0,
        vocab_size,
        length_classes: length_classes(config)?,
    };
    let (dtype, body) = (place.dtype, place.body);
    let shape = KvShape { num_blocks: num_blocks as usize, block_size: block_size as usize, dtype, body };
    Ok((limits, shape))
}

/// Blocks fill up one by one: that the host has no memory for them shows only hours later.
fn warn_beyond_free(request: &LoadRequest, device: Device) {
    if let (Some(wanted), Device::Cpu, Some(Memory { available, .. })) =
        (request.kv_cache_bytes, device, host::memory())
        && wanted > available
    {
        tracing::warn!(
            "engine.kv_cache_memory of {wanted} bytes is more than the {available} bytes of memory that are free"
        );
    }
}

/// Tokens of prompts that a step scores.
fn max_num_prompt_logprobs(vocab_size: u32) -> u32 {
    (PROMPT_LOGITS_BYTES / 4 / vocab_size.max(1)).max(1)
}

/// Sequences and tokens of a step. A step always has room for a token of every sequence.
fn step_bounds(request: &LoadRequest, device: Device) -> (u32, u32) {
    let defaults = match device {
        Device::Cpu => StepDefaults::CPU,
        Device::Gpu => StepDefaults::GPU,
    };
    let seqs = request.max_num_seqs.unwrap_or(defaults.max_num_seqs);
    (seqs, request.max_num_batched_tokens.unwrap_or(defaults.max_num_batched_tokens).max(seqs))
}

/// Bytes that KV blocks may take on the device.
fn free_bytes(device: Device) -> Result<u64> {
    match device {
        Device::Cpu => {
            let available = host::memory().map_or(ASSUMED_FREE, |memory| memory.available);
            Ok((available as f64 * HOST_SHARE) as u64)
        }
        Device::Gpu => {
            let all = device.memory_bytes()?.map_or(ASSUMED_FREE, |bytes| (bytes as f64 * GPU_SHARE) as u64);
            Ok(all.saturating_sub(memory::active() as u64))
        }
    }
}
