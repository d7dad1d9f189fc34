//! The block store: the second tier of the prefix cache, in host memory or in a file that outlives the process.
//!
//! A block is a row of bytes under a name; which blocks are saved where, and when they come back, is the scheduler's
//! affair, and how KV memory becomes bytes the engine's. The store answers with exactly the bytes that were written
//! under the name that is asked for, or with an error.
//!
//! Keys and values tell what they were computed from: the store is as private as the prompts. Its file is made readable
//! by its owner alone, and is not encrypted.

mod error;
mod file;
mod fingerprint;
mod format;
mod memory;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use troupe_protocol::{BlockName, StoreId, StoreRequest, StoredBlock};

pub use error::StoreError;
pub use fingerprint::{Basis, Fingerprint};

use crate::error::Result;
use crate::host::{self, Memory};
use file::FileStore;
use memory::MemoryStore;

/// Where blocks are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In host memory, forgotten when the process ends.
    Memory,
    /// In a file of this folder.
    File {
        /// The folder.
        dir: PathBuf,
        /// What the bytes of its blocks depend on.
        fingerprint: Fingerprint,
    },
}

impl Medium {
    /// What a request means for a model whose files are still open. A fingerprint is computed only for a file.
    ///
    /// # Errors
    /// What a fingerprint is made of and cannot be read.
    pub fn choose(request: &StoreRequest, basis: &Basis<'_>) -> Result<Self> {
        match &request.dir {
            None => Ok(Self::Memory),
            Some(dir) => Ok(Self::File { dir: dir.into(), fingerprint: Fingerprint::of(basis)? }),
        }
    }
}

/// Blocks of one length, each in a numbered place under a name.
#[derive(Debug)]
pub struct BlockStore {
    places: Places,
    num_blocks: u32,
    block_bytes: usize,
}

#[derive(Debug)]
enum Places {
    Memory(MemoryStore),
    File(FileStore),
}

impl BlockStore {
    /// A store of at most `bytes` for blocks of `block_bytes`, and what it holds from an earlier run, least recently
    /// written first. Needs nothing of a loaded model, so that what it refuses is refused before minutes of loading.
    ///
    /// # Errors
    /// Bytes that hold no block, or more than the machine or the disk has; a folder or file that cannot be used.
    pub fn open(medium: Medium, bytes: u64, block_bytes: usize) -> Result<(Self, Vec<StoredBlock>)> {
        match medium {
            Medium::Memory => {
                let num_blocks = num_places(bytes, block_bytes, block_bytes as u64)?;
                refuse_beyond_memory(bytes)?;
                let places = Places::Memory(MemoryStore::new(num_blocks));
                Ok((Self { places, num_blocks, block_bytes }, Vec::new()))
            }
            Medium::File { dir, fingerprint } => {
                let (file, stored) = FileStore::open(&dir, &fingerprint, bytes, block_bytes)?;
                let num_blocks = file.num_blocks();
                Ok((Self { places: Places::File(file), num_blocks, block_bytes }, stored))
            }
        }
    }

    /// Places in all.
    pub fn num_blocks(&self) -> u32 {
        self.num_blocks
    }

    /// Puts a block into a place. Whatever the place held before is forgotten, also by a write that fails.
    ///
    /// # Errors
    /// A place that is not there, a block of another length, or the disk's error.
    pub fn write(&mut self, at: StoreId, name: BlockName, block: &[u8]) -> Result<()> {
        self.check(at, block.len())?;
        match &mut self.places {
            Places::Memory(memory) => memory.write(at, name, block)?,
            Places::File(file) => file.write(at, name, block)?,
        }
        Ok(())
    }

    /// Copies a block out of its place.
    ///
    /// # Errors
    /// A place that is not there, is empty or holds another name; a `block` of another length; contents that changed
    /// since they were written; or the disk's error. What `block` holds then is not to be used.
    pub fn read(&self, at: StoreId, name: BlockName, block: &mut [u8]) -> Result<()> {
        self.check(at, block.len())?;
        match &self.places {
            Places::Memory(memory) => memory.read(at, name, block)?,
            Places::File(file) => file.read(at, name, block)?,
        }
        Ok(())
    }

    fn check(&self, at: StoreId, len: usize) -> Result<(), StoreError> {
        if at.0 >= self.num_blocks {
            return Err(StoreError::NoPlace { at, num_blocks: self.num_blocks });
        }
        if len != self.block_bytes {
            return Err(StoreError::BlockLength { found: len, wanted: self.block_bytes });
        }
        Ok(())
    }
}

/// How many places of `stride` bytes fit.
fn num_places(bytes: u64, block_bytes: usize, stride: u64) -> Result<u32, StoreError> {
    match bytes / stride.max(1) {
        0 => Err(StoreError::TooSmall { wanted: bytes, block_bytes }),
        // Places are numbered by u32; the rest of so large a store stays unused.
        places => Ok(u32::try_from(places).unwrap_or(u32::MAX)),
    }
}

/// Places fill up one by one: what does not fit would be missed only hours later.
fn refuse_beyond_memory(wanted: u64) -> Result<(), StoreError> {
    match host::memory() {
        Some(Memory { total, .. }) if wanted > total => Err(StoreError::Memory { wanted, available: total }),
        Some(Memory { available, .. }) if wanted > available => {
            tracing::warn!(
                "cache.size of {wanted} bytes is more than the {available} bytes of memory that are free"
            );
            Ok(())
        }
        Some(_) | None => Ok(()),
    }
}
