//! `troupe inspect`: what is in a model's files, and what it would take to run it. Nothing is loaded.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use serde::Serialize;
use troupe_config::EngineConfig;
use troupe_model_files::{ModelFiles, ModelFormat, Summary, TokenizerSource};

use super::budget::{Budget, KeptAs, Shape};
use super::{configuration, examples, memory, units};

pub(super) fn command() -> Command {
    let path = Arg::new("path")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::AnyPath)
        .help("A Hugging Face folder or a GGUF file [default: the only model in models/]");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print a JSON object");
    let command = Command::new("inspect")
        .about("Show what is in a model, and what memory it takes, without loading it")
        .arg(path)
        .arg(json)
        .after_help(examples(&[
            "troupe inspect models/my-model.gguf",
            "troupe inspect models/my-model --weights stored --max-num-seqs 32 --max-model-len 4096 --json",
        ]));
    configuration::add_options(command, &["engine"])
}

pub(super) fn run(matches: &ArgMatches) -> Result<()> {
    let (path, engine) = match matches.get_one::<PathBuf>("path") {
        Some(path) => (path.clone(), configuration::load(matches)?.engine),
        None => {
            let config = configuration::load_with_model(matches)?;
            (config.model_path()?.to_owned(), config.engine)
        }
    };
    let files = ModelFiles::open(&path)?;
    let inspection = Inspection::of(&files, &engine, memory::available_bytes());
    let mut out = io::stdout().lock();
    if matches.get_flag("json") {
        writeln!(out, "{}", serde_json::to_string_pretty(&inspection)?)?;
    } else {
        write!(out, "{inspection}")?;
    }
    Ok(())
}

/// What `inspect` shows.
#[derive(Debug, Serialize)]
struct Inspection {
    path: PathBuf,
    #[serde(flatten)]
    summary: Summary,
    #[serde(flatten)]
    shape: Shape,
    /// `None` if the model comes without a tokenizer.
    tokenizer: Option<String>,
    has_chat_template: bool,
    memory: Budget,
}

impl Inspection {
    fn of(files: &ModelFiles, engine: &EngineConfig, available_bytes: Option<u64>) -> Self {
        let (summary, shape) = (files.summary(), Shape::of(files.config()));
        Self {
            path: files.path().to_owned(),
            memory: Budget::new(shape, &summary, engine, available_bytes),
            summary,
            shape,
            tokenizer: files.tokenizer().ok().map(|source| tokenizer_name(&source)),
            has_chat_template: files.chat_templates().default.is_some(),
        }
    }
}

/// The kind of files, as it is written for people.
pub(super) fn format_name(format: ModelFormat) -> &'static str {
    match format {
        ModelFormat::Safetensors => "safetensors",
        ModelFormat::Gguf => "gguf",
    }
}

fn tokenizer_name(source: &TokenizerSource) -> String {
    match source {
        TokenizerSource::HuggingFace(_) => "tokenizer.json".to_owned(),
        TokenizerSource::Gguf(tokenizer) => match &tokenizer.pre {
            Some(pre) => format!("gguf {} ({pre})", tokenizer.model),
            None => format!("gguf {}", tokenizer.model),
        },
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.path.display())?;
        self.write_model(f)?;
        f.write_char('\n')?;
        self.write_memory(f)
    }
}

impl Inspection {
    fn write_model(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (summary, shape) = (&self.summary, &self.shape);
        let number = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let kept: Vec<String> = summary
            .bytes_by_format
            .iter()
            .map(|(format, bytes)| format!("{format} {}", units::bytes(*bytes)))
            .collect();
        let heads = format!(
            "{} (KV {}, {} wide)",
            number(shape.num_heads),
            number(shape.num_kv_heads),
            number(shape.head_dim)
        );
        let rows = [
            ("format", format_name(summary.format).to_owned()),
            ("architecture", summary.architecture.clone().unwrap_or_else(|| "?".to_owned())),
            ("parameters", units::count(summary.num_parameters)),
            ("layers", number(shape.num_layers)),
            ("hidden size", number(shape.hidden_size)),
            ("heads", heads),
            ("vocabulary", number(summary.vocab_size)),
            ("context", number(summary.context_length)),
            ("quantisation", summary.quantization.clone().unwrap_or_else(|| "none".to_owned())),
            ("tensors", format!("{} ({})", summary.num_tensors, kept.join(", "))),
            ("files", format!("{} ({})", summary.num_files, units::bytes(summary.file_bytes))),
            ("tokenizer", self.tokenizer.clone().unwrap_or_else(|| "none".to_owned())),
            ("chat template", if self.has_chat_template { "yes" } else { "no" }.to_owned()),
        ];
        write_rows(f, &rows)
    }

    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let budget = &self.memory;
        let bytes = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), units::bytes);
        let kept = match budget.weights_kept_as {
            KeptAs::Stored => "as stored",
            KeptAs::F32 => "f32",
        };
        let length = budget.max_model_len.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let verdict = match budget.fits() {
            Some(true) => ", enough",
            Some(false) => ", too little: lower --max-num-seqs, --max-model-len or --kv-cache-memory",
            None => "",
        };
        let rows = [
            ("weights", format!("{} ({kept})", units::bytes(budget.weight_bytes))),
            (
                "KV cache",
                format!(
                    "{} ({} a token, up to {} sequences of {length})",
                    bytes(budget.kv_bytes),
                    bytes(budget.kv_bytes_per_token),
                    budget.max_num_seqs
                ),
            ),
            ("together", bytes(budget.total_bytes)),
            ("available", format!("{}{verdict}", bytes(budget.available_bytes))),
        ];
        write_rows(f, &rows)
    }
}

fn write_rows(f: &mut fmt::Formatter<'_>, rows: &[(&str, String)]) -> fmt::Result {
    rows.iter().try_for_each(|(name, value)| writeln!(f, "{name:<15}{value}"))
}

#[cfg(test)]
pub(super) mod test_model {
    use std::path::Path;

    use serde_json::json;

    pub(crate) const PARAMETERS: u64 = 64 * 16 + 64;

    /// A folder with two tensors and a configuration, and no tokenizer.
    pub(crate) fn write(dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        let config = json!({
            "model_type": "test", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 128, "vocab_size": 64, "torch_dtype": "bfloat16"
        });
        std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let header = json!({
            "model.embed_tokens.weight": { "dtype": "BF16", "shape": [64, 16], "data_offsets": [0, 2048] },
            "model.norm.weight": { "dtype": "F32", "shape": [64], "data_offsets": [2048, 2304] }
        })
        .to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + 2304, 0);
        std::fs::write(dir.join("model.safetensors"), bytes).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use troupe_config::{Config, Sources};

    use super::*;

    fn inspection(available: Option<u64>) -> Inspection {
        let dir = tempfile::tempdir().unwrap();
        test_model::write(dir.path());
        let files = ModelFiles::open(dir.path()).unwrap();
        Inspection::of(&files, &Config::load(Sources::default()).unwrap().engine, available)
    }

    #[test]
    fn json_is_flat_and_whole() {
        let json = serde_json::to_value(inspection(Some(1 << 30))).unwrap();
        assert_eq!(json["num_parameters"], test_model::PARAMETERS);
        assert_eq!(
            (&json["num_layers"], &json["num_kv_heads"], &json["head_dim"]),
            (&2.into(), &2.into(), &4.into())
        );
        assert_eq!(json["bytes_by_format"], serde_json::json!({ "BF16": 2048, "F32": 256 }));
        assert!(json["tokenizer"].is_null());
        // 2 · 2 layers · 2 heads · 4 halves, for 8 sequences of 128 tokens.
        assert_eq!(json["memory"]["kv_bytes"], 2 * 2 * 2 * 4 * 2 * 8 * 128);
        assert_eq!(json["memory"]["weight_bytes"], 2048 + 256);
    }

    #[test]
    fn the_page_says_whether_it_fits() {
        let page = inspection(Some(1 << 30)).to_string();
        assert!(page.contains("\navailable      1.0 GiB, enough\n"), "{page}");
        assert!(page.contains("\nheads          4 (KV 2, 4 wide)\n"), "{page}");
        let page = inspection(Some(1000)).to_string();
        assert!(page.contains("\navailable      1000 B, too little: lower --max-num-seqs"), "{page}");
        assert!(inspection(None).to_string().contains("\navailable      ?\n"));
    }
}
