//! What the bytes of a block depend on, beside its tokens.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use mlx_sys::Device;
use sha2::{Digest, Sha256};
use troupe_model_files::ModelFiles;

use crate::budget::Place;
use crate::error::Result;
use crate::kv::CacheKind;
use crate::load::Storage;

use super::StoreError;

/// What is loaded, and how.
#[derive(Clone, Copy)]
pub struct Basis<'a> {
    /// The model's files.
    pub files: &'a ModelFiles,
    /// How weights are kept and activations treated.
    pub storage: Storage,
    /// What each layer keeps.
    pub kinds: &'a [CacheKind],
    /// Where and in which type.
    pub place: Place,
    /// Tokens of a block.
    pub block_size: u32,
}

/// Equal for two runs only if both compute the same bytes for a block, and lay them out alike: a block that an earlier
/// run computed is then bit for bit what this one would compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Of the model's files: 64 hexadecimal digits.
    model: String,
    /// Of all.
    whole: [u8; 32],
}

impl Fingerprint {
    /// Reads a few pages of each tensor, and the running program as a whole.
    ///
    /// # Errors
    /// If the program cannot be read, or a device has no name.
    pub fn of(basis: &Basis<'_>) -> Result<Self> {
        Ok(Self::on(basis, &Computer::this(basis.place.device)?))
    }

    fn on(basis: &Basis<'_>, computer: &Computer) -> Self {
        let model = basis.files.fingerprint();
        // Debug's words change with the program at most, which is a part.
        let parts: [&dyn fmt::Debug; 10] = [
            &model,
            &basis.storage,
            &basis.kinds,
            &basis.place,
            &basis.block_size,
            &computer.device,
            &computer.instruction_set,
            &computer.mlx,
            &computer.version,
            &computer.program,
        ];
        let mut hash = Sha256::new();
        for part in parts {
            let text = format!("{part:?}");
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Self { whole: hash.finalize().into(), model }
    }

    /// 64 hexadecimal digits of the model's files alone.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// One that only tests have.
    #[cfg(test)]
    pub(super) fn for_test(model: u8, whole: u8) -> Self {
        Self { model: format!("{model:02x}").repeat(32), whole: [whole; 32] }
    }

    /// Everything.
    pub fn whole(&self) -> &[u8; 32] {
        &self.whole
    }
}

/// What computes.
#[derive(Clone)]
struct Computer {
    /// The device's name.
    device: String,
    /// Of the CPU's kernels.
    instruction_set: String,
    /// MLX's version.
    mlx: String,
    /// Troupe's version.
    version: &'static str,
    /// Of the running executable: a kernel that was changed may round otherwise.
    program: [u8; 32],
}

impl Computer {
    fn this(device: Device) -> Result<Self> {
        Ok(Self {
            device: device.name()?,
            instruction_set: mlx_sys::instruction_set(),
            mlx: mlx_sys::version(),
            version: env!("CARGO_PKG_VERSION"),
            program: program()?,
        })
    }
}

/// A hash of the running executable.
fn program() -> Result<[u8; 32], StoreError> {
    let path = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    digest(&path).map_err(|source| StoreError::Unusable { path, source })
}

fn digest(path: &std::path::Path) -> io::Result<[u8; 32]> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use mlx_sys::{Activations, Dtype};
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::kv::KvBody;

    /// A folder of one tensor.
    fn folder(config: &Value, numbers: [f32; 4]) -> TempDir {
        let folder = TempDir::new().unwrap();
        let header =
            json!({"model.embed_tokens.weight": {"dtype": "F32", "shape": [4, 1], "data_offsets": [0, 16]}});
        let (header, mut file) = (header.to_string(), Vec::new());
        file.extend((header.len() as u64).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(numbers.into_iter().flat_map(f32::to_le_bytes));
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
        folder
    }

    fn files(config: &Value, numbers: [f32; 4]) -> ModelFiles {
        ModelFiles::open(folder(config, numbers).path()).unwrap()
    }

    fn computer() -> Computer {
        let text = str::to_owned;
        Computer {
            device: text("d"),
            instruction_set: text("v3"),
            mlx: text("1"),
            version: "1",
            program: [1; 32],
        }
    }

    #[test]
    fn everything_that_a_blocks_bytes_depend_on_makes_a_difference() {
        let config = json!({"model_type": "llama", "vocab_size": 4});
        let model = files(&config, [1.0, 2.0, 3.0, 4.0]);
        let tuned = files(&config, [1.0, 2.0, 3.5, 4.0]);
        let other =
            files(&json!({"model_type": "llama", "vocab_size": 4, "rope_theta": 5}), [1.0, 2.0, 3.0, 4.0]);
        let layer = |num_heads, head_dim| CacheKind::FullAttention { num_heads, head_dim };
        let (one, two, wide, many) = ([layer(2, 8)], [layer(2, 8); 2], [layer(2, 16)], [layer(4, 8)]);
        let place = Place { device: Device::Cpu, dtype: Dtype::F16, body: KvBody::Paged };
        let storage = Storage::Kernels(Activations::Int16);
        let basis = Basis { files: &model, storage, kinds: &one, place, block_size: 32 };
        let on = |change: fn(&mut Computer)| {
            let mut computer = computer();
            change(&mut computer);
            Fingerprint::on(&basis, &computer)
        };
        let with = |basis: Basis<'_>| Fingerprint::on(&basis, &computer());
        let prints = [
            ("nothing", with(basis)),
            ("a tensor's content", with(Basis { files: &tuned, ..basis })),
            ("the configuration", with(Basis { files: &other, ..basis })),
            ("activations", with(Basis { storage: Storage::Kernels(Activations::Int8), ..basis })),
            ("weights as stored", with(Basis { storage: Storage::Stored(Dtype::F16), ..basis })),
            (
                "weights as stored, of another type",
                with(Basis { storage: Storage::Stored(Dtype::F32), ..basis }),
            ),
            ("weights of f32", with(Basis { storage: Storage::F32, ..basis })),
            ("layers", with(Basis { kinds: &two, ..basis })),
            ("heads", with(Basis { kinds: &many, ..basis })),
            ("dimensions", with(Basis { kinds: &wide, ..basis })),
            ("device", with(Basis { place: Place { device: Device::Gpu, ..place }, ..basis })),
            ("type of KV", with(Basis { place: Place { dtype: Dtype::I8, ..place }, ..basis })),
            (
                "type of KV of the same length",
                with(Basis { place: Place { dtype: Dtype::Bf16, ..place }, ..basis }),
            ),
            ("layout of KV", with(Basis { place: Place { body: KvBody::Stock, ..place }, ..basis })),
            ("tokens of a block", with(Basis { block_size: 16, ..basis })),
            ("the device's name", on(|computer| computer.device = "e".to_owned())),
            ("instruction set", on(|computer| computer.instruction_set = "v4".to_owned())),
            ("MLX", on(|computer| computer.mlx = "2".to_owned())),
            ("Troupe", on(|computer| computer.version = "2")),
            ("program", on(|computer| computer.program[31] ^= 1)),
        ];
        let mut seen = HashMap::new();
        for (change, print) in &prints {
            if let Some(earlier) = seen.insert(*print.whole(), change) {
                panic!("{change} makes no difference beside {earlier}");
            }
            let same_model = !matches!(*change, "a tensor's content" | "the configuration");
            assert_eq!(print.model() == prints[0].1.model(), same_model, "{change}");
        }
        assert_eq!(with(basis), prints[0].1);
    }

    #[test]
    fn it_stays_the_same_in_the_same_program_and_folder() {
        let config = json!({"model_type": "llama", "vocab_size": 4});
        let folder = folder(&config, [0.0; 4]);
        let print = || {
            let files = ModelFiles::open(folder.path()).unwrap();
            let place = Place { device: Device::Cpu, dtype: Dtype::F32, body: KvBody::Paged };
            let basis = Basis { files: &files, storage: Storage::F32, kinds: &[], place, block_size: 1 };
            Fingerprint::of(&basis).unwrap()
        };
        assert_eq!(print(), print());
        assert_eq!(print().model().len(), 64);
    }
}
