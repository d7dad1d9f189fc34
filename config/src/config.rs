//! The typed result. Fields are the keys of the table; a test holds the two together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    CacheShare, ConfigError, CpuActivations, CpuAffinity, Device, KeyDigest, KvCacheDtype, LogFormat,
    LogLevel, OPTIONS, OptionSpec, Origin, TenantConfig, Weights,
};

/// A whole, checked configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What is served.
    pub model: ModelConfig,
    /// The HTTP surface.
    pub server: ServerConfig,
    /// The GPU executor.
    pub engine: EngineConfig,
    /// Computing on the CPU.
    pub cpu: CpuConfig,
    /// Admission.
    pub scheduler: SchedulerConfig,
    /// The prefix cache.
    pub cache: CacheConfig,
    /// What the Responses API keeps.
    pub responses: ResponsesConfig,
    /// The tokenizer pool.
    pub tokenizer: TokenizerConfig,
    /// Log lines.
    pub log: LogConfig,
    /// What operators see.
    pub admin: AdminConfig,
    /// Who is served, by name. They are no options: only a file can hold them.
    #[serde(skip)]
    pub tenants: Vec<TenantConfig>,
    /// Where options were set.
    #[serde(skip)]
    pub(crate) origins: BTreeMap<&'static str, Origin>,
}

/// What is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// A Hugging Face folder or a GGUF file.
    pub path: Option<PathBuf>,
    /// The name that clients use; `None` takes the path's.
    pub id: Option<String>,
    /// Further names.
    pub aliases: Vec<String>,
    /// The name of the format in which it writes tool calls, `auto` or `none`.
    pub tool_format: String,
    /// The name of the tags that it puts around its reasoning, `auto` or `none`.
    pub reasoning_format: String,
}

/// The HTTP surface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Name or address to bind to.
    pub host: String,
    /// Port to bind to; zero is any.
    pub port: u16,
    /// Threads; `None` is one for each core.
    pub workers: Option<usize>,
    /// The most bytes of a request's body.
    pub max_body_bytes: u64,
    /// Seconds from SIGTERM to the end of streams that still run.
    pub drain_timeout_seconds: u64,
}

/// The GPU executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// Where to compute.
    pub device: Device,
    /// In which type weights are kept.
    pub weights: Weights,
    /// The most tokens of a sequence; `None` takes the model's own limit.
    pub max_model_len: Option<u32>,
    /// Sequences that run at once; `None` takes the device's default.
    pub max_num_seqs: Option<u32>,
    /// Tokens of one step; at least `max_num_seqs`. `None` takes the device's default.
    pub max_num_batched_tokens: Option<u32>,
    /// Tokens of one KV block; a power of two.
    pub block_size: u32,
    /// In which type keys and values are kept.
    pub kv_cache_dtype: KvCacheDtype,
    /// Bytes for KV blocks; `None` lets the executor choose.
    pub kv_cache_memory: Option<u64>,
}

/// Computing on the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuConfig {
    /// Threads that compute together; `None` is one for each core that the process may use, and 16 at most.
    pub threads: Option<u32>,
    /// How they are bound to cores.
    pub affinity: CpuAffinity,
    /// What becomes of activations before they meet quantised weights.
    pub activations: CpuActivations,
}

/// Admission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerConfig {
    /// The most sequences that wait.
    pub max_queued: u32,
    /// How much longer prompts may make a step that streams wait for, in percent.
    pub step_growth_percent: u32,
    /// Percent of the time that long prompts get beside streams, in steps of their own.
    pub long_prompt_share_percent: u32,
}

/// The prefix cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Who may use what was computed for another.
    pub share: CacheShare,
    /// Folder of the second tier's file; `None` keeps it in memory.
    pub dir: Option<PathBuf>,
    /// Bytes of the second tier; `None` takes [`Self::DEFAULT_BYTES`] with a folder, else nothing.
    pub size: Option<u64>,
}

impl CacheConfig {
    /// Bytes of the second tier's file where nobody sets them.
    pub const DEFAULT_BYTES: u64 = 4 << 30;

    /// Bytes of the second tier; `None` without one.
    pub fn bytes(&self) -> Option<u64> {
        self.size.or(self.dir.is_some().then_some(Self::DEFAULT_BYTES))
    }
}

/// What the Responses API keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponsesConfig {
    /// Folder of the database; `None` keeps it in memory.
    pub dir: Option<PathBuf>,
    /// The most bytes; `None` depends on where they are kept.
    pub size: Option<u64>,
    /// Days that a response is kept for.
    pub max_age_days: u32,
}

impl ResponsesConfig {
    /// The most bytes of stored responses, where nobody sets them: more in a file than in memory.
    pub fn bytes(&self) -> u64 {
        let default = if self.dir.is_some() { 1 << 30 } else { 64 << 20 };
        self.size.unwrap_or(default)
    }
}

/// What operators see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminConfig {
    /// Of the key that opens `/admin`; `None` keeps it shut.
    pub key_sha256: Option<KeyDigest>,
}

/// The tokenizer pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Its threads.
    pub threads: usize,
}

/// Log lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Least serious messages that are written.
    pub level: LogLevel,
    /// Their shape.
    pub format: LogFormat,
}

impl Config {
    /// The model's path.
    ///
    /// # Errors
    /// [`ConfigError::Missing`] if no layer set it.
    pub fn model_path(&self) -> Result<&Path, ConfigError> {
        self.model.path.as_deref().ok_or_else(|| {
            let key = "model.path";
            let option = OptionSpec::find(key);
            ConfigError::Missing {
                key,
                flag: option.map_or("", |o| o.flag),
                variable: option.map_or_else(String::new, OptionSpec::variable),
            }
        })
    }

    /// Where the option of this key was set.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// Keys of the options that differ from `other`'s, in the order of the table. Tenants are no options.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let trees = [self, other].map(|config| toml::Table::try_from(config).unwrap_or_default());
        let value = |tree: &toml::Table, option: &OptionSpec| {
            let (section, name) = option.section_and_name();
            tree.get(section)?.get(name).cloned()
        };
        let differing = OPTIONS.iter().filter(|option| value(&trees[0], option) != value(&trees[1], option));
        differing.map(|option| option.key).collect()
    }

    /// The name under which the model is served: `model.id`, else its folder's or file's name without `.gguf`.
    pub fn model_id(&self) -> String {
        if let Some(id) = &self.model.id {
            return id.clone();
        }
        let Some(path) = &self.model.path else { return "model".to_owned() };
        // `.` and `..` have names only once they are resolved.
        let resolved = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let resolved = if resolved.file_name().is_none() || path.ends_with("..") {
            path.canonicalize().unwrap_or(resolved)
        } else {
            resolved
        };
        let name = resolved.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy());
        name.strip_suffix(".gguf").unwrap_or(&name).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Sources;

    /// A key that has a value in every layer of every option, so that no field is skipped as `None`.
    fn filled() -> Config {
        let mut config = Config::load(Sources::default()).unwrap();
        config.model.path = Some("m".into());
        config.model.id = Some("m".into());
        config.server.workers = Some(1);
        config.engine.max_model_len = Some(1);
        config.engine.max_num_seqs = Some(1);
        config.engine.max_num_batched_tokens = Some(1);
        config.engine.kv_cache_memory = Some(1);
        config.cpu.threads = Some(1);
        config.cache.dir = Some("c".into());
        config.cache.size = Some(1);
        config.responses.dir = Some("r".into());
        config.responses.size = Some(1);
        config.admin.key_sha256 = Some(KeyDigest([1; 32]));
        config
    }

    #[test]
    fn fields_and_table_are_the_same_set() {
        let tree = toml::Table::try_from(filled()).unwrap();
        let fields: BTreeSet<String> = tree
            .iter()
            .flat_map(|(section, fields)| {
                fields.as_table().unwrap().keys().map(move |name| format!("{section}.{name}"))
            })
            .collect();
        let keys: BTreeSet<String> = OPTIONS.iter().map(|o| o.key.to_owned()).collect();
        assert_eq!(fields, keys);
    }

    #[test]
    fn the_served_name_comes_from_the_path_unless_it_is_given() {
        let mut config = filled();
        config.model.id = None;
        for (path, id) in [
            ("models/SmolLM2-135M.Q4_1.gguf", "SmolLM2-135M.Q4_1"),
            ("models/Llama-3-8B/", "Llama-3-8B"),
            ("/", "model"),
        ] {
            config.model.path = Some(path.into());
            assert_eq!(config.model_id(), id, "{path}");
        }
        config.model.id = Some("mine".to_owned());
        assert_eq!(config.model_id(), "mine");
    }
}
