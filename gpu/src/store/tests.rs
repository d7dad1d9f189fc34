//! What the store keeps, and what it refuses.

mod damage;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use troupe_protocol::{BlockName, StoreId, StoredBlock};

use super::file::FileStore;
use super::fingerprint::Fingerprint;
use super::format::HEADER_BYTES;
use super::{BlockStore, Medium, StoreError};
use crate::error::{GpuError, Result};

/// Crosses pages, and is no multiple of a head.
const BLOCK_BYTES: usize = 10_001;
const STRIDE: usize = 10_048;
const PLACES: u32 = 4;
/// Four places and a rest.
const BYTES: u64 = (HEADER_BYTES + 4 * STRIDE + 1_000) as u64;

fn print(model: u8) -> Fingerprint {
    Fingerprint::for_test(model, model)
}

/// Contents that differ with the name in every byte's neighbourhood.
fn block(name: u128) -> Vec<u8> {
    (0..BLOCK_BYTES).map(|at| (at as u128 * 31 + name * 7 + (at as u128 >> 8)) as u8).collect()
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn medium(&self) -> Medium {
        Medium::File { dir: self.0.path().join("cache"), fingerprint: print(1) }
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cache").join(format!("{}.blocks", &print(1).model()[..16]))
    }

    fn open(&self) -> (BlockStore, Vec<StoredBlock>) {
        BlockStore::open(self.medium(), BYTES, BLOCK_BYTES).unwrap()
    }

    fn file(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path()).unwrap()
    }

    /// A file with block 10 in place 0, 11 in 1 and 12 in 2.
    fn filled() -> Self {
        let folder = Self::new();
        let (mut store, _) = folder.open();
        (0..3).for_each(|at| put(&mut store, at, 10 + u128::from(at)));
        folder
    }

    fn change(&self, offset: u64, bit: u8) {
        let mut byte = [0];
        let file = self.file();
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ bit], offset).unwrap();
    }
}

fn put(store: &mut BlockStore, at: u32, name: u128) {
    store.write(StoreId(at), BlockName(name), &block(name)).unwrap();
}

fn get(store: &BlockStore, at: u32, name: u128) -> Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK_BYTES];
    store.read(StoreId(at), BlockName(name), &mut bytes).map(|()| bytes)
}

/// Places and names, in the order in which they are told.
fn pairs(stored: &[StoredBlock]) -> Vec<(u32, u128)> {
    stored.iter().map(|block| (block.at.0, block.name.0)).collect()
}

fn offset(place: u32) -> u64 {
    (HEADER_BYTES + place as usize * STRIDE) as u64
}

/// Log lines of `run`.
fn logged<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let result = tracing::subscriber::with_default(subscriber, run);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (result, text.lines().map(str::to_owned).collect())
}

#[test]
fn what_is_written_is_read_under_its_name_only() {
    let folder = Folder::new();
    for medium in [Medium::Memory, folder.medium()] {
        let (mut store, stored) = BlockStore::open(medium, BYTES, BLOCK_BYTES).unwrap();
        assert_eq!((store.num_blocks(), stored), (PLACES, Vec::new()));
        assert!(matches!(get(&store, 0, 0), Err(GpuError::Store(StoreError::NotThere { .. }))), "empty");
        (0..PLACES).for_each(|at| put(&mut store, at, 100 + u128::from(at)));
        put(&mut store, 1, 200);
        for (at, name) in [(0, 100), (1, 200), (2, 102), (3, 103)] {
            assert_eq!(get(&store, at, name).unwrap(), block(name));
        }
        let error = get(&store, 1, 101).unwrap_err().to_string();
        assert_eq!(error, "stored-1 does not hold block 00000000000000000000000000000065");
        let error = get(&store, PLACES, 103).unwrap_err().to_string();
        assert_eq!(error, "stored-4 is not in a store of 4 blocks");
        let short = store.write(StoreId(0), BlockName(1), &[0; 5]).unwrap_err().to_string();
        assert_eq!(short, "a block of 5 bytes does not fit a store of blocks of 10001 bytes");
        assert_eq!(get(&store, 0, 100).unwrap(), block(100), "a refused write changes nothing");
    }
}

#[test]
fn a_file_outlives_its_process_in_the_order_of_its_writes() {
    let folder = Folder::filled();
    let ((mut store, stored), lines) = logged(|| folder.open());
    assert_eq!((pairs(&stored), lines), (vec![(0, 10), (1, 11), (2, 12)], Vec::new()));
    put(&mut store, 0, 13);
    drop(store);
    let (mut store, stored) = folder.open();
    assert_eq!(pairs(&stored), [(1, 11), (2, 12), (0, 13)]);
    // The same contents elsewhere: the newer copy counts.
    put(&mut store, 3, 11);
    drop(store);
    let (store, stored) = folder.open();
    assert_eq!(pairs(&stored), [(2, 12), (0, 13), (3, 11)]);
    for StoredBlock { at, name } in stored {
        assert_eq!(get(&store, at.0, name.0).unwrap(), block(name.0));
    }
}

#[test]
fn memory_forgets() {
    let (mut store, _) = BlockStore::open(Medium::Memory, BYTES, BLOCK_BYTES).unwrap();
    put(&mut store, 0, 1);
    drop(store);
    let (store, stored) = BlockStore::open(Medium::Memory, BYTES, BLOCK_BYTES).unwrap();
    assert_eq!(stored, []);
    assert!(get(&store, 0, 1).is_err());
}

#[test]
fn only_the_owner_may_read_the_file() {
    let folder = Folder::filled();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder.path()), mode(folder.path().parent().unwrap())), (0o600, 0o700));
}

#[test]
fn blocks_of_another_computation_are_dropped() {
    let folder = Folder::filled();
    let other = Fingerprint::for_test(1, 2);
    let Medium::File { dir, .. } = folder.medium() else { panic!("a file") };
    let open = |fingerprint, block_bytes| {
        let medium = Medium::File { dir: dir.clone(), fingerprint };
        logged(|| BlockStore::open(medium, BYTES, block_bytes).unwrap().1)
    };
    let (stored, lines) = open(other.clone(), BLOCK_BYTES);
    assert_eq!((stored, lines.len()), (Vec::new(), 1));
    assert!(lines[0].contains("computed by another version, on another machine or with other options"));
    let (stored, lines) = open(other, BLOCK_BYTES - 1);
    assert_eq!((stored, lines.len()), (Vec::new(), 1));
    assert!(lines[0].contains("its blocks have 10001 bytes, not 10000"), "{lines:?}");
    // Another model has a file of its own.
    let (stored, lines) = open(print(7), BLOCK_BYTES);
    assert_eq!((stored, lines), (Vec::new(), Vec::new()));
    assert_eq!(dir.read_dir().unwrap().count(), 2);
}

#[test]
fn places_that_stay_keep_their_blocks_when_the_size_changes() {
    let folder = Folder::filled();
    let open = |places: u32| {
        let ((store, stored), lines) =
            logged(|| BlockStore::open(folder.medium(), offset(places), BLOCK_BYTES).unwrap());
        assert_eq!((store.num_blocks(), lines), (places, Vec::new()));
        assert_eq!(folder.path().metadata().unwrap().len(), offset(places));
        for StoredBlock { at, name } in &stored {
            assert_eq!(get(&store, at.0, name.0).unwrap(), block(name.0));
        }
        (store, pairs(&stored))
    };
    let (mut store, stored) = open(9);
    assert_eq!(stored, [(0, 10), (1, 11), (2, 12)]);
    put(&mut store, 8, 18);
    drop(store);
    assert_eq!(open(2).1, [(0, 10), (1, 11)]);
    assert_eq!(open(9).1, [(0, 10), (1, 11)], "what was cut off is gone");
}

#[test]
fn a_file_is_one_servers() {
    let folder = Folder::filled();
    let (store, _) = folder.open();
    let error = BlockStore::open(folder.medium(), BYTES, BLOCK_BYTES).unwrap_err().to_string();
    let name = folder.path().display().to_string();
    assert_eq!(
        error,
        format!("cache.dir: {name} is in use by another server; give each a folder of its own")
    );
    assert_eq!(get(&store, 1, 11).unwrap(), block(11), "the refused server changed nothing");
    drop(store);
    assert_eq!(folder.open().1.len(), 3);
}

#[test]
fn folders_that_cannot_be_used_are_refused_by_name() {
    let folder = Folder::new();
    let file = folder.0.path().join("file");
    File::create(&file).unwrap();
    for dir in [file.clone(), file.join("below"), PathBuf::from("/proc/self/cache")] {
        let medium = Medium::File { dir: dir.clone(), fingerprint: print(1) };
        let error = BlockStore::open(medium, BYTES, BLOCK_BYTES).unwrap_err().to_string();
        let begin = format!("cache.dir: cannot use {}: ", dir.display());
        assert!(error.starts_with(&begin), "{error}");
    }
    std::fs::create_dir_all(folder.path()).unwrap();
    let error = BlockStore::open(folder.medium(), BYTES, BLOCK_BYTES).unwrap_err().to_string();
    assert!(error.starts_with("cache.dir: cannot use ") && error.contains(".blocks: "), "{error}");
}

#[test]
fn sizes_that_cannot_be_are_refused_by_name() {
    let folder = Folder::new();
    for (medium, least) in [(Medium::Memory, BLOCK_BYTES as u64), (folder.medium(), offset(1))] {
        let open = |bytes| BlockStore::open(medium.clone(), bytes, BLOCK_BYTES);
        for bytes in [0, 1, least - 1] {
            let error = open(bytes).unwrap_err().to_string();
            assert_eq!(error, format!("cache.size of {bytes} bytes holds no block: one takes 10001 bytes"));
        }
        assert_eq!(open(least).unwrap().0.num_blocks(), 1);
        for bytes in [1 << 60, i64::MAX as u64, u64::MAX] {
            let error = open(bytes).unwrap_err().to_string();
            let begin = format!("cache.size of {bytes} bytes is more than the ");
            assert!(error.starts_with(&begin), "{error}");
        }
    }
    let error = BlockStore::open(folder.medium(), 1 << 60, BLOCK_BYTES).unwrap_err().to_string();
    assert!(error.contains("that are free for") && error.contains(".blocks"), "{error}");
    assert_eq!(folder.path().metadata().unwrap().len(), offset(1), "refused before anything was reserved");
}

#[test]
fn a_full_disk_has_room_for_the_file_that_is_there() {
    let folder = Folder::filled();
    let Medium::File { dir, fingerprint } = folder.medium() else { panic!("a file") };
    let open = |bytes| FileStore::open_on(&dir, &fingerprint, bytes, BLOCK_BYTES, |_| Ok(0));
    for (bytes, stored) in [(BYTES, 3), (offset(4), 3), (offset(2), 2)] {
        assert_eq!(open(bytes).unwrap().1.len(), stored, "{bytes}");
    }
    let wanted = offset(1_000);
    let error = open(wanted).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cache.size of {wanted} bytes is more than the ")), "{error}");
    assert_eq!(folder.open().1.len(), 2, "what is there stays");
    std::fs::remove_file(folder.path()).unwrap();
    let error = open(BYTES).unwrap_err().to_string();
    assert!(error.contains("is more than the 0 bytes that are free for "), "{error}");
}

#[test]
fn the_file_takes_its_space_at_once() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    let (_store, _) = FileStore::open(&folder.0.path().join("cache"), &print(1), 3 << 20, 1 << 20).unwrap();
    let metadata = folder.path().metadata().unwrap();
    assert!(metadata.blocks() * 512 >= metadata.len(), "{} blocks", metadata.blocks());
}
