//! Hugging Face model folders, plain or quantised by MLX.
//!
//! Nothing in a folder is ever run. `model_file`, by which a checkpoint names Python to load the model with, is
//! refused. `auto_map` is ignored: it names classes for `trust_remote_code`, stands in many configurations whose
//! `model_type` is native here, and a family that is not native is refused by its `model_type` anyway.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::error::{ModelFileError, Result};
use crate::files::{ModelFiles, ModelFormat, TokenizerOrigin};
use crate::folder_prompt;
use crate::json::JsonFile;
use crate::mapped::MappedFile;
use crate::prompt::{GenerationDefaults, Prompting};
use crate::quantization::{self, Quantization};
use crate::safetensors_file;
use crate::weights::Weights;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// The most files that one model may be split over.
const MAX_SHARDS: usize = 4096;

/// Opens a folder and checks all of it but the numbers in its tensors and the tokenizer.
pub(crate) fn open(folder: &Path) -> Result<ModelFiles> {
    let config_path = folder.join("config.json");
    let config = JsonFile::read(&config_path)?.ok_or(ModelFileError::Missing {
        path: config_path,
        hint: "a model folder needs it; was the download complete?",
    })?;
    const RUNS_CODE: &str = "model_file";
    if config.get(RUNS_CODE).is_some() {
        return Err(ModelFileError::RunsCode { path: config.path, key: RUNS_CODE });
    }
    let quantization = Quantization::from_config(&config)?;
    let weights = open_weights(folder)?;
    quantization::check_packed(&weights, quantization.as_ref())?;
    let tokenizer_config = JsonFile::read_or_empty(&folder.join("tokenizer_config.json"))?;
    let generation = JsonFile::read_or_empty(&folder.join("generation_config.json"))?;
    let generation = GenerationDefaults::from_json(&generation, &config)?;
    refuse_ids_outside(&config, &generation)?;
    let prompting = Prompting {
        templates: folder_prompt::chat_templates(folder, &tokenizer_config)?,
        special_tokens: folder_prompt::special_tokens(folder, &tokenizer_config)?,
        generation,
    };
    Ok(ModelFiles {
        path: folder.into(),
        format: ModelFormat::Safetensors,
        config,
        weights,
        quantization,
        tokenizer: TokenizerOrigin::Folder { tokenizer_config },
        prompting,
    })
}

/// A start or end token that the model has no embedding for is an error here, not an index out of bounds later.
fn refuse_ids_outside(config: &JsonFile, generation: &GenerationDefaults) -> Result<()> {
    let Some(vocab_size) = config.u32("vocab_size")? else { return Ok(()) };
    let named =
        [("bos_token_id", generation.bos_token_id.as_slice()), ("eos_token_id", &generation.eos_token_ids)];
    for (key, ids) in named {
        if let Some(id) = ids.iter().find(|&&id| id >= vocab_size) {
            let problem = format!("id {id} is outside the vocabulary of {vocab_size} tokens");
            return Err(ModelFileError::key(&config.path, key, problem));
        }
    }
    Ok(())
}

fn open_weights(folder: &Path) -> Result<Weights> {
    let index = match folder.join(SINGLE).exists() {
        true => None,
        false => JsonFile::read(&folder.join(INDEX))?,
    };
    let shards = match &index {
        Some(index) => indexed_shards(folder, index)?,
        None => unindexed_shards(folder)?,
    };
    let mut weights = Weights::default();
    for shard in shards {
        let file = MappedFile::open(&shard)?;
        let entries = safetensors_file::directory(&file)?;
        weights.add(file, entries)?;
    }
    if let Some(index) = &index {
        check_index(&weights, index)?;
    }
    Ok(weights)
}

/// `model.safetensors` alone, or else every `*.safetensors` in order of name.
fn unindexed_shards(folder: &Path) -> Result<Vec<PathBuf>> {
    let single = folder.join(SINGLE);
    if single.exists() {
        return Ok(vec![single]);
    }
    let io = |source| ModelFileError::io(folder, source);
    let mut shards = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            shards.push(path);
        }
        limit_shards(folder, shards.len())?;
    }
    if shards.is_empty() {
        let hint = match folder.join("pytorch_model.bin").exists() {
            true => {
                "pickled weights (pytorch_model.bin) can run code and are not read; convert them to safetensors"
            }
            false => "the folder holds no *.safetensors; was the download complete?",
        };
        return Err(ModelFileError::Missing { path: single, hint });
    }
    shards.sort();
    Ok(shards)
}

fn limit_shards(path: &Path, count: usize) -> Result<()> {
    if count <= MAX_SHARDS {
        return Ok(());
    }
    let (what, limit) = ("the count of weight files".into(), MAX_SHARDS as u64);
    Err(ModelFileError::OverLimit { path: path.into(), what, value: count as u64, limit })
}

/// The tensor → file pairs of an index.
fn weight_map(index: &JsonFile) -> Result<impl Iterator<Item = (&String, &str)>> {
    const KEY: &str = "weight_map";
    let map = match index.get(KEY) {
        Some(Value::Object(map)) => map,
        _ => {
            return Err(ModelFileError::key(
                &index.path,
                KEY,
                "expected an object of tensor names and file names",
            ));
        }
    };
    if let Some((tensor, file)) = map.iter().find(|(_, file)| !file.is_string()) {
        return Err(index.wrong(&format!("{KEY}.{tensor}"), "a file name", file));
    }
    Ok(map.iter().filter_map(|(tensor, file)| Some((tensor, file.as_str()?))))
}

/// The files that an index names, each a plain name of a file in the folder.
fn indexed_shards(folder: &Path, index: &JsonFile) -> Result<Vec<PathBuf>> {
    let names: BTreeSet<&str> = weight_map(index)?.map(|(_, file)| file).collect();
    limit_shards(&index.path, names.len())?;
    let mut shards = Vec::new();
    for name in names {
        let mut parts = Path::new(name).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            let problem = format!("`{name}` is not the name of a file in this folder");
            return Err(ModelFileError::key(&index.path, "weight_map", problem));
        }
        let path = folder.join(name);
        if !path.exists() {
            return Err(ModelFileError::Missing {
                path,
                hint: "the index names it; was the download complete?",
            });
        }
        shards.push(path);
    }
    Ok(shards)
}

/// Every tensor that the index names lies in the file that it names.
fn check_index(weights: &Weights, index: &JsonFile) -> Result<()> {
    for (tensor, file) in weight_map(index)? {
        let found = weights.get(tensor).and_then(|view| view.path().file_name());
        if found != Some(file.as_ref()) {
            let problem = format!("the index puts it in {file}, which does not hold it");
            return Err(ModelFileError::tensor(&index.path, tensor, problem));
        }
    }
    Ok(())
}
