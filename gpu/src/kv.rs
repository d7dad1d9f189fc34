//! KV memory: the blocks' bytes. Which block belongs to whom is the scheduler's affair.

use mlx_sys::{Array, Dtype, KvLayout, KvSlabs, PagesAhead, eval};
use troupe_protocol::KvCacheDtype;

use crate::error::{GpuError, Result};

/// What a layer keeps of the past. A family declares one for each of its layers. Windowed, latent and
/// recurrent kinds join here with the families that need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Keys and values of every token.
    FullAttention {
        /// KV heads.
        num_heads: usize,
        /// Dimensions of a head.
        head_dim: usize,
    },
}

impl CacheKind {
    /// Bytes that one token takes in one layer.
    pub fn bytes_per_token(self, dtype: Dtype) -> u64 {
        // A head's bytes of one token share a scale.
        let scale = if dtype == Dtype::I8 { Dtype::F32.size() } else { 0 };
        match self {
            Self::FullAttention { num_heads, head_dim } => {
                (2 * num_heads * (head_dim * dtype.size() + scale)) as u64
            }
        }
    }
}

/// How attention reads and writes a layer's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvBody {
    /// By our primitive, in place; slabs are as it wants them, of any type.
    Paged,
    /// By stock operations; slabs are [num_blocks × block_size, KV heads, head_dim], of the type that is computed in.
    Stock,
}

impl KvBody {
    /// The type in which keys and values are kept, if `auto` means `default`.
    ///
    /// # Errors
    /// A type that the body does not keep.
    pub fn dtype(self, choice: KvCacheDtype, default: Dtype) -> Result<Dtype> {
        let wanted = match choice {
            KvCacheDtype::Auto => default,
            KvCacheDtype::F32 => Dtype::F32,
            KvCacheDtype::F16 => Dtype::F16,
            KvCacheDtype::Bf16 => Dtype::Bf16,
            KvCacheDtype::Int8 => Dtype::I8,
        };
        match self {
            Self::Stock if wanted != default => Err(GpuError::KvDtype { wanted: choice, kept: default }),
            Self::Paged | Self::Stock => Ok(wanted),
        }
    }
}

/// The blocks of one layer.
#[derive(Debug)]
pub struct KvLayer {
    /// Keys and values; the shape is the body's.
    pub slabs: KvSlabs,
    /// What they are of.
    pub kind: CacheKind,
    /// Tokens of a block.
    pub block_size: usize,
    /// Who reads and writes.
    pub body: KvBody,
}

/// The blocks of all layers.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<KvLayer>,
    kinds: Vec<CacheKind>,
    shape: KvShape,
    /// Of our own body alone: the other writes to all of its memory when it is made.
    ahead: Option<PagesAhead>,
}

/// How many blocks there are, of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Blocks in all.
    pub num_blocks: usize,
    /// Tokens of a block.
    pub block_size: usize,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Who reads and writes them.
    pub body: KvBody,
}

impl KvCache {
    /// Allocates all blocks.
    ///
    /// # Errors
    /// If MLX cannot allocate them.
    pub fn new(kinds: Vec<CacheKind>, shape: KvShape) -> Result<Self> {
        let mut cache = Self { layers: Vec::with_capacity(kinds.len()), kinds, shape, ahead: None };
        cache.reset()?;
        Ok(cache)
    }

    /// Allocates all blocks anew; what they held is lost.
    ///
    /// # Errors
    /// If MLX cannot allocate them.
    pub fn reset(&mut self) -> Result<()> {
        // It holds on to the slabs.
        self.ahead = None;
        self.layers.clear();
        for kind in &self.kinds {
            let KvShape { block_size, body, .. } = self.shape;
            let slabs = allocate(*kind, self.shape)?;
            self.layers.push(KvLayer { slabs, kind: *kind, block_size, body });
        }
        if self.shape.body == KvBody::Paged {
            let slabs: Vec<&Array> = self.layers.iter().flat_map(|layer| layer.slabs.arrays()).collect();
            let ahead = PagesAhead::new(&slabs)?;
            // The first page is part of the load: whoever asks first does not wait for it, and nothing is left to do then.
            let _ = ahead.settle();
            self.ahead = Some(ahead);
        }
        Ok(())
    }

    /// Says that the first `blocks` blocks are in use, so that memory for the next can be made ready.
    pub fn used(&self, blocks: usize) {
        if let Some(ahead) = &self.ahead {
            ahead.used(blocks);
        }
    }

    /// The blocks of a layer.
    ///
    /// # Errors
    /// A layer that the family did not declare.
    pub fn layer(&mut self, index: usize) -> Result<&mut KvLayer> {
        let count = self.layers.len();
        self.layers
            .get_mut(index)
            .ok_or_else(|| GpuError::Step(format!("layer {index} of {count} has no KV blocks")))
    }

    /// All layers, first to last.
    pub fn layers(&self) -> &[KvLayer] {
        &self.layers
    }

    /// All layers, first to last.
    pub fn layers_mut(&mut self) -> &mut [KvLayer] {
        &mut self.layers
    }

    /// Blocks in all.
    pub fn num_blocks(&self) -> usize {
        self.shape.num_blocks
    }

    /// Arrays that a step may have replaced, to be evaluated with it.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        let stock = self.layers.iter().filter(|layer| layer.body == KvBody::Stock);
        stock.flat_map(|layer| [&layer.slabs.keys, &layer.slabs.values])
    }

    /// Bytes of all blocks.
    pub fn nbytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.slabs.nbytes() as u64).sum()
    }
}

fn allocate(kind: CacheKind, shape: KvShape) -> Result<KvSlabs> {
    let CacheKind::FullAttention { num_heads, head_dim } = kind;
    let (kv_heads, dim) = (num_heads as i32, head_dim as i32);
    let (num_blocks, block_size) = (shape.num_blocks as i32, shape.block_size as i32);
    match shape.body {
        // Our primitive reads only what it wrote, so pages far beyond what was used stay virtual.
        KvBody::Paged => Ok(KvSlabs::new(KvLayout { num_blocks, block_size, kv_heads, dim }, shape.dtype)?),
        // Padding reads anywhere, and a masked NaN is still a NaN.
        KvBody::Stock => {
            let zeros = || Array::zeros(&[num_blocks * block_size, kv_heads, dim], shape.dtype)?.copy();
            let (keys, values) = (zeros()?, zeros()?);
            eval(&[&keys, &values])?;
            Ok(KvSlabs { keys, values, scales: None })
        }
    }
}
