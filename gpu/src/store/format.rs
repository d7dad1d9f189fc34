//! Bytes of a store's file: a header, then places of one length, each a head and a block. Numbers are little-endian.
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | `TRPBLOCK` |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | number of places |
//! | 16 | 8 | bytes of a block |
//! | 24 | 32 | fingerprint |
//! | 56 | 8 | checksum of all before |
//!
//! A head has the block's name (16 bytes), the number of its write (8), and a checksum (8) of the fingerprint, both and the
//! block. An empty place has a head of zeros. A place's length is a multiple of its head's, so that no head crosses a
//! sector.

use troupe_protocol::BlockName;
use twox_hash::XxHash3_64;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a head.
pub const HEAD_BYTES: usize = 32;
/// A head without a block.
pub const EMPTY: [u8; HEAD_BYTES] = [0; HEAD_BYTES];

const MAGIC: [u8; 8] = *b"TRPBLOCK";
const VERSION: u32 = 1;

/// What the file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Places in all.
    pub num_places: u32,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Of what the blocks' bytes depend on.
    pub fingerprint: [u8; 32],
}

impl Header {
    /// Bytes from one place to the next.
    pub fn stride(&self) -> u64 {
        (HEAD_BYTES as u64 + self.block_bytes).next_multiple_of(HEAD_BYTES as u64)
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.num_places) * self.stride()
    }

    /// Where a place begins.
    pub fn offset(&self, place: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(place) * self.stride()
    }

    /// The head of a block. The block's hash is seeded with that of what stands before it: one pass, and no copy. Under
    /// another fingerprint no head is a block's, so what a lost truncation leaves behind is never taken for contents.
    pub fn head(&self, name: BlockName, sequence: u64, block: &[u8]) -> Head {
        let mut before = [0; 56];
        before[..32].copy_from_slice(&self.fingerprint);
        before[32..48].copy_from_slice(&name.0.to_le_bytes());
        before[48..].copy_from_slice(&sequence.to_le_bytes());
        let checksum = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&before), block);
        Head { name, sequence, checksum }
    }

    /// As it stands in the file.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.num_places.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.block_bytes.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.fingerprint);
        let checksum = XxHash3_64::oneshot(&bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// What stands in the file.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        if bytes[..8] != MAGIC {
            return Err("it is not a file of blocks".to_owned());
        }
        // Before the checksum, whose place another version may have moved.
        let version = u32::from_le_bytes(part(bytes, 8));
        if version != VERSION {
            return Err(format!("its format is version {version}, not {VERSION}"));
        }
        if u64::from_le_bytes(part(bytes, 56)) != XxHash3_64::oneshot(&bytes[..56]) {
            return Err("its header does not match its checksum".to_owned());
        }
        Ok(Self {
            num_places: u32::from_le_bytes(part(bytes, 12)),
            block_bytes: u64::from_le_bytes(part(bytes, 16)),
            fingerprint: part(bytes, 24),
        })
    }
}

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The block's name.
    pub name: BlockName,
    /// Counts writes of the file, from one.
    pub sequence: u64,
    /// See [`Header::head`].
    pub checksum: u64,
}

impl Head {
    /// As it stands in the file.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..16].copy_from_slice(&self.name.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// What stands in the file; `None` for an empty place.
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        (*bytes != EMPTY).then(|| Self {
            name: BlockName(u128::from_le_bytes(part(bytes, 0))),
            sequence: u64::from_le_bytes(part(bytes, 16)),
            checksum: u64::from_le_bytes(part(bytes, 24)),
        })
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}
