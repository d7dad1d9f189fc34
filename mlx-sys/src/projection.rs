//! Linear layers with what stands around them: the normalisation of their inputs, a bias, a gate, a residual. On the
//! CPU all of it is one graph node, elsewhere a graph of MLX's own operations.

use cxx::{CxxVector, UniquePtr};

use crate::array::{Array, list};
use crate::bridge::ffi;
use crate::{DensePanels, Orientation, PackedMatrix, Quantized, Result};

/// Normalisation of rows of k elements.
#[derive(Debug, Clone, Copy)]
pub enum Norm<'a> {
    /// Root-mean-square normalisation (Zhang, Sennrich 2019).
    Rms {
        /// `[k]`
        weight: &'a Array,
        /// Added to the mean square.
        eps: f32,
    },
    /// Layer normalisation (Ba, Kiros, Hinton 2016).
    Layer {
        /// `[k]`
        weight: &'a Array,
        /// `[k]`
        bias: Option<&'a Array>,
        /// Added to the variance.
        eps: f32,
    },
}

/// What makes of two halves of a layer's outputs, gate and up, `act(gate) · up` (Shazeer 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `x · sigmoid(x)`
    Silu,
    /// The tanh form of gelu (Hendrycks, Gimpel 2016).
    GeluTanh,
}

/// What is done around a product of `[n, k]` weights with rows of k, in the order of the fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around<'a> {
    /// Normalises the rows first.
    pub norm: Option<Norm<'a>>,
    /// `[n]`, added to the product.
    pub bias: Option<&'a Array>,
    /// Leaves n / 2 outputs.
    pub gate: Option<Gate>,
    /// Of the result's shape, added last.
    pub residual: Option<&'a Array>,
}

impl<'a> Around<'a> {
    /// The options and the arrays that they name, as the bridge takes them.
    fn raw(&self) -> (ffi::Fusion, UniquePtr<CxxVector<ffi::MlxArray>>) {
        let (norm, eps, weight, norm_bias) = match self.norm {
            None => (ffi::NormType::Absent, 0.0, None, None),
            Some(Norm::Rms { weight, eps }) => (ffi::NormType::Rms, eps, Some(weight), None),
            Some(Norm::Layer { weight, bias, eps }) => (ffi::NormType::Layer, eps, Some(weight), bias),
        };
        let fusion = ffi::Fusion {
            norm,
            eps,
            norm_weight: weight.is_some(),
            norm_bias: norm_bias.is_some(),
            bias: self.bias.is_some(),
            gate: match self.gate {
                None => ffi::GateType::Absent,
                Some(Gate::Silu) => ffi::GateType::Silu,
                Some(Gate::GeluTanh) => ffi::GateType::GeluTanh,
            },
            residual: self.residual.is_some(),
        };
        let arrays: Vec<&'a Array> =
            [weight, norm_bias, self.bias, self.residual].into_iter().flatten().collect();
        (fusion, list(&arrays))
    }

    /// The same as a graph of operations around `product`.
    fn graph(&self, x: &Array, product: impl FnOnce(&Array) -> Result<Array>) -> Result<Array> {
        let mut y = match self.norm {
            None => product(x)?,
            Some(norm) => product(&x.normalize(norm)?)?,
        };
        if let Some(bias) = self.bias {
            y = y.add(bias)?;
        }
        if let Some(gate) = self.gate {
            y = y.gated(gate)?;
        }
        match self.residual {
            Some(residual) => y.add(residual),
            None => Ok(y),
        }
    }
}

impl Array {
    /// `self` `[…, k]` times the transposed `weight` `[n, k]`, with what is `around` it. On the CPU, f32 rows meet f16,
    /// bf16 or f32 weights in our kernel, which reads the weights in their own type and computes in f32. Everything else
    /// is a graph of MLX's operations: see [`Self::has_linear_kernel`].
    ///
    /// # Errors
    /// Shapes that do not fit, or arrays around the kernel's product that are not f32.
    pub fn project(&self, weight: &Self, around: Around<'_>) -> Result<Self> {
        if self.has_linear_kernel(weight) {
            let (fusion, rest) = around.raw();
            return Self::wrap(ffi::linear_projection(self.raw(), weight.raw(), &fusion, &rest));
        }
        around.graph(self, |x| x.matmul(&weight.transpose(&[1, 0])?))
    }

    /// `self` `[…, k]` times the transposed `weight` `[n, k]`: `[…, n]`, as [`Self::project`].
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn linear(&self, weight: &Self) -> Result<Self> {
        self.project(weight, Around::default())
    }

    /// True when [`Self::project`] with this weight goes to our kernel.
    #[must_use]
    pub fn has_linear_kernel(&self, weight: &Self) -> bool {
        ffi::has_linear(self.raw(), weight.raw())
    }

    /// Each row (last axis), normalised.
    ///
    /// # Errors
    /// A weight or bias that does not fit the rows.
    pub fn normalize(&self, norm: Norm<'_>) -> Result<Self> {
        match norm {
            Norm::Rms { weight, eps } => self.rms_norm(Some(weight), eps),
            Norm::Layer { weight, bias, eps } => self.layer_norm(Some(weight), bias, eps),
        }
    }

    /// `act(first half of each row) · second half`.
    ///
    /// # Errors
    /// Rows of odd length.
    pub fn gated(&self, gate: Gate) -> Result<Self> {
        let parts = self.split(&[self.dim(-1) / 2], -1)?;
        let [first, second] = &parts[..] else { return Err(crate::Error::Mlx("[gated] no axis".to_owned())) };
        match gate {
            Gate::Silu => first.swiglu(second),
            Gate::GeluTanh => first.gelu_tanh()?.multiply(second),
        }
    }

    /// The tanh form of gelu, as a graph.
    fn gelu_tanh(&self) -> Result<Self> {
        let scalar = |value: f32| Self::scalar(value)?.astype(self.dtype());
        let cubic = self.square()?.multiply(self)?.multiply(&scalar(0.044_715)?)?;
        let inner = self.add(&cubic)?.multiply(&scalar((2.0 / std::f32::consts::PI).sqrt())?)?;
        let half = self.multiply(&scalar(0.5)?)?;
        half.multiply(&inner.tanh()?.add(&scalar(1.0)?)?)
    }
}

impl PackedMatrix {
    /// `x` `[…, k]` times the transposed matrix, with what is `around` it: `[…, n]` f32. `x` is converted to f32.
    ///
    /// # Errors
    /// Shapes that do not fit, or other arrays that are not f32.
    pub fn project(&self, x: &Array, around: Around<'_>) -> Result<Array> {
        let (fusion, rest) = around.raw();
        let activations = self.activations().raw();
        Array::wrap(ffi::packed_projection(
            x.raw(),
            self.data().raw(),
            &self.layout(),
            activations,
            &fusion,
            &rest,
        ))
    }

    /// `x` `[…, k]` times the transposed matrix: `[…, n]` f32.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn apply(&self, x: &Array) -> Result<Array> {
        self.project(x, Around::default())
    }
}

impl DensePanels {
    /// `x` `[…, k]` times the transposed matrix, with what is `around` it: `[…, n]` f32. `x` is converted to f32.
    ///
    /// # Errors
    /// Shapes that do not fit, or other arrays that are not f32.
    pub fn project(&self, x: &Array, around: Around<'_>) -> Result<Array> {
        let (fusion, rest) = around.raw();
        Array::wrap(ffi::dense_projection(x.raw(), self.data().raw(), &self.layout(), &fusion, &rest))
    }

    /// `x` `[…, k]` times the transposed matrix: `[…, n]` f32.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn apply(&self, x: &Array) -> Result<Array> {
        self.project(x, Around::default())
    }
}

impl Quantized {
    /// `x` `[…, k]` times the transposed matrix, with what is `around` it, as a graph.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn project(&self, x: &Array, around: Around<'_>) -> Result<Array> {
        around.graph(x, |x| self.matmul(x, Orientation::Transposed))
    }
}
