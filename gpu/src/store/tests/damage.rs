//! Writes that were cut off, and files that something else has changed.

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use troupe_protocol::{BlockName, StoreId};

use super::*;
use crate::store::format::{EMPTY, HEAD_BYTES, Header};

/// Of the file that [`Folder`] makes.
fn header() -> Header {
    Header { num_places: PLACES, block_bytes: BLOCK_BYTES as u64, fingerprint: *print(1).whole() }
}

/// Opens a file that has to be dropped, and checks that one line says so with `reason`, and that the new one serves.
#[track_caller]
fn assert_dropped(folder: &Folder, reason: &str) {
    let ((mut store, stored), lines) = logged(|| folder.open());
    assert_eq!(stored, []);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let name = folder.path().display().to_string();
    for part in [" WARN ", &name, reason] {
        assert!(lines[0].contains(part), "`{part}` is not in: {}", lines[0]);
    }
    for (at, name) in [(0, 10), (1, 11), (2, 12)] {
        assert!(get(&store, at, name).is_err(), "place {at} still holds its block");
    }
    put(&mut store, 3, 77);
    drop(store);
    let ((store, stored), lines) = logged(|| folder.open());
    assert_eq!((pairs(&stored), lines), (vec![(3, 77)], Vec::new()));
    assert_eq!(get(&store, 3, 77).unwrap(), block(77));
}

#[test]
fn a_write_that_was_cut_off_anywhere_leaves_an_empty_place() {
    let (old, new) = (block(11), block(99));
    let head = header().head(BlockName(99), 4, &new).to_bytes();
    // Of the block's bytes: none, some within a page, a page, two pages and some, all but one, all.
    for written in [0, 1, 4_064, 4_096, 9_000, BLOCK_BYTES - 1, BLOCK_BYTES] {
        let folder = Folder::filled();
        let file = folder.file();
        file.write_all_at(&EMPTY, offset(1)).unwrap();
        file.write_all_at(&new[..written], offset(1) + HEAD_BYTES as u64).unwrap();
        let ((store, stored), lines) = logged(|| folder.open());
        assert_eq!((pairs(&stored), lines), (vec![(0, 10), (2, 12)], Vec::new()), "{written} bytes");
        assert!(get(&store, 1, 11).is_err() && get(&store, 1, 99).is_err(), "{written} bytes");
        drop(store);
        if written == BLOCK_BYTES {
            // The last step makes it whole.
            file.write_all_at(&head, offset(1)).unwrap();
            let (store, stored) = folder.open();
            assert_eq!(pairs(&stored), [(0, 10), (2, 12), (1, 99)]);
            assert_eq!(get(&store, 1, 99).unwrap(), new);
        }
    }
    // Nothing of the new block at all.
    let folder = Folder::filled();
    let (store, _) = folder.open();
    assert_eq!(get(&store, 1, 11).unwrap(), old);
}

/// Set for a process that is to die in the middle of a write: a folder, and the offset at which it does.
const CRASH: &str = "TROUPE_STORE_TEST_CRASH";

/// The system kills a process that writes a file beyond its limit, after it has written up to there.
#[test]
fn a_process_that_dies_in_a_write_leaves_the_other_blocks() {
    if let Ok(orders) = std::env::var(CRASH) {
        let (limit, dir) = orders.split_once(' ').unwrap();
        return die_writing(Path::new(dir), limit.parse().unwrap());
    }
    // Of the last place's block: none, some within a page, several pages, all but one.
    for written in [0, 100, 4_096, 9_000, BLOCK_BYTES as u64 - 1] {
        let folder = Folder::filled();
        let (mut store, _) = folder.open();
        put(&mut store, 3, 13);
        drop(store);
        let limit = offset(3) + HEAD_BYTES as u64 + written;
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "store::tests::damage::a_process_that_dies_in_a_write_leaves_the_other_blocks",
            ])
            .env(CRASH, format!("{limit} {}", folder.path().parent().unwrap().display()))
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(Signal::XFSZ.as_raw()), "{output:?}");
        let mut reached = vec![0; written as usize];
        folder.file().read_exact_at(&mut reached, offset(3) + HEAD_BYTES as u64).unwrap();
        assert_eq!(reached, block(99)[..written as usize], "it died elsewhere");

        let ((store, stored), lines) = logged(|| folder.open());
        assert_eq!((pairs(&stored), lines), (vec![(0, 10), (1, 11), (2, 12)], Vec::new()), "{written} bytes");
        assert!(get(&store, 3, 13).is_err() && get(&store, 3, 99).is_err(), "{written} bytes");
    }
}

fn die_writing(dir: &Path, limit: u64) {
    let medium = Medium::File { dir: dir.to_owned(), fingerprint: print(1) };
    let (mut store, _) = BlockStore::open(medium, BYTES, BLOCK_BYTES).unwrap();
    let bound = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::Core, bound(0)).unwrap();
    setrlimit(Resource::Fsize, bound(limit)).unwrap();
    put(&mut store, 3, 99);
}

#[test]
fn pages_that_a_loss_of_power_left_out_are_found() {
    let new = block(99);
    // Head and all but one page of the block are new.
    for page in 0..2 {
        let folder = Folder::filled();
        let file = folder.file();
        let mut torn = new.clone();
        torn[page * 4_096..][..4_096].copy_from_slice(&block(11)[page * 4_096..][..4_096]);
        file.write_all_at(&torn, offset(1) + HEAD_BYTES as u64).unwrap();
        file.write_all_at(&header().head(BlockName(99), 4, &new).to_bytes(), offset(1)).unwrap();
        assert_dropped(&folder, "its block 1 does not match its checksum");
    }
}

#[test]
fn a_damaged_file_is_dropped_with_one_line() {
    let last = BLOCK_BYTES as u64 - 1 + HEAD_BYTES as u64;
    for (at, reason) in [
        (0, "it is not a file of blocks"),
        (8, "its format is version 0, not 1"),
        (12, "its header does not match its checksum"),
        (20, "its header does not match its checksum"),
        (40, "its header does not match its checksum"),
        (63, "its header does not match its checksum"),
        (offset(0), "its block 0 does not match its checksum"),
        (offset(1) + 16, "its block 1 does not match its checksum"),
        (offset(1) + 31, "its block 1 does not match its checksum"),
        (offset(2) + HEAD_BYTES as u64, "its block 2 does not match its checksum"),
        (offset(2) + 5_000, "its block 2 does not match its checksum"),
        (offset(2) + last, "its block 2 does not match its checksum"),
    ] {
        let folder = Folder::filled();
        folder.change(at, 1);
        assert_dropped(&folder, reason);
    }
}

#[test]
fn a_file_of_another_length_is_dropped() {
    let len = offset(PLACES);
    for (len, reason) in [
        (1, "it ends within its header"),
        (63, "it ends within its header"),
        (64, "it has 64 bytes, but 40256 belong to its 4 blocks"),
        (len - 1, "it has 40255 bytes"),
        (len + 1, "it has 40257 bytes"),
    ] {
        let folder = Folder::filled();
        folder.file().set_len(len).unwrap();
        assert_dropped(&folder, reason);
    }
    // One that has just been made is empty, and no news.
    let folder = Folder::filled();
    folder.file().set_len(0).unwrap();
    let ((_, stored), lines) = logged(|| folder.open());
    assert_eq!((stored, lines), (Vec::new(), Vec::new()));
}

#[test]
fn a_change_under_way_is_found_by_the_read() {
    let folder = Folder::filled();
    let (store, _) = folder.open();
    folder.change(offset(1) + 700, 4);
    assert!(matches!(get(&store, 1, 11), Err(GpuError::Store(StoreError::Changed { at: StoreId(1), .. }))));
    assert_eq!(get(&store, 0, 10).unwrap(), block(10));
}
