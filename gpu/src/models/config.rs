//! Typed reading of a model's configuration, with errors that name the key.

use serde_json::{Map, Value};

use crate::error::ConfigError;

type Result<T> = std::result::Result<T, ConfigError>;

/// A JSON object of the configuration. Keys that are null count as absent.
#[derive(Clone, Debug)]
pub struct ConfigReader {
    /// Where the object stands: empty for the root, else `path.to.`.
    prefix: String,
    map: Map<String, Value>,
}

impl ConfigReader {
    /// The whole configuration.
    pub fn new(map: Map<String, Value>) -> Self {
        Self { prefix: String::new(), map }
    }

    /// An object without keys.
    pub fn empty() -> Self {
        Self::new(Map::new())
    }

    /// The error for a key that has to be there.
    pub fn missing(&self, key: &str) -> ConfigError {
        ConfigError::Missing { key: format!("{}{key}", self.prefix) }
    }

    /// The error for a value that cannot be used.
    pub fn invalid(&self, key: &str, reason: impl Into<String>) -> ConfigError {
        ConfigError::Invalid { key: format!("{}{key}", self.prefix), reason: reason.into() }
    }

    fn get<'a, T>(
        &'a self,
        key: &str,
        kind: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                read(value).map(Some).ok_or_else(|| self.invalid(key, format!("{value} is not {kind}")))
            }
        }
    }

    /// A nested object.
    pub fn object(&self, key: &str) -> Result<Option<Self>> {
        let map = self.get(key, "an object", Value::as_object)?;
        Ok(map.map(|map| Self { prefix: format!("{}{key}.", self.prefix), map: map.clone() }))
    }

    /// A finite number.
    pub fn f64(&self, key: &str) -> Result<Option<f64>> {
        self.get(key, "a finite number", |v| v.as_f64().filter(|f| f.is_finite()))
    }

    /// A list of positive numbers.
    pub fn f64_list(&self, key: &str) -> Result<Option<Vec<f64>>> {
        let number = |v: &Value| v.as_f64().filter(|f| f.is_finite() && *f > 0.0);
        self.get(key, "a list of positive numbers", |v| v.as_array()?.iter().map(number).collect())
    }

    /// An integer below 2^32.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        self.get(key, "an integer below 2^32", |v| v.as_u64().and_then(|n| u32::try_from(n).ok()))
    }

    /// A size that has to be there: an integer in 1..=2^24, so that products of three stay within 64 bits.
    pub fn size(&self, key: &str) -> Result<usize> {
        self.size_opt(key)?.ok_or_else(|| self.missing(key))
    }

    /// A size as in [`Self::size`] that may be absent.
    pub fn size_opt(&self, key: &str) -> Result<Option<usize>> {
        let within = |v: &Value| v.as_u64().filter(|n| (1..=1 << 24).contains(n)).map(|n| n as usize);
        self.get(key, "a size between 1 and 2^24", within)
    }

    /// A truth value.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.get(key, "true or false", Value::as_bool)
    }

    /// A string.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        self.get(key, "a string", Value::as_str)
    }
}
