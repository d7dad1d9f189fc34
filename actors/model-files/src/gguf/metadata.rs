//! The key-value part of a GGUF header. Scalars and strings are read out; an array stays in the file as a checked
//! span, and is decoded when its reader asks. Arrays of arrays, which no known key uses, are refused.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::cursor::Cursor;
use crate::error::{ModelFileError, Result};

/// Bytes of the shortest possible pair: an empty key, a type, one byte.
const LEAST_PAIR_BYTES: u64 = 8 + 4 + 1;
/// Real files have some dozens.
const MAX_PAIRS: u64 = 1 << 16;
/// The longest real arrays, the merges of a tokenizer, have some hundred thousand elements.
const MAX_ELEMENTS: u64 = 1 << 24;

/// The type of a value, by the number that the format gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    const BY_NUMBER: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    fn read(cursor: &mut Cursor<'_>, what: &str) -> Result<Self> {
        let number = cursor.u32(what)?;
        Self::BY_NUMBER.get(number as usize).copied().ok_or_else(|| {
            ModelFileError::malformed(cursor.path, what, format!("value type {number} does not exist"))
        })
    }

    /// The fewest bytes that a value takes; the exact number for all but strings and arrays.
    fn least_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::String | Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Array => 12,
        }
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    /// `len` elements of one type, at `span` in the file.
    Array {
        element: ValueType,
        len: u64,
        span: Range<usize>,
    },
}

/// All keys of a file.
#[derive(Debug)]
pub(super) struct Metadata {
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

impl Metadata {
    /// Reads `count` pairs.
    pub(super) fn read(cursor: &mut Cursor<'_>, count: u64) -> Result<Self> {
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let key = cursor.string("a metadata key")?;
            if key.is_empty() {
                return Err(ModelFileError::malformed(cursor.path, "metadata", "a key is empty"));
            }
            let what = format!("metadata key `{key}`");
            let value = match ValueType::read(cursor, &what)? {
                ValueType::Array => read_array(cursor, &what)?,
                scalar => read_scalar(cursor, scalar, &what)?,
            };
            if values.insert(key.to_owned(), value).is_some() {
                return Err(ModelFileError::malformed(cursor.path, what, "given twice"));
            }
        }
        Ok(Self { path: cursor.path.into(), values })
    }

    /// How many pairs to read, bounded by what the file can hold.
    pub(super) fn count(cursor: &mut Cursor<'_>) -> Result<u64> {
        cursor.count(LEAST_PAIR_BYTES, MAX_PAIRS, "metadata keys")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a string", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A whole number of zero or more, whatever integer type stores it.
    pub(super) fn unsigned(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a whole number", |value| match *value {
            Value::Unsigned(number) => Some(number),
            Value::Signed(number) => u64::try_from(number).ok(),
            _ => None,
        })
    }

    /// A finite number.
    pub(super) fn float(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a finite number", |value| match *value {
            Value::Float(number) => Some(number).filter(|number| number.is_finite()),
            Value::Unsigned(number) => Some(number as f64),
            Value::Signed(number) => Some(number as f64),
            _ => None,
        })
    }

    /// An array of strings, decoded from `file`, the bytes that this metadata was read from.
    pub(super) fn strings(&self, key: &str, file: &[u8]) -> Result<Option<Vec<String>>> {
        self.elements(key, file, ValueType::String, |cursor| cursor.string("a string").map(str::to_owned))
    }

    /// An array of 32-bit integers.
    pub(super) fn i32s(&self, key: &str, file: &[u8]) -> Result<Option<Vec<i32>>> {
        self.elements(key, file, ValueType::I32, |cursor| cursor.array("an integer").map(i32::from_le_bytes))
    }

    /// An array of 32-bit floats.
    pub(super) fn f32s(&self, key: &str, file: &[u8]) -> Result<Option<Vec<f32>>> {
        self.elements(key, file, ValueType::F32, |cursor| cursor.array("a float").map(f32::from_le_bytes))
    }

    fn elements<T>(
        &self,
        key: &str,
        file: &[u8],
        wanted: ValueType,
        read: impl Fn(&mut Cursor<'_>) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        match value {
            Value::Array { element, len, span } if *element == wanted => {
                let mut cursor = Cursor::new(&self.path, file.get(span.clone()).unwrap_or_default());
                (0..*len).map(|_| read(&mut cursor)).collect::<Result<Vec<T>>>().map(Some)
            }
            _ => Err(ModelFileError::key(&self.path, key, format!("expected an array of {wanted:?}"))),
        }
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let wrong = || ModelFileError::key(&self.path, key, format!("expected {expected}"));
        read(value).map(Some).ok_or_else(wrong)
    }
}

fn read_scalar(cursor: &mut Cursor<'_>, kind: ValueType, what: &str) -> Result<Value> {
    Ok(match kind {
        ValueType::U8 => Value::Unsigned(cursor.array::<1>(what)?[0].into()),
        ValueType::I8 => Value::Signed(i8::from_le_bytes(cursor.array(what)?).into()),
        ValueType::U16 => Value::Unsigned(u16::from_le_bytes(cursor.array(what)?).into()),
        ValueType::I16 => Value::Signed(i16::from_le_bytes(cursor.array(what)?).into()),
        ValueType::U32 => Value::Unsigned(cursor.u32(what)?.into()),
        ValueType::I32 => Value::Signed(i32::from_le_bytes(cursor.array(what)?).into()),
        ValueType::U64 => Value::Unsigned(cursor.u64(what)?),
        ValueType::I64 => Value::Signed(i64::from_le_bytes(cursor.array(what)?)),
        ValueType::F32 => Value::Float(shortest(f32::from_le_bytes(cursor.array(what)?))),
        ValueType::F64 => Value::Float(f64::from_le_bytes(cursor.array(what)?)),
        ValueType::Bool => match cursor.array::<1>(what)? {
            [flag @ (0 | 1)] => Value::Bool(flag == 1),
            [other] => {
                let problem = format!("a bool is 0 or 1, found {other}");
                return Err(ModelFileError::malformed(cursor.path, what, problem));
            }
        },
        ValueType::String => Value::String(cursor.string(what)?.to_owned()),
        ValueType::Array => {
            return Err(ModelFileError::malformed(cursor.path, what, "arrays of arrays are not supported"));
        }
    })
}

/// Walks over an array, checking that each element lies in the file.
fn read_array(cursor: &mut Cursor<'_>, what: &str) -> Result<Value> {
    let element = ValueType::read(cursor, what)?;
    if element == ValueType::Array {
        return Err(ModelFileError::malformed(cursor.path, what, "arrays of arrays are not supported"));
    }
    let len = cursor.count(element.least_bytes(), MAX_ELEMENTS, what)?;
    let start = cursor.position();
    if element == ValueType::String {
        for _ in 0..len {
            cursor.string(what)?;
        }
    } else {
        cursor.take(len * element.least_bytes(), what)?;
    }
    Ok(Value::Array { element, len, span: start..cursor.position() })
}

/// The decimal that a person wrote when it was stored as f32: 1e-5, not 9.999999747378752e-6. Rounding it to f32
/// gives the stored bits.
fn shortest(stored: f32) -> f64 {
    stored.to_string().parse().unwrap_or(f64::from(stored))
}
