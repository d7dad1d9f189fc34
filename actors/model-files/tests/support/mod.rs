//! Writers of small model files, valid and not, and the place of the real one.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use troupe_model_files::ModelFiles;

/// The smallest hidden size whose rows are whole blocks.
pub(crate) const HIDDEN: u64 = 32;
pub(crate) const VOCAB: u64 = 4;

/// Writes a GGUF file by parts, in whatever wrong way a test asks for.
pub(crate) struct GgufWriter {
    pub(crate) version: u32,
    pub(crate) alignment: u64,
    pairs: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

impl GgufWriter {
    pub(crate) fn empty() -> Self {
        Self { version: 3, alignment: 32, pairs: Vec::new(), tensors: Vec::new() }
    }

    /// A llama of one block, two query heads of 16 over one key head, with a tokenizer and a template.
    pub(crate) fn tiny() -> Self {
        let mut file = Self::empty();
        file.text("general.architecture", "llama");
        for (key, number) in [
            ("block_count", 1),
            ("context_length", 64),
            ("embedding_length", HIDDEN as u32),
            ("feed_forward_length", 64),
            ("attention.head_count", 2),
            ("attention.head_count_kv", 1),
        ] {
            file.u32(&format!("llama.{key}"), number);
        }
        file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        file.text("tokenizer.ggml.model", "gpt2");
        file.texts("tokenizer.ggml.tokens", &["<s>", "</s>", "a", "b"]);
        file.texts("tokenizer.ggml.merges", &["a b"]);
        file.u32("tokenizer.ggml.bos_token_id", 0);
        file.u32("tokenizer.ggml.eos_token_id", 1);
        file.text("tokenizer.chat_template", "{{ messages }}");
        file.tensor("token_embd.weight", &[HIDDEN, VOCAB], 3, &patterned(VOCAB as usize * 20));
        file.tensor("output_norm.weight", &[HIDDEN], 0, &patterned(HIDDEN as usize * 4));
        file.tensor("blk.0.attn_q.weight", &[HIDDEN, 32], 2, &patterned(32 * 18));
        file.tensor("blk.0.attn_k.weight", &[HIDDEN, 16], 8, &patterned(16 * 34));
        file
    }

    pub(crate) fn pair(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(value);
        self.pairs.retain(|(earlier, _)| earlier != key);
        self.pairs.push((key.to_owned(), bytes));
        self
    }

    pub(crate) fn without(&mut self, key: &str) -> &mut Self {
        self.pairs.retain(|(earlier, _)| earlier != key);
        self
    }

    pub(crate) fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.pair(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.pair(key, 6, &value.to_le_bytes())
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.pair(key, 8, &string(value))
    }

    pub(crate) fn texts(&mut self, key: &str, values: &[&str]) -> &mut Self {
        let mut bytes = 8u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| bytes.extend(string(value)));
        self.pair(key, 9, &bytes)
    }

    /// Dimensions innermost first, as the file spells them.
    pub(crate) fn tensor(&mut self, name: &str, dims: &[u64], kind: u32, data: &[u8]) -> &mut Self {
        self.tensors.retain(|(earlier, ..)| earlier != name);
        self.tensors.push((name.to_owned(), dims.to_vec(), kind, data.to_vec()));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.pairs.len() as u64).to_le_bytes());
        for (key, value) in &self.pairs {
            out.extend(string(key));
            out.extend(value);
        }
        let mut data = Vec::new();
        for (name, dims, kind, bytes) in &self.tensors {
            out.extend(string(name));
            out.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(self.alignment as usize), 0);
        }
        out.resize(out.len().next_multiple_of(self.alignment as usize), 0);
        out.extend(data);
        out
    }

    pub(crate) fn open(&self) -> Result<ModelFiles, String> {
        open_bytes(&self.bytes(), "model.gguf")
    }
}

pub(crate) fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Bytes that differ from their neighbours, and whose 16-bit pairs are small finite halves.
pub(crate) fn patterned(len: usize) -> Vec<u8> {
    (0..len).map(|at| if at % 2 == 1 { 0x20 + (at % 13) as u8 } else { (at * 37) as u8 }).collect()
}

/// A safetensors file: names with type, shape and bytes, laid one after the other.
pub(crate) fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    safetensors_raw(&Value::Object(header).to_string(), &data)
}

/// A safetensors file with any header.
pub(crate) fn safetensors_raw(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A folder with these files, gone when it is dropped.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary folder"));
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        folder
    }

    /// A llama with one embedding, whose configuration also has these keys.
    pub(crate) fn tiny(extra: Value) -> Self {
        let mut config = json!({"model_type": "llama", "vocab_size": VOCAB});
        for (key, value) in extra.as_object().expect("an object") {
            config[key] = value.clone();
        }
        let weights = safetensors(&[("model.embed_tokens.weight", "F32", &[4, 2], patterned(32))]);
        Self::new(&[("config.json", config.to_string().as_bytes()), ("model.safetensors", &weights)])
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> &Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, bytes).expect("a written file");
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn open(&self) -> Result<ModelFiles, String> {
        ModelFiles::open(self.path()).map_err(|error| error.to_string())
    }
}

/// Opens a file of these bytes. The map stays valid after the folder is gone.
pub(crate) fn open_bytes(bytes: &[u8], name: &str) -> Result<ModelFiles, String> {
    let folder = Folder::new(&[(name, bytes)]);
    ModelFiles::open(folder.path().join(name)).map_err(|error| error.to_string())
}

/// Reads everything that an open model offers: no part of it may panic, whatever the file.
pub(crate) fn read_everything(model: &ModelFiles) {
    for view in model.tensors() {
        assert_eq!(view.bytes().len(), view.num_bytes());
        if let Ok(values) = troupe_model_files::to_f32(&view) {
            assert_eq!(values.len(), view.num_elements());
        }
        if let Ok(affine) = troupe_model_files::to_affine(&view) {
            assert_eq!(affine.scales.len() * affine.spec.group_size(), view.num_elements());
        }
    }
    assert_eq!(model.fingerprint().len(), 64);
    assert_eq!(model.summary().num_tensors, model.tensor_names().count());
    let _ = (model.tokenizer(), model.output_head(), model.model_type());
    let _ = (model.chat_templates(), model.special_tokens(), model.generation_defaults());
}

/// The default model, which `make models` fetches.
pub(crate) fn real_gguf() -> PathBuf {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let path = models.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.exists(), "{} is missing: run `make models`", path.display());
    path
}

/// Asserts that the error holds each part.
#[track_caller]
pub(crate) fn assert_refused<T>(result: Result<T, String>, parts: &[&str]) {
    let error = result.err().expect("refused");
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}
