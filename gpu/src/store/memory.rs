//! Blocks in host memory.

use troupe_protocol::{BlockName, StoreId};

use super::error::StoreError;

/// Places that take memory once they are filled, and keep it for the next block.
#[derive(Debug)]
pub struct MemoryStore {
    places: Vec<Option<(BlockName, Box<[u8]>)>>,
}

impl MemoryStore {
    /// Empty places.
    pub fn new(num_blocks: u32) -> Self {
        Self { places: vec![None; num_blocks as usize] }
    }

    /// Puts a block into a place, which exists.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub fn write(&mut self, at: StoreId, name: BlockName, block: &[u8]) -> Result<(), StoreError> {
        let place = &mut self.places[at.0 as usize];
        match place {
            Some((owner, bytes)) => {
                *owner = name;
                bytes.copy_from_slice(block);
            }
            None => {
                let mut bytes = Vec::new();
                let refused = |_| StoreError::OutOfMemory { bytes: block.len() };
                bytes.try_reserve_exact(block.len()).map_err(refused)?;
                bytes.extend_from_slice(block);
                *place = Some((name, bytes.into_boxed_slice()));
            }
        }
        Ok(())
    }

    /// Copies a block out of a place, which exists.
    ///
    /// # Errors
    /// If the place holds another one or none.
    pub fn read(&self, at: StoreId, name: BlockName, block: &mut [u8]) -> Result<(), StoreError> {
        match &self.places[at.0 as usize] {
            Some((owner, bytes)) if *owner == name => {
                block.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(StoreError::NotThere { at, name }),
        }
    }
}
