//! GGUF files, versions 2 and 3, little-endian: one file with weights, configuration, tokenizer and templates.

mod architecture;
mod config;
mod cursor;
mod directory;
mod metadata;
mod tokenizer;

use std::path::Path;

use architecture::{Architecture, Rotary, RotaryHeads, TranslatedName};
use config::{Dimensions, FromTensors, Keys};
use cursor::Cursor;
use metadata::Metadata;

use crate::error::{ModelFileError, Result};
use crate::files::{ModelFiles, ModelFormat, TokenizerOrigin};
use crate::json::JsonFile;
use crate::mapped::MappedFile;
use crate::prompt::Prompting;
use crate::tensor::{RowOrder, TensorEntry, TensorView};
use crate::tokenizer::GgufTokenizer;
use crate::weights::Weights;

/// The first four bytes of a GGUF file.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";
const ROPE_FREQS: &str = "rope_freqs.weight";
const ROPE_FACTORS: [&str; 2] = ["rope_factors_short.weight", "rope_factors_long.weight"];

/// Opens a GGUF file and checks all of it but the numbers in its tensors.
pub(crate) fn open(path: &Path) -> Result<ModelFiles> {
    let file = MappedFile::open(path)?;
    let mut cursor = Cursor::new(path, file.bytes());
    let (tensor_count, pair_count) = preamble(&mut cursor)?;
    let metadata = Metadata::read(&mut cursor, pair_count)?;
    refuse_split(&metadata)?;
    let entries = directory::read(&mut cursor, tensor_count, &metadata, file.bytes().len())?;

    let architecture = required_string(&metadata, "general.architecture")?;
    let architecture = Architecture::find(path, architecture)?;
    let keys = Keys::new(&metadata, architecture);
    let dimensions = config::dimensions(&keys)?;
    let (rope, entries) = split_rope(entries);
    let entries = rename(path, entries, architecture, &dimensions)?;
    let tokenizer = tokenizer::tokenizer(&metadata, file.bytes())?;
    let from_tensors = from_tensors(&file, &entries, &rope, &dimensions)?;
    refuse_large_vocabulary(path, tokenizer.as_ref(), from_tensors.vocab_size)?;
    let config = config::config(&keys, &dimensions, &from_tensors)?;
    let prompting = Prompting {
        templates: tokenizer::chat_templates(&metadata)?,
        special_tokens: tokenizer.as_ref().map(tokenizer::special_tokens).unwrap_or_default(),
        generation: tokenizer.as_ref().map(tokenizer::generation_defaults).unwrap_or_default(),
    };
    let mut weights = Weights::default();
    weights.add(file, entries)?;
    Ok(ModelFiles {
        path: path.into(),
        format: ModelFormat::Gguf,
        config: JsonFile { path: path.into(), map: config },
        weights,
        quantization: None,
        tokenizer: TokenizerOrigin::Gguf(tokenizer),
        prompting,
    })
}

/// Magic, version and the two counts.
fn preamble(cursor: &mut Cursor<'_>) -> Result<(u64, u64)> {
    let path = cursor.path;
    let malformed = |problem: &str| ModelFileError::malformed(path, "magic number", problem);
    match &cursor.array::<4>("the magic number")? {
        magic if *magic == MAGIC => {}
        b"FUGG" => {
            return Err(malformed("big-endian GGUF files are not supported; use the little-endian file"));
        }
        _ => return Err(malformed("not a GGUF file")),
    }
    match cursor.u32("the version")? {
        2 | 3 => {}
        version if version.swap_bytes() <= 3 => {
            return Err(malformed("big-endian GGUF files are not supported; use the little-endian file"));
        }
        version => {
            let problem = format!("version {version} is not supported, 2 and 3 are; convert the model again");
            return Err(ModelFileError::malformed(path, "version", problem));
        }
    }
    Ok((directory::count(cursor)?, Metadata::count(cursor)?))
}

fn required_string<'a>(metadata: &'a Metadata, key: &str) -> Result<&'a str> {
    metadata.string(key)?.ok_or_else(|| ModelFileError::key(metadata.path(), key, "missing"))
}

fn refuse_split(metadata: &Metadata) -> Result<()> {
    const KEY: &str = "split.count";
    match metadata.unsigned(KEY)? {
        Some(count) if count > 1 => {
            let problem = format!("the model is split over {count} files; merge them into one");
            Err(ModelFileError::key(metadata.path(), KEY, problem))
        }
        _ => Ok(()),
    }
}

/// Takes out the tensors that hold rotary factors: they become part of the configuration.
fn split_rope(entries: Vec<TensorEntry>) -> (Vec<TensorEntry>, Vec<TensorEntry>) {
    entries
        .into_iter()
        .partition(|entry| entry.name == ROPE_FREQS || ROPE_FACTORS.contains(&entry.name.as_str()))
}

/// Gives each entry its Hugging Face name and row order.
fn rename(
    path: &Path,
    entries: Vec<TensorEntry>,
    architecture: &Architecture,
    dimensions: &Dimensions,
) -> Result<Vec<TensorEntry>> {
    let mut renamed = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let Some(name) = architecture::translate(&entry.name) else {
            let problem = format!("not a tensor of architecture `{}` as it is read here", architecture.name);
            return Err(ModelFileError::tensor(path, entry.name, problem));
        };
        if name.layer.is_some_and(|layer| layer >= dimensions.num_layers) {
            let problem = format!("the model has {} blocks", dimensions.num_layers);
            return Err(ModelFileError::tensor(path, entry.name, problem));
        }
        if architecture.rotary == Rotary::Interleaved {
            entry.row_order = row_order(path, &entry, &name, dimensions)?;
        }
        entry.name = name.hf_name;
        renamed.push(entry);
    }
    Ok(renamed)
}

/// The order of the rows of a q or k projection, which have to be whole heads.
fn row_order(
    path: &Path,
    entry: &TensorEntry,
    name: &TranslatedName,
    dimensions: &Dimensions,
) -> Result<RowOrder> {
    let heads = match name.rotary_heads {
        None => return Ok(RowOrder::AsStored),
        Some(RotaryHeads::Query) => dimensions.num_heads,
        Some(RotaryHeads::Key) => dimensions.num_kv_heads,
    };
    let rows = entry.shape.first().copied().unwrap_or(0);
    let expected = heads.checked_mul(dimensions.head_dim);
    if expected != Some(rows as u64) {
        let problem =
            format!("has {rows} rows, {heads} heads of {} need another number", dimensions.head_dim);
        return Err(ModelFileError::tensor(path, &entry.name, problem));
    }
    Ok(RowOrder::Interleaved { head_rows: dimensions.head_dim as usize })
}

fn from_tensors(
    file: &MappedFile,
    entries: &[TensorEntry],
    rope: &[TensorEntry],
    dimensions: &Dimensions,
) -> Result<FromTensors> {
    let find = |name: &str| entries.iter().find(|entry| entry.name == name);
    let embedding = find("model.embed_tokens.weight")
        .ok_or_else(|| ModelFileError::tensor(file.path(), "token_embd.weight", "missing"))?;
    if embedding.shape.len() != 2 || embedding.shape[1] as u64 != dimensions.hidden_size {
        let problem = format!("shape {:?}, expected [tokens, {}]", embedding.shape, dimensions.hidden_size);
        return Err(ModelFileError::tensor(file.path(), "token_embd.weight", problem));
    }
    let factors = |name: &str| -> Result<Option<Vec<f32>>> {
        let Some(entry) = rope.iter().find(|entry| entry.name == name) else { return Ok(None) };
        rope_factors(file, entry, dimensions).map(Some)
    };
    let [short, long] = ROPE_FACTORS;
    Ok(FromTensors {
        vocab_size: embedding.shape[0],
        tied_head: find("lm_head.weight").is_none(),
        attention_bias: find("model.layers.0.self_attn.q_proj.bias").is_some(),
        mlp_bias: find("model.layers.0.mlp.up_proj.bias").is_some(),
        rope_freqs: factors(ROPE_FREQS)?,
        rope_factors: factors(short)?.zip(factors(long)?),
    })
}

/// Positive divisors, one for each pair of a head's dimensions.
fn rope_factors(file: &MappedFile, entry: &TensorEntry, dimensions: &Dimensions) -> Result<Vec<f32>> {
    let refuse = |problem: String| Err(ModelFileError::tensor(file.path(), &entry.name, problem));
    let pairs = dimensions.head_dim / 2;
    let factors = crate::blocks::to_f32(&TensorView::new(entry, file))?;
    if entry.shape.len() != 1 || factors.len() as u64 > pairs {
        return refuse(format!("shape {:?}, expected at most {pairs} numbers", entry.shape));
    }
    if factors.iter().any(|factor| !factor.is_finite() || *factor <= 0.0) {
        return refuse("a factor is not a positive number".into());
    }
    Ok(factors)
}

/// Every id that the tokenizer can give has a row in the embedding.
fn refuse_large_vocabulary(path: &Path, tokenizer: Option<&GgufTokenizer>, vocab_size: usize) -> Result<()> {
    match tokenizer.map(|tokenizer| tokenizer.tokens.len()) {
        Some(tokens) if tokens > vocab_size => {
            let problem = format!("has {vocab_size} rows for {tokens} tokens");
            Err(ModelFileError::tensor(path, "token_embd.weight", problem))
        }
        _ => Ok(()),
    }
}
