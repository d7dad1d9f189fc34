//! Matrices and linear layers, dense or quantised.

use mlx_sys::{
    Activations, Around, Array, Columns, DensePanels, Dtype, Gate, Norm, PackedMatrix, Quantized,
    concatenate, eval,
};

use crate::error::Result;

/// A matrix of [outputs, inputs].
#[derive(Debug)]
pub enum Matrix {
    /// Plain numbers.
    Dense(Array),
    /// Groups of a row share a scale and a bias.
    Quantized(Quantized),
    /// The same in the form of the CPU's kernels.
    Packed(PackedMatrix),
    /// Plain numbers in the form of the CPU's kernels.
    Panels(DensePanels),
}

impl Matrix {
    /// Bytes that it takes.
    pub fn nbytes(&self) -> u64 {
        match self {
            Self::Dense(array) => array.nbytes() as u64,
            Self::Quantized(q) => (q.packed.nbytes() + q.scales.nbytes() + q.biases.nbytes()) as u64,
            Self::Packed(packed) => packed.nbytes() as u64,
            Self::Panels(panels) => panels.nbytes() as u64,
        }
    }

    /// Repacked for the CPU's kernels, where they take it; else as it is.
    ///
    /// # Errors
    /// If the parts of a quantised matrix do not fit each other.
    pub fn packed(self, activations: Activations) -> Result<Self> {
        Ok(match &self {
            Self::Dense(array) => DensePanels::from_rows(array)?.map_or(self, Self::Panels),
            Self::Quantized(quantized) => {
                PackedMatrix::from_affine(quantized, activations)?.map_or(self, Self::Packed)
            }
            Self::Packed(_) | Self::Panels(_) => self,
        })
    }

    /// `x` [T, inputs] times the transposed matrix, with what is `around` it: [T, outputs], or half as many if gated.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn project(&self, x: &Array, around: Around<'_>) -> Result<Array> {
        Ok(match self {
            Self::Dense(array) => x.project(array, around)?,
            Self::Quantized(quantized) => quantized.project(x, around)?,
            Self::Packed(packed) => packed.project(x, around)?,
            Self::Panels(panels) => panels.project(x, around)?,
        })
    }

    /// Rows `ids` [T] of the matrix, [T, inputs], in `dtype`.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn rows(&self, ids: &Array, dtype: Dtype) -> Result<Array> {
        Ok(match self {
            Self::Dense(array) => array.take(ids, 0)?.astype(dtype)?,
            Self::Quantized(q) => {
                let rows = Quantized {
                    packed: q.packed.take(ids, 0)?,
                    scales: q.scales.take(ids, 0)?,
                    biases: q.biases.take(ids, 0)?,
                    packing: q.packing,
                };
                rows.dequantize(dtype)?
            }
            Self::Packed(packed) => packed.rows(ids)?.astype(dtype)?,
            Self::Panels(panels) => panels.rows(ids)?.astype(dtype)?,
        })
    }

    /// Matrices under one another, if they are stored alike.
    fn stack(parts: &[&Self]) -> Result<Option<Self>> {
        let arrays = |read: fn(&Quantized) -> &Array| {
            let arrays: Vec<_> = parts.iter().filter_map(|part| part.quantized()).map(read).collect();
            concatenate(&arrays, 0)
        };
        let dense: Vec<&Array> = parts.iter().filter_map(|part| part.dense()).collect();
        if dense.len() == parts.len() && dense.windows(2).all(|pair| pair[0].dtype() == pair[1].dtype()) {
            let stacked = concatenate(&dense, 0)?;
            eval(&[&stacked])?;
            return Ok(Some(Self::Dense(stacked)));
        }
        let quantized: Vec<&Quantized> = parts.iter().filter_map(|part| part.quantized()).collect();
        if quantized.len() != parts.len()
            || quantized.windows(2).any(|pair| pair[0].packing != pair[1].packing)
        {
            return Ok(None);
        }
        let stacked = Quantized {
            packed: arrays(|q| &q.packed)?,
            scales: arrays(|q| &q.scales)?,
            biases: arrays(|q| &q.biases)?,
            packing: quantized[0].packing,
        };
        eval(&[&stacked.packed, &stacked.scales, &stacked.biases])?;
        Ok(Some(Self::Quantized(stacked)))
    }

    fn dense(&self) -> Option<&Array> {
        if let Self::Dense(array) = self { Some(array) } else { None }
    }

    fn quantized(&self) -> Option<&Quantized> {
        if let Self::Quantized(quantized) = self { Some(quantized) } else { None }
    }
}

/// A matrix and, perhaps, a bias [outputs].
#[derive(Debug)]
pub struct Linear {
    /// The matrix.
    pub matrix: Matrix,
    /// The bias.
    pub bias: Option<Array>,
}

impl Linear {
    /// `x` [T, inputs], with what is `around` the product besides the layer's own bias, to [T, outputs].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn forward(&self, x: &Array, around: Around<'_>) -> Result<Array> {
        self.matrix.project(x, Around { bias: self.bias.as_ref(), ..around })
    }
}

/// Several linear layers of the same input. Stored under one another where they are stored alike, so that one
/// product computes them all.
#[derive(Debug)]
pub enum Projections {
    /// One matrix, and where each layer's outputs begin, but for the first.
    Stacked(Linear, Vec<i32>),
    /// Each by itself.
    Separate(Vec<Linear>),
}

impl Projections {
    /// Stacks `layers`, whose outputs are `widths` wide.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn new(layers: Vec<Linear>, widths: &[usize]) -> Result<Self> {
        let biases: Vec<&Array> = layers.iter().filter_map(|layer| layer.bias.as_ref()).collect();
        if !biases.is_empty() && biases.len() != layers.len() {
            return Ok(Self::Separate(layers));
        }
        let matrices: Vec<&Matrix> = layers.iter().map(|layer| &layer.matrix).collect();
        let Some(matrix) = Matrix::stack(&matrices)? else { return Ok(Self::Separate(layers)) };
        let bias = if biases.is_empty() { None } else { Some(concatenate(&biases, 0)?) };
        let mut end = 0;
        let ends = widths.iter().map(|&width| {
            end += width as i32;
            end
        });
        let mut borders: Vec<i32> = ends.collect();
        borders.pop();
        Ok(Self::Stacked(Linear { matrix, bias }, borders))
    }

    /// The same layers, `change` done to each matrix.
    ///
    /// # Errors
    /// The first that `change` gives.
    pub fn map_matrices(self, mut change: impl FnMut(Matrix) -> Result<Matrix>) -> Result<Self> {
        let mut on = |linear: Linear| {
            Ok::<_, crate::error::GpuError>(Linear { matrix: change(linear.matrix)?, bias: linear.bias })
        };
        Ok(match self {
            Self::Stacked(linear, borders) => Self::Stacked(on(linear)?, borders),
            Self::Separate(layers) => Self::Separate(layers.into_iter().map(on).collect::<Result<_>>()?),
        })
    }

    /// Bytes of the matrices.
    pub fn nbytes(&self) -> u64 {
        match self {
            Self::Stacked(linear, _) => linear.matrix.nbytes(),
            Self::Separate(layers) => layers.iter().map(|layer| layer.matrix.nbytes()).sum(),
        }
    }

    /// The layers' outputs for the normalised rows of `x` [T, inputs].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn forward(&self, x: &Array, norm: Norm<'_>) -> Result<Outputs<'_>> {
        match self {
            Self::Stacked(linear, borders) => {
                let around = Around { norm: Some(norm), ..Around::default() };
                Ok(Outputs::Stacked(linear.forward(x, around)?, borders))
            }
            Self::Separate(layers) => {
                let x = x.normalize(norm)?;
                let outputs = layers.iter().map(|layer| layer.forward(&x, Around::default()));
                Ok(Outputs::Separate(outputs.collect::<Result<_>>()?))
            }
        }
    }

    /// `act(gate) · up` of two layers, gate and up in this order, for the normalised rows of `x` [T, inputs].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn gated(&self, x: &Array, norm: Norm<'_>, gate: Gate) -> Result<Array> {
        match self {
            Self::Stacked(linear, _) => {
                linear.forward(x, Around { norm: Some(norm), gate: Some(gate), ..Around::default() })
            }
            Self::Separate(_) => {
                let outputs = self.forward(x, norm)?.split()?;
                Ok(concatenate(&outputs.iter().collect::<Vec<_>>(), -1)?.gated(gate)?)
            }
        }
    }
}

/// What several layers gave.
#[derive(Debug)]
pub enum Outputs<'a> {
    /// [T, all outputs], and where each layer's begin, but for the first.
    Stacked(Array, &'a [i32]),
    /// [T, outputs] of each.
    Separate(Vec<Array>),
}

impl Outputs<'_> {
    /// Where the outputs of the layer at `index` are. Nothing is cut out of a product that computes them all.
    pub fn columns(&self, index: usize) -> Columns<'_> {
        match self {
            Self::Stacked(all, borders) => {
                Columns { array: all, first: if index == 0 { 0 } else { borders[index - 1] } }
            }
            Self::Separate(outputs) => Columns { array: &outputs[index], first: 0 },
        }
    }

    /// Each layer's outputs [T, outputs].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn split(self) -> Result<Vec<Array>> {
        match self {
            Self::Stacked(all, borders) => Ok(all.split(borders, -1)?),
            Self::Separate(outputs) => Ok(outputs),
        }
    }
}
