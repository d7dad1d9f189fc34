//! The key that names of cached blocks are mixed with: drawn anew for each process, or kept beside the blocks that
//! outlive it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::http::entropy;

const NAME: &str = "key";

/// A key that nobody knows.
pub(crate) fn draw() -> u128 {
    u128::from(entropy()) << 64 | u128::from(entropy())
}

/// The key in `dir`, made if there is none. One that is damaged is replaced: no block is found under its names again.
/// Of two servers that make one at once, the later one's stays.
///
/// # Errors
/// A folder that cannot be made, read or written.
pub(crate) fn kept_in(dir: &Path) -> Result<u128> {
    let path = dir.join(NAME);
    read_or_make(dir, &path).with_context(|| format!("cache.dir: cannot use {}", path.display()))
}

fn read_or_make(dir: &Path, path: &Path) -> io::Result<u128> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    match fs::read(path).map(<[u8; 16]>::try_from) {
        Ok(Ok(bytes)) => return Ok(u128::from_le_bytes(bytes)),
        Ok(Err(bytes)) => {
            let (path, len) = (path.display(), bytes.len());
            tracing::warn!("{path} is replaced, and stored blocks are not found: it has {len} bytes, not 16");
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let key = draw();
    make(path, |mut file| {
        file.write_all(&key.to_le_bytes())?;
        file.sync_all()
    })?;
    Ok(key)
}

/// Makes a file that is whole under its name, or not there: half a key is guessed more easily. What cannot be written
/// whole leaves nothing behind.
fn make(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let making = path.with_file_name(format!("{NAME}.{}", std::process::id()));
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&making)?;
    let made = write(file).and_then(|()| fs::rename(&making, path));
    if made.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&making);
    }
    made
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_stays_while_its_file_does() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("a/b");
        let key = kept_in(&dir).unwrap();
        assert_ne!(key, 0);
        assert_eq!(kept_in(&dir).unwrap(), key);
        assert_eq!(dir.join(NAME).metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing else is left");
        for damaged in [&[][..], &[7; 15], &[7; 17]] {
            fs::write(dir.join(NAME), damaged).unwrap();
            let replaced = kept_in(&dir).unwrap();
            assert_ne!(replaced, key);
            assert_eq!(kept_in(&dir).unwrap(), replaced);
        }
        fs::remove_file(dir.join(NAME)).unwrap();
        assert_ne!(kept_in(&dir).unwrap(), key);
    }

    #[test]
    fn a_key_that_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let error = make(&path, |mut file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::create_dir(&path).unwrap();
        assert!(make(&path, |_| Ok(())).is_err(), "a folder has its name");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        fs::create_dir_all(folder.path().join("dir/key")).unwrap();
        for dir in [file.clone(), file.join("below"), folder.path().join("dir"), "/proc/self/cache".into()] {
            let error = format!("{:#}", kept_in(&dir).unwrap_err());
            let begin = format!("cache.dir: cannot use {}: ", dir.join(NAME).display());
            assert!(error.starts_with(&begin), "{error}");
        }
    }
}
