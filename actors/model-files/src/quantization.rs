//! MLX's quantised checkpoints: what config.json says of each module, and whether its tensors agree.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{ModelFileError, Result};
use crate::format::{Dtype, TensorFormat};
use crate::json::JsonFile;
use crate::weights::Weights;

/// Bits and group size of MLX's affine quantisation, one of the combinations that its products take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct AffineSpec {
    bits: u32,
    group_size: usize,
}

impl AffineSpec {
    /// What Q4_0 and Q4_1 become.
    pub(crate) const GGUF_4_BIT: Self = Self { bits: 4, group_size: 32 };
    /// What Q8_0 becomes.
    pub(crate) const GGUF_8_BIT: Self = Self { bits: 8, group_size: 32 };

    /// `None` unless bits is 2, 3, 4, 5, 6 or 8 and the group is 32, 64 or 128 elements.
    pub fn new(bits: u32, group_size: usize) -> Option<Self> {
        let known = matches!(bits, 2 | 3 | 4 | 5 | 6 | 8) && matches!(group_size, 32 | 64 | 128);
        known.then_some(Self { bits, group_size })
    }

    /// Bits of an element.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Elements that share a scale and a bias.
    pub fn group_size(self) -> usize {
        self.group_size
    }

    /// Elements of a row of `words` packed words; `None` if they are no whole number.
    pub fn columns(self, words: usize) -> Option<usize> {
        let bits = words.checked_mul(32)?;
        bits.is_multiple_of(self.bits as usize).then_some(bits / self.bits as usize)
    }
}

/// The `quantization` part of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantization {
    default: AffineSpec,
    /// By module path; `None` for one that is left as it was.
    overrides: BTreeMap<String, Option<AffineSpec>>,
}

impl Quantization {
    /// For modules that have no entry of their own.
    pub fn default_spec(&self) -> AffineSpec {
        self.default
    }

    /// What config.json says of a module, for instance `model.layers.0.mlp.down_proj`. A module whose weights are not
    /// packed is not quantised, whatever this says: ask [`crate::ModelFiles::affine`].
    pub fn for_module(&self, module: &str) -> Option<AffineSpec> {
        self.overrides.get(module).copied().unwrap_or(Some(self.default))
    }

    /// Reads `quantization`, or `quantization_config`, of a configuration.
    pub(crate) fn from_config(config: &JsonFile) -> Result<Option<Self>> {
        for key in ["quantization", "quantization_config"] {
            match config.get(key) {
                None => {}
                Some(Value::Object(map)) => return Self::from_map(config, key, map).map(Some),
                Some(other) => return Err(config.wrong(key, "an object", other)),
            }
        }
        Ok(None)
    }

    fn from_map(config: &JsonFile, key: &str, map: &Map<String, Value>) -> Result<Self> {
        refuse_other_methods(config, map)?;
        let default = spec(config, key, map, None)?;
        let mut overrides = BTreeMap::new();
        for (module, value) in map {
            let path = format!("{key}.{module}");
            match value {
                Value::Bool(false) => overrides.insert(module.clone(), None),
                Value::Bool(true) => overrides.insert(module.clone(), Some(default)),
                Value::Object(own) => {
                    refuse_other_methods(config, own)?;
                    overrides.insert(module.clone(), Some(spec(config, &path, own, Some(default))?))
                }
                // `bits`, `group_size`, `mode`, and whatever notes a converter leaves.
                _ => None,
            };
        }
        Ok(Self { default, overrides })
    }
}

/// Anything but affine quantisation by MLX is refused by the name that the configuration gives it.
fn refuse_other_methods(config: &JsonFile, map: &Map<String, Value>) -> Result<()> {
    for key in ["quant_method", "mode"] {
        let method = match map.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::String(method)) if matches!(method.as_str(), "affine" | "mlx") => continue,
            Some(Value::String(method)) => method.clone(),
            Some(other) => other.to_string(),
        };
        return Err(ModelFileError::UnsupportedQuantization { path: config.path.clone(), method });
    }
    Ok(())
}

fn spec(
    config: &JsonFile,
    key: &str,
    map: &Map<String, Value>,
    default: Option<AffineSpec>,
) -> Result<AffineSpec> {
    let number = |name: &str, default: Option<u64>| match map.get(name) {
        None => default.ok_or_else(|| ModelFileError::key(&config.path, format!("{key}.{name}"), "missing")),
        Some(value) => {
            value.as_u64().ok_or_else(|| config.wrong(&format!("{key}.{name}"), "a whole number", value))
        }
    };
    let bits = number("bits", default.map(|spec| spec.bits.into()))?;
    let group_size = number("group_size", default.map(|spec| spec.group_size as u64))?;
    let known = u32::try_from(bits).ok().zip(usize::try_from(group_size).ok());
    known.and_then(|(bits, group_size)| AffineSpec::new(bits, group_size)).ok_or_else(|| {
        let problem = format!(
            "{bits} bits in groups of {group_size} are not supported; bits are 2, 3, 4, 5, 6 or 8, groups 32, 64 or 128"
        );
        ModelFileError::key(&config.path, key, problem)
    })
}

/// Checks each packed module's three tensors against each other and against the configuration.
pub(crate) fn check_packed(weights: &Weights, quantization: Option<&Quantization>) -> Result<()> {
    for scales in weights.iter() {
        let Some(module) = scales.name().strip_suffix(".scales") else { continue };
        let weight_name = format!("{module}.weight");
        let Some(weight) = weights.get(&weight_name) else { continue };
        if weight.format() != TensorFormat::Dense(Dtype::U32) {
            continue;
        }
        let refuse =
            |tensor: &str, problem: String| Err(ModelFileError::tensor(weight.path(), tensor, problem));
        let Some(spec) = quantization.and_then(|quantization| quantization.for_module(module)) else {
            return refuse(
                &weight_name,
                "is packed, but config.json does not say how it is quantised".into(),
            );
        };
        let Some(biases) = weights.get(&format!("{module}.biases")) else {
            return refuse(&format!("{module}.biases"), "missing beside its packed weight and scales".into());
        };
        if biases.shape() != scales.shape() || biases.format() != scales.format() {
            return refuse(biases.name(), "differs from the scales in shape or type".into());
        }
        if !is_float(scales.format()) {
            return refuse(scales.name(), format!("has type {}, scales are floats", scales.format()));
        }
        if groups_shape(weight.shape(), spec).as_deref() != Some(scales.shape()) {
            let AffineSpec { bits, group_size } = spec;
            let (weight, scales) = (weight.shape(), scales.shape());
            let problem = format!(
                "shape {weight:?} with scales {scales:?} does not fit {bits} bits in groups of {group_size}"
            );
            return refuse(&weight_name, problem);
        }
    }
    Ok(())
}

fn is_float(format: TensorFormat) -> bool {
    matches!(format, TensorFormat::Dense(Dtype::F16 | Dtype::BF16 | Dtype::F32))
}

/// The shape of the scales that belong to a packed weight.
fn groups_shape(weight: &[usize], spec: AffineSpec) -> Option<Vec<usize>> {
    let (&words, rows) = weight.split_last()?;
    let columns = spec.columns(words)?;
    columns.is_multiple_of(spec.group_size).then(|| [rows, &[columns / spec.group_size]].concat())
}
