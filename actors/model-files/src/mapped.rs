//! A read-only memory map of one weights file.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::error::{ModelFileError, Result};

/// A file's bytes, paged in by the system as they are touched.
#[derive(Debug)]
pub(crate) struct MappedFile {
    path: PathBuf,
    map: Mmap,
}

impl MappedFile {
    /// Maps a regular file. A pipe, socket or device is refused: opening one may block for ever.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = |source| ModelFileError::io(path, source);
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(ModelFileError::NotAModel {
                path: path.into(),
                problem: "not a regular file".into(),
            });
        }
        let file = File::open(path).map_err(io)?;
        // SAFETY: the map is private to this type and only ever read, and every byte pattern is a valid `u8`.
        // What the type system cannot rule out is another process cutting the file short while it is mapped:
        // touching a lost page then ends the process by a signal. It cannot read foreign memory. Model files are
        // written once and replaced by rename, and every loader of weights that maps them accepts the same risk.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(Self { path: path.into(), map })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}
