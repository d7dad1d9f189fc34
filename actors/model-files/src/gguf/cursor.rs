//! A bounded reader over the header of a GGUF file. Nothing is allocated on the word of a length in the file: a
//! length is first compared with the bytes that are left.

use std::path::Path;

use crate::error::{ModelFileError, Result};

/// Position in a file's bytes. Every read either succeeds inside the file or is an error that names what was read.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    pub(super) path: &'a Path,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, position: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8]> {
        let end = usize::try_from(count).ok().and_then(|count| self.position.checked_add(count));
        let taken = end.and_then(|end| self.bytes.get(self.position..end));
        let taken = taken.ok_or_else(|| self.truncated(what))?;
        self.position += taken.len();
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let Some(array) = self.bytes.get(self.position..).and_then(<[u8]>::first_chunk::<N>) else {
            return Err(self.truncated(what));
        };
        self.position += N;
        Ok(*array)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A string: a length of eight bytes, then UTF-8.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a str> {
        let length = self.u64(what)?;
        let bytes = self.take(length, what)?;
        std::str::from_utf8(bytes).map_err(|_| ModelFileError::malformed(self.path, what, "not valid UTF-8"))
    }

    /// A count of things that take at least `least_bytes` each, refused when the file cannot hold so many, or when
    /// there are more than `limit`.
    pub(super) fn count(&mut self, least_bytes: u64, limit: u64, what: &str) -> Result<u64> {
        let count = self.u64(what)?;
        let left = (self.bytes.len() - self.position) as u64;
        if count > left / least_bytes {
            let problem =
                format!("{count} cannot fit in the {left} bytes left; the file is truncated or corrupt");
            return Err(ModelFileError::malformed(self.path, what, problem));
        }
        if count > limit {
            let what = format!("the number of {what}");
            return Err(ModelFileError::OverLimit { path: self.path.into(), what, value: count, limit });
        }
        Ok(count)
    }

    fn truncated(&self, what: &str) -> ModelFileError {
        ModelFileError::Truncated { path: self.path.into(), what: what.into() }
    }
}
