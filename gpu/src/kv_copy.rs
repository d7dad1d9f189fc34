//! Blocks as bytes: what goes to the block store and comes back from it.

use mlx_sys::{Array, async_eval};
use troupe_protocol::BlockId;

use crate::batch::vector;
use crate::error::{GpuError, Result};
use crate::kv::{KvBody, KvCache, KvLayer};

/// Copies of some blocks, being made.
#[derive(Debug)]
pub struct BlockCopies {
    /// Layer after layer, of each the arrays of its slabs: `[blocks, ...]`.
    arrays: Vec<Array>,
}

impl KvCache {
    /// Bytes of one block in all layers.
    pub fn block_bytes(&self) -> usize {
        self.nbytes() as usize / self.num_blocks().max(1)
    }

    /// Starts to copy blocks as they are after the steps submitted so far and before the next.
    ///
    /// # Errors
    /// A block that is not there, or MLX's error.
    pub fn read_blocks(&self, blocks: &[BlockId]) -> Result<BlockCopies> {
        let ids = indices(blocks);
        let mut arrays = Vec::new();
        for layer in self.layers() {
            arrays.extend(layer.read_blocks(&ids)?);
        }
        async_eval(&arrays.iter().collect::<Vec<_>>())?;
        Ok(BlockCopies { arrays })
    }

    /// Overwrites blocks with `contents`, one after the other as [`BlockCopies::block`] gives them, after the steps
    /// submitted so far and before the next.
    ///
    /// # Errors
    /// A block that is not there, contents of another size, or MLX's error.
    pub fn write_blocks(&mut self, blocks: &[BlockId], contents: &[Vec<u8>]) -> Result<()> {
        let (ids, size) = (indices(blocks), self.block_bytes());
        if contents.len() != ids.len() || contents.iter().any(|block| block.len() != size) {
            return Err(GpuError::Step(format!("{} blocks of {size} bytes are wanted", ids.len())));
        }
        let mut at = 0;
        let mut written = Vec::new();
        for layer in self.layers_mut() {
            let mut arrays = Vec::new();
            for slab in layer.block_slabs()? {
                let (shape, bytes) = (slab.shape()[1..].to_vec(), slab.nbytes() / slab.dim(0) as usize);
                let parts: Vec<u8> =
                    contents.iter().flat_map(|block| &block[at..at + bytes]).copied().collect();
                let shape = [vec![ids.len() as i32], shape].concat();
                arrays.push(Array::from_bytes(&parts, &shape, slab.dtype())?);
                at += bytes;
            }
            written.extend(layer.write_blocks(&ids, &arrays)?);
        }
        Ok(async_eval(&written.iter().collect::<Vec<_>>())?)
    }
}

impl BlockCopies {
    /// Whether all are made.
    pub fn are_available(&self) -> bool {
        self.arrays.iter().all(Array::is_available)
    }

    /// The blocks' bytes, one after the other. Waits for them.
    ///
    /// # Errors
    /// Why they could not be copied.
    pub fn blocks(&self, count: usize) -> Result<Vec<Vec<u8>>> {
        let mut blocks = vec![Vec::new(); count];
        for array in &self.arrays {
            let bytes = array.to_bytes()?;
            for (block, part) in blocks.iter_mut().zip(bytes.chunks_exact(bytes.len() / count)) {
                block.extend_from_slice(part);
            }
        }
        Ok(blocks)
    }
}

impl KvLayer {
    /// The slabs with blocks as their first axis.
    fn block_slabs(&self) -> Result<Vec<Array>> {
        match self.body {
            KvBody::Paged => Ok(self.slabs.arrays().cloned().collect()),
            KvBody::Stock => {
                self.slabs.arrays().map(|slab| Ok(slab.reshape(&self.by_block(slab))?)).collect()
            }
        }
    }

    /// The shape of a slab of tokens as blocks.
    fn by_block(&self, slab: &Array) -> Vec<i32> {
        [&[-1, self.block_size as i32], &slab.shape()[1..]].concat()
    }

    fn read_blocks(&self, ids: &[i32]) -> Result<Vec<Array>> {
        match self.body {
            KvBody::Paged => Ok(self.slabs.read_blocks(ids)?),
            KvBody::Stock => {
                let ids = vector(ids)?;
                self.block_slabs()?.iter().map(|slab| Ok(slab.take(&ids, 0)?)).collect()
            }
        }
    }

    /// Answers what has to be evaluated.
    fn write_blocks(&mut self, ids: &[i32], contents: &[Array]) -> Result<Vec<Array>> {
        match self.body {
            KvBody::Paged => Ok(self.slabs.write_blocks(ids, contents)?),
            KvBody::Stock => {
                let ids = vector(ids)?;
                let mut updated = Vec::new();
                for (slab, new) in self.block_slabs()?.iter().zip(contents) {
                    updated.push(slab.set_rows(&ids, new)?.flatten(0, 1)?);
                }
                if let [keys, values] = &updated[..] {
                    (self.slabs.keys, self.slabs.values) = (keys.clone(), values.clone());
                }
                Ok(updated)
            }
        }
    }
}

fn indices(blocks: &[BlockId]) -> Vec<i32> {
    blocks.iter().map(|block| block.0 as i32).collect()
}
