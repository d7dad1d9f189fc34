//! The tensor directory of a GGUF file, checked against the file's size before any of it is used.

use std::collections::HashSet;
use std::path::Path;

use super::cursor::Cursor;
use super::metadata::Metadata;
use crate::error::{ModelFileError, Result};
use crate::format::{BlockFormat, Dtype, TensorFormat};
use crate::tensor::{RowOrder, TensorEntry, sort_apart};

/// Bytes of the shortest possible entry: an empty name, no dimension, a type, an offset.
const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 4 + 8;
/// Real files have some thousands.
const MAX_TENSORS: u64 = 1 << 18;
/// The format's own limit.
const MAX_DIMS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;
/// The largest alignment that is accepted. Real files use 32; a larger one can only be meant to waste memory.
const MAX_ALIGNMENT: u64 = 1 << 16;
const SUPPORTED: &str = "F32, F16, BF16, Q8_0, Q4_1, Q4_0";

/// Names of the types that exist, by number, for the message that refuses one.
const TYPE_NAMES: [(u32, &str); 31] = [
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

/// One entry as the file spells it: dimensions innermost first, offset from the start of the data.
struct RawEntry<'a> {
    name: &'a str,
    dims: Vec<u64>,
    type_number: u32,
    offset: u64,
}

/// How many tensors to read, bounded by what the file can hold.
pub(super) fn count(cursor: &mut Cursor<'_>) -> Result<u64> {
    cursor.count(LEAST_ENTRY_BYTES, MAX_TENSORS, "tensors")
}

/// Reads the directory, in order of the bytes, with GGUF names, shapes outermost first and spans in the whole file.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    count: u64,
    metadata: &Metadata,
    file_len: usize,
) -> Result<Vec<TensorEntry>> {
    let mut raw = Vec::new();
    for _ in 0..count {
        raw.push(read_entry(cursor)?);
    }
    let layout = DataLayout::new(cursor, metadata, file_len)?;
    let mut names = HashSet::new();
    if let Some(repeated) = raw.iter().find(|entry| !names.insert(entry.name)) {
        return Err(ModelFileError::tensor(cursor.path, repeated.name, "named twice"));
    }
    let mut entries =
        raw.iter().map(|entry| check(cursor.path, entry, layout)).collect::<Result<Vec<_>>>()?;
    sort_apart(cursor.path, &mut entries)?;
    Ok(entries)
}

fn read_entry<'a>(cursor: &mut Cursor<'a>) -> Result<RawEntry<'a>> {
    let name = cursor.string("a tensor's name")?;
    if name.is_empty() {
        return Err(ModelFileError::malformed(cursor.path, "tensor directory", "a name is empty"));
    }
    let what = format!("the entry of tensor `{name}`");
    let num_dims = cursor.u32(&what)?;
    if num_dims == 0 || num_dims > MAX_DIMS {
        let problem = format!("has {num_dims} dimensions, the format allows 1 to {MAX_DIMS}");
        return Err(ModelFileError::tensor(cursor.path, name, problem));
    }
    let dims = (0..num_dims).map(|_| cursor.u64(&what)).collect::<Result<_>>()?;
    Ok(RawEntry { name, dims, type_number: cursor.u32(&what)?, offset: cursor.u64(&what)? })
}

/// Where the tensors' bytes lie.
#[derive(Debug, Clone, Copy)]
struct DataLayout {
    start: u64,
    alignment: u64,
    file_len: u64,
}

impl DataLayout {
    fn new(cursor: &Cursor<'_>, metadata: &Metadata, file_len: usize) -> Result<Self> {
        const KEY: &str = "general.alignment";
        let alignment = metadata.unsigned(KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            let problem = format!("expected a power of two of at most {MAX_ALIGNMENT}, found {alignment}");
            return Err(ModelFileError::key(cursor.path, KEY, problem));
        }
        let start = (cursor.position() as u64).next_multiple_of(alignment);
        Ok(Self { start, alignment, file_len: file_len as u64 })
    }
}

fn check(path: &Path, raw: &RawEntry<'_>, layout: DataLayout) -> Result<TensorEntry> {
    let refuse = |problem: String| Err(ModelFileError::tensor(path, raw.name, problem));
    let format = format(path, raw)?;
    if raw.dims.contains(&0) {
        return refuse(format!("a dimension of {:?} is 0", raw.dims));
    }
    let shape: Option<Vec<usize>> = raw.dims.iter().rev().map(|&dim| usize::try_from(dim).ok()).collect();
    let sized = shape.and_then(|shape| format.byte_len(&shape).map(|length| (shape, length)));
    let Some((shape, length)) = sized else {
        return refuse(format!("dimensions {:?} cannot be stored as {format}", raw.dims));
    };
    if !raw.offset.is_multiple_of(layout.alignment) {
        return refuse(format!(
            "offset {} is not a multiple of the alignment {}",
            raw.offset, layout.alignment
        ));
    }
    let start = layout.start.checked_add(raw.offset);
    let end = start.and_then(|start| start.checked_add(length as u64));
    let (Some(start), Some(end)) = (start, end.filter(|&end| end <= layout.file_len)) else {
        let what = format!("tensor `{}` ({length} bytes at offset {} of the data)", raw.name, raw.offset);
        return Err(ModelFileError::Truncated { path: path.into(), what });
    };
    Ok(TensorEntry {
        name: raw.name.to_owned(),
        shape,
        format,
        file: 0,
        span: start as usize..end as usize,
        row_order: RowOrder::AsStored,
    })
}

fn format(path: &Path, raw: &RawEntry<'_>) -> Result<TensorFormat> {
    Ok(match raw.type_number {
        0 => TensorFormat::Dense(Dtype::F32),
        1 => TensorFormat::Dense(Dtype::F16),
        2 => TensorFormat::Blocks(BlockFormat::Q4_0),
        3 => TensorFormat::Blocks(BlockFormat::Q4_1),
        8 => TensorFormat::Blocks(BlockFormat::Q8_0),
        30 => TensorFormat::Dense(Dtype::BF16),
        number => {
            let known = TYPE_NAMES.iter().find(|(known, _)| *known == number);
            return Err(ModelFileError::UnsupportedType {
                path: path.into(),
                tensor: raw.name.to_owned(),
                found: known.map_or_else(|| format!("number {number}"), |(_, name)| (*name).to_owned()),
                supported: SUPPORTED,
            });
        }
    })
}
