//! The directory of one safetensors file. The types of the header are those of the `safetensors` crate; its numbers
//! are checked here, so that an error names its tensor: against the file's real size, in checked arithmetic.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use safetensors::tensor::{Dtype as StoredDtype, TensorInfo};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{ModelFileError, Result};
use crate::format::{Dtype, TensorFormat};
use crate::mapped::MappedFile;
use crate::tensor::{RowOrder, TensorEntry, sort_apart};

/// Bytes of the length that every file starts with.
const LENGTH_BYTES: usize = 8;
/// The key of what the file's writer had to say.
const NOTES: &str = "__metadata__";
/// The format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// More dimensions than any tensor of any family has.
const MAX_DIMS: usize = 8;
const SUPPORTED: &str = "F32, F16, BF16, F64, BOOL or an integer type of 8 to 64 bits";

/// The tensors that a header names; the notes beside them are skipped.
struct Header(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// Reads entries straight into their type: a detour over generic JSON values would let a hostile header of the largest
/// size take gigabytes.
struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut tensors = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                NOTES => _ = map.next_value::<IgnoredAny>()?,
                _ => tensors.push((name, map.next_value()?)),
            }
        }
        Ok(Header(tensors))
    }
}

/// Reads and checks the directory of a mapped file.
pub(crate) fn directory(file: &MappedFile) -> Result<Vec<TensorEntry>> {
    let (path, bytes) = (file.path(), file.bytes());
    let header = header(path, bytes)?;
    let data_start = LENGTH_BYTES + header.len();
    let header: Header = serde_json::from_slice(header)
        .map_err(|error| ModelFileError::malformed(path, "header", error.to_string()))?;
    let data_len = bytes.len() - data_start;
    let entries = header.0.into_iter().map(|(name, info)| entry(path, name, info, data_len, data_start));
    let mut entries = entries.collect::<Result<Vec<_>>>()?;
    sort_apart(path, &mut entries)?;
    refuse_holes(path, &entries, data_start..bytes.len())?;
    Ok(entries)
}

/// The format has every byte of the data belong to a tensor, so that nothing can hide in a file.
fn refuse_holes(path: &Path, sorted: &[TensorEntry], data: Range<usize>) -> Result<()> {
    let starts = sorted.iter().map(|entry| entry.span.start).chain([data.end]);
    let ends = [data.start].into_iter().chain(sorted.iter().map(|entry| entry.span.end));
    for (end, start) in ends.zip(starts) {
        if end < start {
            let problem = format!("bytes {end}..{start} of the file belong to no tensor");
            return Err(ModelFileError::malformed(path, "data", problem));
        }
    }
    Ok(())
}

fn header<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a [u8]> {
    let truncated = |what: &str| ModelFileError::Truncated { path: path.into(), what: what.into() };
    let (length, rest) =
        bytes.split_first_chunk::<LENGTH_BYTES>().ok_or_else(|| truncated("the header's length"))?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_BYTES {
        let what = "the header's length in bytes".into();
        return Err(ModelFileError::OverLimit {
            path: path.into(),
            what,
            value: length,
            limit: MAX_HEADER_BYTES,
        });
    }
    usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or_else(|| truncated("the header"))
}

fn entry(
    path: &Path,
    name: String,
    info: TensorInfo,
    data_len: usize,
    data_start: usize,
) -> Result<TensorEntry> {
    let Some(dtype) = dtype(info.dtype) else {
        return Err(ModelFileError::UnsupportedType {
            path: path.into(),
            tensor: name,
            found: format!("{:?}", info.dtype),
            supported: SUPPORTED,
        });
    };
    let refuse = |problem: String| Err(ModelFileError::tensor(path, &name, problem));
    if info.shape.len() > MAX_DIMS {
        return refuse(format!("has {} dimensions, at most {MAX_DIMS} are read", info.shape.len()));
    }
    let format = TensorFormat::Dense(dtype);
    let Some(expected) = format.byte_len(&info.shape) else {
        return refuse(format!("shape {:?} is larger than any file", info.shape));
    };
    let (start, end) = info.data_offsets;
    if end.checked_sub(start) != Some(expected) {
        return refuse(format!(
            "shape {:?} of {format} needs {expected} bytes, not {start}..{end}",
            info.shape
        ));
    }
    if end > data_len {
        let what = format!("tensor `{name}`");
        return Err(ModelFileError::Truncated { path: path.into(), what });
    }
    let span = data_start + start..data_start + end;
    Ok(TensorEntry { name, shape: info.shape, format, file: 0, span, row_order: RowOrder::AsStored })
}

fn dtype(stored: StoredDtype) -> Option<Dtype> {
    Some(match stored {
        StoredDtype::BOOL => Dtype::Bool,
        StoredDtype::U8 => Dtype::U8,
        StoredDtype::I8 => Dtype::I8,
        StoredDtype::U16 => Dtype::U16,
        StoredDtype::I16 => Dtype::I16,
        StoredDtype::U32 => Dtype::U32,
        StoredDtype::I32 => Dtype::I32,
        StoredDtype::U64 => Dtype::U64,
        StoredDtype::I64 => Dtype::I64,
        StoredDtype::F16 => Dtype::F16,
        StoredDtype::BF16 => Dtype::BF16,
        StoredDtype::F32 => Dtype::F32,
        StoredDtype::F64 => Dtype::F64,
        _ => return None,
    })
}
