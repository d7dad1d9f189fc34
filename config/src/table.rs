//! The table of options. To add one: a line here, a field in `config.rs`, and `cargo run -p
//! troupe-config --example pages`.

use crate::Kind;
use crate::kind::Kind::{Choice, Digest, Integer, Path, PowerOfTwo, Size, Text, TextList};
use DefaultValue::{Unset, Value};

/// One option, as a person may set it.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// `section.name`, as in the TOML file.
    pub key: &'static str,
    /// The long flag, without dashes.
    pub flag: &'static str,
    /// The short flag, if it has one.
    pub short: Option<char>,
    /// What values it takes.
    pub kind: Kind,
    /// What it is when nobody sets it.
    pub default: DefaultValue,
    /// One sentence without a full stop, for `--help` and the documentation.
    pub help: &'static str,
}

/// What an option is when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// This, spelled as a person would.
    Value(&'static str),
    /// Nothing. What that means, in words, and a value that shows the option's form.
    Unset(&'static str, &'static str),
}

/// A TOML section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What its options are about, for help and documentation.
    pub title: &'static str,
}

/// All sections, in the order in which people read them.
pub const SECTIONS: &[Section] = &[
    Section { name: "model", title: "Model" },
    Section { name: "server", title: "HTTP server" },
    Section { name: "engine", title: "Engine" },
    Section { name: "cpu", title: "Computing on the CPU" },
    Section { name: "scheduler", title: "Scheduler" },
    Section { name: "cache", title: "Prefix cache" },
    Section { name: "responses", title: "Responses API" },
    Section { name: "tokenizer", title: "Tokenizer" },
    Section { name: "log", title: "Logging" },
    Section { name: "admin", title: "Administration" },
];

/// All options, grouped by section in the order of [`SECTIONS`].
#[rustfmt::skip]
pub const OPTIONS: &[OptionSpec] = &[
    option("model.path", "model", Path, Unset("the only model in models/, if there is just one", "models/my-model"),
        "Model to load: a Hugging Face folder or a GGUF file").short('m'),
    option("model.id", "served-model-name", Text, Unset("the model's file or folder name", "my-model"),
        "Name under which clients ask for the model"),
    option("model.aliases", "model-alias", TextList, Value(""),
        "Further names of the model; repeat the flag, or separate names by commas"),
    option("model.tool_format", "tool-format", Text, Value("auto"),
        "Format in which the model writes tool calls, see docs/tools.md; auto takes what its chat template shows, none looks for no calls"),
    option("model.reasoning_format", "reasoning-format", Text, Value("auto"),
        "Tags that the model puts around its reasoning, see docs/tools.md; auto takes those of its chat template, none leaves reasoning in the text"),

    option("server.host", "host", Text, Value("127.0.0.1"),
        "Address to listen on; 0.0.0.0 is every network interface"),
    option("server.port", "port", Integer { min: 0, max: 65_535 }, Value("8080"),
        "Port to listen on; 0 lets the system choose a free one"),
    option("server.workers", "http-workers", Integer { min: 1, max: 256 }, Unset("one for each core", "4"),
        "Threads that serve HTTP"),
    option("server.max_body_bytes", "max-body-bytes", Size { min: 1 << 10, max: 1 << 30 }, Value("4MiB"),
        "Largest request body that is read; larger ones are answered with 413"),
    option("server.drain_timeout_seconds", "drain-timeout-seconds", Integer { min: 0, max: 3_600 }, Value("30"),
        "Seconds that running streams get to finish after SIGTERM; 0 ends them at once"),

    option("engine.device", "device", Choice(&["auto", "cpu", "gpu"]), Value("auto"),
        "Where to compute; auto takes a GPU if there is one"),
    option("engine.weights", "weights", Choice(&["auto", "stored", "f32"]), Value("auto"),
        "Type in which weights are kept; auto is as stored, computing in f32 on the CPU"),
    option("engine.max_model_len", "max-model-len", Integer { min: 2, max: U32 }, Unset("the model's own limit", "4096"),
        "Most tokens (prompt and generated) of one sequence"),
    option("engine.max_num_seqs", "max-num-seqs", Integer { min: 1, max: 4_096 }, Unset("8 on the CPU, 64 on a GPU", "16"),
        "Most sequences that run at once; others wait in the queue"),
    option("engine.max_num_batched_tokens", "max-num-batched-tokens", Integer { min: 1, max: 1 << 20 }, Unset("256 on the CPU, 4096 on a GPU, or as many as sequences", "1024"),
        "Most tokens of one step; longer prompts are computed in chunks"),
    option("engine.block_size", "block-size", PowerOfTwo { max: 256 }, Value("32"),
        "Tokens of one KV block"),
    option("engine.kv_cache_dtype", "kv-cache-dtype", Choice(&["auto", "f32", "f16", "bf16", "int8"]), Value("auto"),
        "Type of the KV cache; auto is f16 on the CPU (f32 with f32 weights), on a GPU the type that is computed in"),
    option("engine.kv_cache_memory", "kv-cache-memory", Size { min: 1 << 20, max: i64::MAX as u64 }, Unset("a quarter of the host's free memory, on a GPU what the weights leave of 85 % of its memory; at most every sequence at its longest", "512MiB"),
        "Memory for the KV cache, such as 512MiB or 4.1GB; what running sequences do not need of it serves the prefix cache"),

    option("cpu.threads", "cpu-threads", Integer { min: 1, max: 256 }, Unset("one for each core that the process may use, and 16 at most", "4"),
        "Threads that compute together"),
    option("cpu.affinity", "cpu-affinity", Choice(&["pinned", "free"]), Value("pinned"),
        "Whether each of these threads keeps to a core of its own"),
    option("cpu.activations", "cpu-activations", Choice(&["auto", "int8", "int16", "f32"]), Value("auto"),
        "What activations become before they meet quantised weights; auto is int16"),

    option("scheduler.max_queued", "max-queued", Integer { min: 1, max: 1 << 20 }, Value("256"),
        "Most requests that wait; further ones are answered with 429, but for those of tenants that have less than their share of the queue"),
    option("scheduler.step_growth_percent", "step-growth-percent", Integer { min: 1, max: U32 }, Value("75"),
        "How much longer prompts may make the steps of running streams, in percent; more speeds up prompts, less spares streams"),
    option("scheduler.long_prompt_share_percent", "long-prompt-share-percent", Integer { min: 0, max: 95 }, Value("71"),
        "How much of the time a long prompt gets beside running streams, in percent: these pause for it once in 24 tokens; 0 never lets them pause"),

    option("cache.share", "cache-share", Choice(&["tenant", "server", "off"]), Value("tenant"),
        "Who may use the keys and values that were computed for a prompt: requests of the same tenant, all, or none"),
    option("cache.dir", "cache-dir", Path, Unset("no file: they are kept in memory if cache.size is set, else forgotten", "cache"),
        "Folder of the file that takes the cached blocks for which the KV cache has no room; they survive a restart"),
    option("cache.size", "cache-size", Size { min: 1 << 20, max: i64::MAX as u64 }, Unset("4GiB with cache.dir, else nothing", "4GiB"),
        "Size of that file, one for each model, or of the memory for such blocks without cache.dir"),

    option("responses.dir", "responses-dir", Path, Unset("no file: they are kept in memory", "responses"),
        "Folder of the database of responses that clients asked to store; they survive a restart"),
    option("responses.size", "responses-size", Size { min: 1 << 16, max: i64::MAX as u64 }, Unset("1GiB with responses.dir, else 64MiB", "1GiB"),
        "Most bytes of stored responses; beyond it the oldest of the tenant that holds most goes"),
    option("responses.max_age_days", "responses-max-age-days", Integer { min: 1, max: 3_650 }, Value("30"),
        "Days after which a stored response is deleted"),

    option("tokenizer.threads", "tokenizer-threads", Integer { min: 1, max: 256 }, Value("2"),
        "Threads that tokenise prompts and render chat templates"),

    option("log.level", "log-level", Choice(&["error", "warn", "info", "debug", "trace"]), Value("info"),
        "Least serious messages that are written"),
    option("log.format", "log-format", Choice(&["text", "json"]), Value("text"),
        "Shape of log lines"),

    option("admin.key_sha256", "admin-key-sha256", Digest, Unset("/admin is not served", ADMIN_DIGEST),
        "SHA-256 of the key that opens /admin/scheduler"),
];

/// Of the key `admin-secret`.
const ADMIN_DIGEST: &str = "16175223c8ddce5ace0493c948569c211b03c4c6bb3d3e484434999448cffe01";

/// Of the key `secret`.
pub(crate) const EXAMPLE_DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

pub(crate) const U32: u64 = u32::MAX as u64;

const fn option(
    key: &'static str,
    flag: &'static str,
    kind: Kind,
    default: DefaultValue,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { key, flag, short: None, kind, default, help }
}

impl OptionSpec {
    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    /// The option with this key.
    pub fn find(key: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.key == key)
    }

    /// Section and name: the parts of its key.
    pub fn section_and_name(&self) -> (&'static str, &'static str) {
        self.key.split_once('.').unwrap_or(("", self.key))
    }

    /// The environment variable that sets it: `server.port` is `TROUPE_SERVER_PORT`.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.key.replace('.', "_").to_uppercase())
    }
}

/// What the names of all environment variables begin with.
pub(crate) const VARIABLE_PREFIX: &str = "TROUPE_";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let (mut keys, mut flags, mut shorts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for option in OPTIONS {
            assert!(keys.insert(option.key), "{} is there twice", option.key);
            assert!(flags.insert(option.flag), "--{} is there twice", option.flag);
            assert!(option.short.is_none_or(|s| shorts.insert(s)), "-{:?} is there twice", option.short);
            let well_formed = |name: &str, joint| {
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == joint)
            };
            assert!(well_formed(option.flag, '-'), "--{}", option.flag);
            assert!(well_formed(option.section_and_name().1, '_'), "{}", option.key);
        }
    }

    #[test]
    fn options_are_grouped_by_section_in_order() {
        let mut seen: Vec<&str> = OPTIONS.iter().map(|o| o.section_and_name().0).collect();
        seen.dedup();
        assert_eq!(seen, SECTIONS.iter().map(|s| s.name).collect::<Vec<_>>());
    }

    #[test]
    fn help_is_one_sentence_that_starts_large_and_has_no_full_stop() {
        for OptionSpec { key, help, .. } in OPTIONS {
            assert!(help.starts_with(char::is_uppercase) && !help.ends_with('.'), "{key}: {help}");
        }
    }

    #[test]
    fn defaults_and_examples_are_values_that_the_option_takes() {
        for option in OPTIONS {
            let (Value(text) | Unset(_, text)) = option.default;
            let parsed = option.kind.parse_text(text);
            assert!(parsed.is_ok(), "{}: {parsed:?}", option.key);
        }
    }

    #[test]
    fn each_variable_is_its_key() {
        let port = OptionSpec::find("server.port").unwrap();
        assert_eq!(port.variable(), "TROUPE_SERVER_PORT");
        let names: BTreeSet<_> = OPTIONS.iter().map(OptionSpec::variable).collect();
        assert_eq!(names.len(), OPTIONS.len());
    }
}
