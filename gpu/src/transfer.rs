//! Blocks between KV memory and the block store, as part of a step.

use troupe_protocol::{BlockId, BlockName, BlockTransfer};

use crate::error::{GpuError, Result};
use crate::kv::KvCache;
use crate::kv_copy::BlockCopies;
use crate::store::BlockStore;

/// Blocks of a step in flight that go to the store.
#[derive(Debug)]
pub struct Saves {
    transfers: Vec<BlockTransfer>,
    copies: BlockCopies,
}

impl Saves {
    /// Starts to copy what a step saves, before anything else of the step; nothing if it saves nothing.
    ///
    /// # Errors
    /// A block that is not there, or MLX's error.
    pub fn start(kv: &KvCache, transfers: &[BlockTransfer]) -> Result<Option<Self>> {
        if transfers.is_empty() {
            return Ok(None);
        }
        let copies = kv.read_blocks(&blocks(transfers))?;
        Ok(Some(Self { transfers: transfers.to_vec(), copies }))
    }

    /// Whether [`Self::finish`] would not wait.
    pub fn are_available(&self) -> bool {
        self.copies.are_available()
    }

    /// Waits for the copies and puts them into the store. Answers the names of those that it did not take: a full disk
    /// costs a cached block, not a step.
    ///
    /// # Errors
    /// Why the blocks could not be copied.
    pub fn finish(self, store: Option<&mut BlockStore>) -> Result<Vec<BlockName>> {
        let Some(store) = store else { return Ok(self.transfers.iter().map(|save| save.name).collect()) };
        let mut unsaved = Vec::new();
        for (save, block) in self.transfers.iter().zip(self.copies.blocks(self.transfers.len())?) {
            if let Err(error) = store.write(save.stored, save.name, &block) {
                tracing::warn!("a block of the prefix cache was not saved: {error}");
                unsaved.push(save.name);
            }
        }
        Ok(unsaved)
    }
}

/// Copies what a step loads from the store to KV memory, before its forward.
///
/// # Errors
/// A block that the store does not give, or MLX's error.
pub fn load(kv: &mut KvCache, store: Option<&BlockStore>, transfers: &[BlockTransfer]) -> Result<()> {
    if transfers.is_empty() {
        return Ok(());
    }
    let store = store.ok_or_else(|| GpuError::Step("blocks to load, and no store".to_owned()))?;
    let mut contents = Vec::with_capacity(transfers.len());
    for load in transfers {
        let mut block = vec![0; kv.block_bytes()];
        store.read(load.stored, load.name, &mut block)?;
        contents.push(block);
    }
    kv.write_blocks(&blocks(transfers), &contents)
}

fn blocks(transfers: &[BlockTransfer]) -> Vec<BlockId> {
    transfers.iter().map(|transfer| transfer.block).collect()
}
