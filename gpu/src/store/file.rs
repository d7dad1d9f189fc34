//! Blocks in one file of a folder, which outlives the process.
//!
//! A write empties the place's head, writes the block, then the head: a process that dies in between leaves an empty
//! place, and so a head always stands for a whole block. A block that does not match its head was therefore changed by
//! something else (the medium, another program, or a loss of power, after which pages may be on the disk in any order):
//! then nothing in the file is trusted, and it is made anew with one line in the log. Nothing is ever flushed by force.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::{Errno, retry_on_intr};
use troupe_protocol::{BlockName, StoreId, StoredBlock};

use super::error::StoreError;
use super::fingerprint::Fingerprint;
use super::format::{EMPTY, HEAD_BYTES, HEADER_BYTES, Head, Header};
use super::num_places;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Digits of a fingerprint in a file's name.
const NAME_DIGITS: usize = 16;
/// Unit of the system's count of a file's blocks.
const DISK_BLOCK_BYTES: u64 = 512;

/// What a file system says that cannot reserve space.
const NOTHING_RESERVED: [Errno; 4] = [Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS, Errno::INVAL];

/// An open and locked file.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    path: PathBuf,
    header: Header,
    /// Of the latest write.
    sequence: u64,
}

impl FileStore {
    /// Opens or makes the model's file in `dir`, and reads all that it holds to check it: at the disk's speed, some
    /// seconds for a few GiB on a solid-state disk, half a minute on a spinning one. Empty places are not read.
    ///
    /// The file's whole size is reserved now, so that the disk cannot fill up under it. With another size, blocks in
    /// places that are still there stay.
    ///
    /// # Errors
    /// A folder or file that cannot be used or is used by another process, or a disk that is too small.
    pub fn open(
        dir: &Path,
        fingerprint: &Fingerprint,
        bytes: u64,
        block_bytes: usize,
    ) -> Result<(Self, Vec<StoredBlock>)> {
        Self::open_on(dir, fingerprint, bytes, block_bytes, free)
    }

    /// [`Self::open`] on a disk with so many bytes that are `free`.
    pub(super) fn open_on(
        dir: &Path,
        fingerprint: &Fingerprint,
        bytes: u64,
        block_bytes: usize,
        free: impl FnOnce(&File) -> io::Result<u64>,
    ) -> Result<(Self, Vec<StoredBlock>)> {
        let path = dir.join(format!("{:.*}.blocks", NAME_DIGITS, fingerprint.model()));
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unusable(dir))?;
        let file = locked(&path)?;
        let mut header =
            Header { num_places: 0, block_bytes: block_bytes as u64, fingerprint: *fingerprint.whole() };
        let room = bytes.saturating_sub(HEADER_BYTES as u64);
        header.num_places = num_places(room, block_bytes, header.stride())
            .map_err(|_| StoreError::TooSmall { wanted: bytes, block_bytes })?;
        // The file ends with its last whole place, and a full disk has room for what it gave already.
        let available = free(&file).and_then(|free| Ok(free.saturating_add(taken(&file)?)));
        let available = available.map_err(unusable(&path))?;
        if header.file_bytes() > available {
            return Err(StoreError::Disk { wanted: bytes, available, path });
        }

        let mut store = Self { file, path, header, sequence: 0 };
        let found = match store.load() {
            Ok(found) => found,
            Err(problem) => {
                tracing::warn!(
                    "{} is made anew, and its blocks are forgotten: {problem}",
                    store.path.display()
                );
                // Nothing of what was there shows through.
                store.file.set_len(0).map_err(unusable(&store.path))?;
                Vec::new()
            }
        };
        store.resize(bytes)?;
        store.file.write_all_at(&header.to_bytes(), 0).map_err(unusable(&store.path))?;
        store.sequence = found.last().map_or(0, |(sequence, _)| *sequence);
        Ok((store, found.into_iter().map(|(_, block)| block).collect()))
    }

    /// Places in all.
    pub fn num_blocks(&self) -> u32 {
        self.header.num_places
    }

    /// Puts a block of the store's length into a place, which exists.
    ///
    /// # Errors
    /// The disk's; the place is empty then.
    pub fn write(&mut self, at: StoreId, name: BlockName, block: &[u8]) -> Result<()> {
        self.sequence += 1;
        let head = self.header.head(name, self.sequence, block);
        let offset = self.header.offset(at.0);
        self.file
            .write_all_at(&EMPTY, offset)
            .and_then(|()| self.file.write_all_at(block, offset + HEAD_BYTES as u64))
            .and_then(|()| self.file.write_all_at(&head.to_bytes(), offset))
            .map_err(|source| self.io(source))
    }

    /// Copies a block of the store's length out of a place, which exists.
    ///
    /// # Errors
    /// A place that holds another block or none, contents that changed since they were written, or the disk's error.
    pub fn read(&self, at: StoreId, name: BlockName, block: &mut [u8]) -> Result<()> {
        let head = self.head(at.0).map_err(|source| self.io(source))?;
        let head = head.filter(|head| head.name == name).ok_or(StoreError::NotThere { at, name })?;
        self.block(at.0, block).map_err(|source| self.io(source))?;
        if self.is_whole(head, block) {
            Ok(())
        } else {
            Err(StoreError::Changed { at, path: self.path.clone() })
        }
    }

    /// What the file holds in places that stay, by the numbers of their writes.
    ///
    /// # Errors
    /// Why none of it is to be used, in words.
    fn load(&self) -> Result<Vec<(u64, StoredBlock)>, String> {
        let Some(old) = self.old_header()? else { return Ok(Vec::new()) };
        let mut newest: HashMap<BlockName, (u64, StoreId)> = HashMap::new();
        let mut block = vec![0; self.header.block_bytes as usize];
        for place in 0..old.num_places.min(self.header.num_places) {
            let Some(head) = self.head(place).map_err(|error| error.to_string())? else { continue };
            self.block(place, &mut block).map_err(|error| error.to_string())?;
            if !self.is_whole(head, &block) {
                return Err(format!("its block {place} does not match its checksum"));
            }
            let found = (head.sequence, StoreId(place));
            let kept = newest.entry(head.name).or_insert(found);
            *kept = found.max(*kept);
        }
        let blocks = newest.into_iter().map(|(name, (sequence, at))| (sequence, StoredBlock { at, name }));
        let mut blocks: Vec<_> = blocks.collect();
        blocks.sort_by_key(|(sequence, _)| *sequence);
        Ok(blocks)
    }

    /// The header in the file, if it is for the same blocks; `None` if the file has just been made.
    fn old_header(&self) -> Result<Option<Header>, String> {
        let words = |error: io::Error| error.to_string();
        let len = self.file.metadata().map_err(words)?.len();
        if len == 0 {
            return Ok(None);
        }
        let mut bytes = [0; HEADER_BYTES];
        if len < HEADER_BYTES as u64 {
            return Err("it ends within its header".to_owned());
        }
        self.file.read_exact_at(&mut bytes, 0).map_err(words)?;
        let old = Header::from_bytes(&bytes)?;
        if old.block_bytes != self.header.block_bytes {
            let (found, wanted) = (old.block_bytes, self.header.block_bytes);
            return Err(format!("its blocks have {found} bytes, not {wanted}"));
        }
        if old.fingerprint != self.header.fingerprint {
            return Err(
                "they were computed by another version, on another machine or with other options".to_owned()
            );
        }
        if len != old.file_bytes() {
            let (wanted, places) = (old.file_bytes(), old.num_places);
            return Err(format!("it has {len} bytes, but {wanted} belong to its {places} blocks"));
        }
        Ok(Some(old))
    }

    /// Gives the file its length, and the disk's space for it.
    fn resize(&self, bytes: u64) -> Result<()> {
        let len = self.header.file_bytes();
        self.file.set_len(len).map_err(unusable(&self.path))?;
        let taken = taken(&self.file).map_err(unusable(&self.path))?;
        if taken >= len {
            // Some file systems want room for the whole file again, although it has all of its space.
            return Ok(());
        }
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            Err(Errno::NOSPC | Errno::DQUOT) => {
                let available = free(&self.file).map_err(unusable(&self.path))?.saturating_add(taken);
                Err(StoreError::Disk { wanted: bytes, available, path: self.path.clone() })
            }
            // Where the file system reserves nothing, a full disk is found by the write.
            Err(error) if !NOTHING_RESERVED.contains(&error) => Err(unusable(&self.path)(error.into())),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn head(&self, place: u32) -> io::Result<Option<Head>> {
        let mut bytes = EMPTY;
        self.file.read_exact_at(&mut bytes, self.header.offset(place))?;
        Ok(Head::from_bytes(&bytes))
    }

    fn block(&self, place: u32, block: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(block, self.header.offset(place) + HEAD_BYTES as u64)
    }

    /// Whether the head was written for this block.
    fn is_whole(&self, head: Head, block: &[u8]) -> bool {
        head == self.header.head(head.name, head.sequence, block)
    }

    fn io(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.path.clone(), source }
    }
}

/// Opens or makes a file that no other process has.
fn locked(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(unusable(path))?;
    if !file.metadata().map_err(unusable(path))?.is_file() {
        return Err(unusable(path)(io::Error::other("not a regular file")));
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(unusable(path)(source)),
    }
}

/// Bytes of the file's disk that nothing has taken.
fn free(file: &File) -> io::Result<u64> {
    let disk = fstatvfs(file)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Bytes of its disk that the file has taken, whatever its length.
fn taken(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.blocks() * DISK_BLOCK_BYTES)
}

fn unusable(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Unusable { path: path.to_owned(), source }
}
