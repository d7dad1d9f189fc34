//! Weights from files into arrays, one module at a time, so that the host never holds more than a module twice.

use half::f16;
use mlx_sys::{Array, Device, Dtype, Element, Packing, Quantized, eval};
use troupe_model_files::{
    AffineSpec, Dtype as FileDtype, ModelFiles, OutputHead, TensorFormat, TensorView, to_affine, to_f32,
};
use troupe_protocol::{Activations, LoadRequest, WeightDtype};

use crate::error::{GpuError, Result};
use crate::fallback::WithoutKernel;
use crate::kv::KvBody;
use crate::layers::{Embedding, Linear, Matrix, Projections, RmsNorm};

/// Whether a linear layer has a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// It has.
    Present,
    /// It has not.
    Absent,
}

impl Bias {
    /// From a configuration's flag.
    pub fn from_flag(present: bool) -> Self {
        if present { Self::Present } else { Self::Absent }
    }
}

/// How weights are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// As in the file, computing in this type.
    Stored(Dtype),
    /// On the CPU: each in its own type, quantised ones repacked for our kernels, which treat activations so.
    /// Computing in f32.
    Kernels(mlx_sys::Activations),
    /// As f32, dequantised.
    F32,
}

impl Storage {
    /// What a request means on this device for these files.
    ///
    /// # Errors
    /// Activations for kernels that these weights do not go to.
    pub fn resolve(request: &LoadRequest, device: Device, files: &ModelFiles) -> Result<Self> {
        if let (WeightDtype::Auto, Device::Cpu) = (request.weights, device) {
            let activations = request.cpu.activations.unwrap_or(Activations::Int16);
            return Ok(Self::Kernels(kernel_activations(activations)));
        }
        let reason = match (device, request.weights) {
            (Device::Gpu, _) => "the model is computed on a GPU",
            (Device::Cpu, WeightDtype::F32) => "weights are kept as f32",
            (Device::Cpu, _) => "weights are computed with in the type of the file",
        };
        refuse_activations(request.cpu.activations, reason)?;
        Ok(match request.weights {
            WeightDtype::F32 => Self::F32,
            WeightDtype::Auto | WeightDtype::Stored => Self::Stored(stored_dtype(files)),
        })
    }

    /// Type in which hidden states are computed.
    pub fn compute_dtype(self) -> Dtype {
        match self {
            Self::Stored(dtype) => dtype,
            Self::Kernels(_) | Self::F32 => Dtype::F32,
        }
    }

    /// Who attends on this device. Weights as stored are MLX's own road all along.
    pub fn kv_body(self, device: Device) -> KvBody {
        match (self, device) {
            (Self::Kernels(_) | Self::F32, Device::Cpu) => KvBody::Paged,
            (Self::Stored(_), _) | (_, Device::Gpu) => KvBody::Stock,
        }
    }

    /// Type in which keys and values are kept when nobody asks for one. Attention by our kernels is bound by reading
    /// them, so they are halves; but for a reference, which is exact.
    pub fn kv_dtype(self) -> Dtype {
        match self {
            Self::Kernels(_) => Dtype::F16,
            Self::Stored(_) | Self::F32 => self.compute_dtype(),
        }
    }
}

fn kernel_activations(activations: Activations) -> mlx_sys::Activations {
    match activations {
        Activations::Int8 => mlx_sys::Activations::Int8,
        Activations::Int16 => mlx_sys::Activations::Int16,
        Activations::F32 => mlx_sys::Activations::F32,
    }
}

/// An option that would change nothing is an error of whoever set it.
fn refuse_activations(set: Option<Activations>, reason: &'static str) -> Result<()> {
    let activations = match set {
        None => return Ok(()),
        Some(Activations::Int8) => "int8",
        Some(Activations::Int16) => "int16",
        Some(Activations::F32) => "f32",
    };
    Err(GpuError::ActivationsUnused { activations, reason })
}

/// The floating-point type that takes most bytes in the files; f16, the type of its scales, for a GGUF file's blocks.
fn stored_dtype(files: &ModelFiles) -> Dtype {
    let mut bytes = [(Dtype::F16, 0), (Dtype::Bf16, 0), (Dtype::F32, 0)];
    for tensor in files.tensors() {
        let dtype = match tensor.format() {
            TensorFormat::Blocks(_) | TensorFormat::Dense(FileDtype::F16) => Dtype::F16,
            TensorFormat::Dense(FileDtype::BF16) => Dtype::Bf16,
            TensorFormat::Dense(FileDtype::F32 | FileDtype::F64) => Dtype::F32,
            TensorFormat::Dense(_) => continue,
        };
        bytes.iter_mut().filter(|(other, _)| *other == dtype).for_each(|(_, sum)| *sum += tensor.num_bytes());
    }
    bytes.iter().max_by_key(|(_, sum)| *sum).map_or(Dtype::F32, |(dtype, _)| *dtype)
}

/// Reads weights for a family, checking every shape against what the family's configuration asks for.
pub struct Loader<'a> {
    files: &'a ModelFiles,
    storage: Storage,
    /// Called with tensors done and tensors in all.
    progress: &'a mut dyn FnMut(u32, u32),
    done: u32,
    total: u32,
    bytes: u64,
    /// Matrices that went to the kernels for quantised weights.
    num_packed: u32,
    without_kernel: WithoutKernel,
}

impl<'a> Loader<'a> {
    /// A loader over open files.
    pub fn new(files: &'a ModelFiles, storage: Storage, progress: &'a mut dyn FnMut(u32, u32)) -> Self {
        let total = files.tensor_names().count() as u32;
        Self {
            files,
            storage,
            progress,
            done: 0,
            total,
            bytes: 0,
            num_packed: 0,
            without_kernel: WithoutKernel::default(),
        }
    }

    /// Bytes of the arrays made so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks, once everything is loaded, that an option for quantised weights met some.
    ///
    /// # Errors
    /// `activations` that are set, without a matrix that they are for.
    pub fn finish(&self, activations: Option<Activations>) -> Result<()> {
        if self.num_packed > 0 {
            return Ok(());
        }
        refuse_activations(activations, "the model has no quantised weights that a kernel takes")
    }

    /// A finished matrix in the form in which products are fastest.
    fn pack(&mut self, matrix: Matrix) -> Result<Matrix> {
        let Storage::Kernels(activations) = self.storage else { return Ok(matrix) };
        let matrix = matrix.packed(activations)?;
        match &matrix {
            Matrix::Packed(_) => self.num_packed += 1,
            Matrix::Quantized(quantized) => self.without_kernel.tell(quantized),
            Matrix::Dense(_) | Matrix::Panels(_) => {}
        }
        Ok(matrix)
    }

    /// Where the output head's weights are.
    ///
    /// # Errors
    /// If they are nowhere.
    pub fn output_head(&self) -> Result<OutputHead> {
        Ok(self.files.output_head()?)
    }

    /// The embedding `module` of [vocab, hidden].
    ///
    /// # Errors
    /// Missing, misshapen or unusable tensors.
    pub fn embedding(&mut self, module: &str, vocab: usize, hidden: usize) -> Result<Embedding> {
        let matrix = self.matrix(module, [vocab, hidden])?;
        let matrix = self.pack(matrix)?;
        self.bytes += matrix.nbytes();
        Ok(Embedding { matrix, dtype: self.storage.compute_dtype() })
    }

    /// The linear layer `module` of [outputs, inputs].
    ///
    /// # Errors
    /// As [`Self::embedding`].
    pub fn linear(&mut self, module: &str, outputs: usize, inputs: usize, bias: Bias) -> Result<Linear> {
        let Linear { matrix, bias } = self.unpacked(module, outputs, inputs, bias)?;
        let matrix = self.pack(matrix)?;
        self.bytes += matrix.nbytes();
        Ok(Linear { matrix, bias })
    }

    /// A layer whose matrix can still be stacked with others.
    fn unpacked(&mut self, module: &str, outputs: usize, inputs: usize, bias: Bias) -> Result<Linear> {
        let matrix = self.matrix(module, [outputs, inputs])?;
        let bias = match bias {
            Bias::Present => Some(self.vector(&format!("{module}.bias"), outputs)?),
            Bias::Absent => None,
        };
        Ok(Linear { matrix, bias })
    }

    /// Linear layers of the same input: names and outputs of each.
    ///
    /// # Errors
    /// As [`Self::embedding`].
    pub fn projections(
        &mut self,
        layers: &[(String, usize)],
        inputs: usize,
        bias: Bias,
    ) -> Result<Projections> {
        let widths: Vec<usize> = layers.iter().map(|&(_, outputs)| outputs).collect();
        let layers = layers.iter().map(|(module, outputs)| self.unpacked(module, *outputs, inputs, bias));
        let stacked = Projections::new(layers.collect::<Result<_>>()?, &widths)?;
        let projections = stacked.map_matrices(|matrix| self.pack(matrix))?;
        self.bytes += projections.nbytes();
        Ok(projections)
    }

    /// The norm `module` of [hidden].
    ///
    /// # Errors
    /// As [`Self::embedding`].
    pub fn rms_norm(&mut self, module: &str, hidden: usize, eps: f32) -> Result<RmsNorm> {
        Ok(RmsNorm { weight: self.vector(&format!("{module}.weight"), hidden)?, eps })
    }

    fn step(&mut self) {
        self.done += 1;
        (self.progress)(self.done, self.total);
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Array> {
        let view = self.files.tensor(name)?;
        expect_shape(&view, &[len])?;
        let array = Array::from_vec(to_f32(&view)?, &[len as i32])?.astype(self.storage.compute_dtype())?;
        eval(&[&array])?;
        self.bytes += array.nbytes() as u64;
        self.step();
        Ok(array)
    }

    fn matrix(&mut self, module: &str, shape: [usize; 2]) -> Result<Matrix> {
        if let Some(spec) = self.files.affine(module) {
            return self.affine_matrix(module, shape, spec);
        }
        let view = self.files.tensor(&format!("{module}.weight"))?;
        expect_shape(&view, &shape)?;
        let matrix = match (self.storage, view.format()) {
            (Storage::Stored(_) | Storage::Kernels(_), TensorFormat::Blocks(_)) => {
                Matrix::Quantized(blocks(&view, shape)?)
            }
            (Storage::Kernels(_), TensorFormat::Dense(FileDtype::F16 | FileDtype::BF16 | FileDtype::F32)) => {
                dense(stored(&view)?)?
            }
            (
                Storage::Stored(dtype),
                TensorFormat::Dense(FileDtype::F16 | FileDtype::BF16 | FileDtype::F32),
            ) => dense(stored(&view)?.astype(dtype)?)?,
            (Storage::F32, TensorFormat::Blocks(_)) | (_, TensorFormat::Dense(_)) => {
                dense(Array::from_vec(to_f32(&view)?, &dims(&shape))?.astype(self.storage.compute_dtype())?)?
            }
        };
        self.step();
        Ok(matrix)
    }

    /// A module of an MLX-quantised folder: `weight` (packed), `scales` and `biases`.
    fn affine_matrix(&mut self, module: &str, shape: [usize; 2], spec: AffineSpec) -> Result<Matrix> {
        let [rows, columns] = shape;
        let weight = self.files.tensor(&format!("{module}.weight"))?;
        let groups = columns / spec.group_size();
        expect_shape(&weight, &[rows, columns * spec.bits() as usize / 32])?;
        let mut parts = vec![stored(&weight)?];
        for part in ["scales", "biases"] {
            let view = self.files.tensor(&format!("{module}.{part}"))?;
            expect_shape(&view, &[rows, groups])?;
            parts.push(stored(&view)?);
            self.step();
        }
        self.step();
        let quantized = Quantized {
            packed: parts.swap_remove(0),
            scales: parts.swap_remove(1),
            biases: parts.swap_remove(0),
            packing: packing(spec),
        };
        match self.storage {
            Storage::Stored(_) | Storage::Kernels(_) => Ok(Matrix::Quantized(quantized)),
            Storage::F32 => dense(quantized.dequantize(Dtype::F32)?),
        }
    }
}

fn dense(array: Array) -> Result<Matrix> {
    eval(&[&array])?;
    Ok(Matrix::Dense(array))
}

/// A GGUF file's blocks in MLX's packed form.
fn blocks(view: &TensorView<'_>, [rows, columns]: [usize; 2]) -> Result<Quantized> {
    let affine = to_affine(view)?;
    let packing = packing(affine.spec);
    let (words, groups) = (columns * affine.spec.bits() as usize / 32, columns / affine.spec.group_size());
    let halves = |values: Vec<f16>| -> Result<Array> {
        let bytes: Vec<u8> = values.into_iter().flat_map(f16::to_le_bytes).collect();
        Ok(Array::from_bytes(&bytes, &dims(&[rows, groups]), Dtype::F16)?)
    };
    Ok(Quantized {
        packed: Array::from_vec(affine.packed, &dims(&[rows, words]))?,
        scales: halves(affine.scales)?,
        biases: halves(affine.biases)?,
        packing,
    })
}

fn packing(spec: AffineSpec) -> Packing {
    Packing { group_size: spec.group_size() as i32, bits: spec.bits() as i32 }
}

/// A dense tensor as it is in the file.
fn stored(view: &TensorView<'_>) -> Result<Array> {
    let dtype = match view.format() {
        TensorFormat::Dense(FileDtype::F16) => Dtype::F16,
        TensorFormat::Dense(FileDtype::BF16) => Dtype::Bf16,
        TensorFormat::Dense(FileDtype::F32) => Dtype::F32,
        TensorFormat::Dense(FileDtype::U32) => u32::DTYPE,
        other => {
            let name = view.name().to_owned();
            return Err(GpuError::Type { name, found: other.to_string(), role: "weights" });
        }
    };
    Ok(Array::from_bytes(&view.bytes(), &dims(view.shape()), dtype)?)
}

fn dims(shape: &[usize]) -> Vec<i32> {
    // Every size of a configuration is below 2^24, and shapes were compared with it.
    shape.iter().map(|&dim| dim as i32).collect()
}

fn expect_shape(view: &TensorView<'_>, wanted: &[usize]) -> Result<()> {
    if view.shape() == wanted {
        return Ok(());
    }
    Err(GpuError::Shape {
        name: view.name().to_owned(),
        found: view.shape().to_vec(),
        wanted: wanted.to_vec(),
    })
}
