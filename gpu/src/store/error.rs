//! Why the block store cannot be opened, or does not give a block back.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use troupe_protocol::{BlockName, StoreId};

/// Errors of the block store. Those of opening name the option that they are about.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Not even one block fits.
    #[error("cache.size of {wanted} bytes holds no block: one takes {block_bytes} bytes")]
    TooSmall {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes of a block.
        block_bytes: usize,
    },
    /// More than the machine's memory.
    #[error(
        "cache.size of {wanted} bytes is more than the {available} bytes of memory that the machine has; set cache.dir \
         to keep blocks in a file"
    )]
    Memory {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes there are.
        available: u64,
    },
    /// More than the disk's free space.
    #[error("cache.size of {wanted} bytes is more than the {available} bytes that are free for {}", path.display())]
    Disk {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that the file could take.
        available: u64,
        /// The file.
        path: PathBuf,
    },
    /// A folder or file that cannot be made, opened or written.
    #[error("cache.dir: cannot use {}: {source}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process has the file.
    #[error("cache.dir: {} is in use by another server; give each a folder of its own", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A place beyond the last one.
    #[error("{at} is not in a store of {num_blocks} blocks")]
    NoPlace {
        /// The place.
        at: StoreId,
        /// Places there are.
        num_blocks: u32,
    },
    /// A block of another length than the store's.
    #[error("a block of {found} bytes does not fit a store of blocks of {wanted} bytes")]
    BlockLength {
        /// Bytes given.
        found: usize,
        /// Bytes of a block.
        wanted: usize,
    },
    /// A place that does not hold what is asked for.
    #[error("{at} does not hold block {:032x}", name.0)]
    NotThere {
        /// The place.
        at: StoreId,
        /// What was asked for.
        name: BlockName,
    },
    /// A block that is not what was written.
    #[error("{} has changed: {at} does not match its checksum", path.display())]
    Changed {
        /// The place.
        at: StoreId,
        /// The file.
        path: PathBuf,
    },
    /// A disk that does not read or write.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Memory for a block that the system does not give.
    #[error("no memory for a stored block of {bytes} bytes")]
    OutOfMemory {
        /// Bytes of the block.
        bytes: usize,
    },
}

impl StoreError {
    /// The option that is to be changed, for the errors of opening.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            Self::TooSmall { .. } | Self::Memory { .. } | Self::Disk { .. } => Some("cache.size"),
            Self::Unusable { .. } | Self::Locked { .. } => Some("cache.dir"),
            Self::NoPlace { .. }
            | Self::BlockLength { .. }
            | Self::NotThere { .. }
            | Self::Changed { .. }
            | Self::Io { .. }
            | Self::OutOfMemory { .. } => None,
        }
    }
}
