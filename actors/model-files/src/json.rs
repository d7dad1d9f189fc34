//! JSON files of a model folder, read under a size limit, and typed access to their keys.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{ModelFileError, Result};

/// The most that a configuration file or template may hold. The largest real one, an index of a hundred thousand
/// tensors, is near 10 MB.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// The text of a file of at most [`MAX_JSON_BYTES`]; `None` where it does not exist.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ModelFileError::io(path, error)),
    };
    if !metadata.is_file() {
        let problem = "not a regular file".into();
        return Err(ModelFileError::NotAModel { path: path.into(), problem });
    }
    if metadata.len() > MAX_JSON_BYTES {
        let (what, value) = ("its size in bytes".into(), metadata.len());
        return Err(ModelFileError::OverLimit { path: path.into(), what, value, limit: MAX_JSON_BYTES });
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| ModelFileError::io(path, error))
}

/// A JSON file that holds one object, with the file's path for its errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonFile {
    pub(crate) path: PathBuf,
    pub(crate) map: Map<String, Value>,
}

impl JsonFile {
    /// Reads an object; `None` where the file does not exist.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let Some(text) = read_text(path)? else { return Ok(None) };
        let json = |problem: String| ModelFileError::Json { path: path.into(), problem };
        match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => Ok(Some(Self { path: path.into(), map })),
            Ok(_) => Err(json("expected an object".into())),
            Err(error) => Err(json(error.to_string())),
        }
    }

    /// Reads an object, or an empty one where the file does not exist.
    pub(crate) fn read_or_empty(path: &Path) -> Result<Self> {
        Ok(Self::read(path)?.unwrap_or_else(|| Self { path: path.into(), map: Map::new() }))
    }

    /// A key's value; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn wrong(&self, key: &str, expected: &str, found: &Value) -> ModelFileError {
        /// Enough of a value to recognise it by.
        const SHOWN_CHARS: usize = 60;
        let shown: String = found.to_string().chars().take(SHOWN_CHARS).collect();
        ModelFileError::key(&self.path, key, format!("expected {expected}, found {shown}"))
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", Value::as_bool)
    }

    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>> {
        self.typed(key, "a whole number", |value| value.as_u64().and_then(|id| u32::try_from(id).ok()))
    }

    pub(crate) fn f32(&self, key: &str) -> Result<Option<f32>> {
        self.typed(key, "a number", |value| {
            value.as_f64().map(|number| number as f32).filter(|number| number.is_finite())
        })
    }

    fn typed<T>(&self, key: &str, expected: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(key, expected, value))
    }

    /// A token id, or a list of them. A negative id, which some old configurations write for none, counts as absent.
    pub(crate) fn token_ids(&self, key: &str) -> Result<Vec<u32>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let listed = match value {
            Value::Array(items) => items.as_slice(),
            single => std::slice::from_ref(single),
        };
        let mut ids = Vec::new();
        for item in listed {
            match item.as_i64() {
                Some(negative) if negative < 0 => {}
                Some(id) => ids.push(
                    u32::try_from(id)
                        .map_err(|_| self.wrong(key, "a token id or a list of token ids", value))?,
                ),
                None => return Err(self.wrong(key, "a token id or a list of token ids", value)),
            }
        }
        Ok(ids)
    }
}
