//! A linear layer with what stands around it: one kernel node equals the graph of its parts, row by row.

use mlx_sys::{
    Activations, Around, Array, Dtype, Gate, Norm, Orientation, PackedMatrix, Packing, Quantized, Result,
};

const EPS: f32 = 1e-5;

fn noise(shape: &[i32], seed: u32) -> Array {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let values: Vec<f32> = (0..shape.iter().product::<i32>())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Array::from_slice(&values, shape).unwrap()
}

fn values(array: &Array) -> Vec<f32> {
    array.to_vec().unwrap()
}

fn bits(array: &Array) -> Vec<u32> {
    values(array).into_iter().map(f32::to_bits).collect()
}

#[track_caller]
fn assert_close(found: &Array, wanted: &Array, tolerance: f32) {
    assert_eq!(found.shape(), wanted.shape());
    for (at, (found, wanted)) in values(found).into_iter().zip(values(wanted)).enumerate() {
        assert!((found - wanted).abs() <= tolerance * wanted.abs().max(1.0), "{at}: {found} is not {wanted}");
    }
}

/// The arrays that may stand around a product of `m` rows with an [n, k] matrix.
struct Parts {
    weight: Array,
    norm_bias: Array,
    bias: Array,
    residual: Array,
    half_residual: Array,
}

impl Parts {
    fn new(m: i32, n: i32, k: i32) -> Self {
        Self {
            weight: noise(&[k], 1),
            norm_bias: noise(&[k], 2),
            bias: noise(&[n], 3),
            residual: noise(&[m, n], 4),
            half_residual: noise(&[m, n / 2], 5),
        }
    }

    /// Every combination of what there can be.
    fn all(&self) -> Vec<Around<'_>> {
        let weight = &self.weight;
        let norms = [
            None,
            Some(Norm::Rms { weight, eps: EPS }),
            Some(Norm::Layer { weight, bias: None, eps: EPS }),
            Some(Norm::Layer { weight, bias: Some(&self.norm_bias), eps: EPS }),
        ];
        let mut all = Vec::new();
        for norm in norms {
            for bias in [None, Some(&self.bias)] {
                for gate in [None, Some(Gate::Silu), Some(Gate::GeluTanh)] {
                    let own = if gate.is_some() { &self.half_residual } else { &self.residual };
                    for residual in [None, Some(own)] {
                        all.push(Around { norm, bias, gate, residual });
                    }
                }
            }
        }
        all
    }
}

/// The same around `product`, each part an operation of MLX's own.
fn by_parts(x: &Array, around: &Around<'_>, product: impl Fn(&Array) -> Result<Array>) -> Result<Array> {
    let mean = |x: &Array| x.mean(-1, mlx_sys::Axis::Keep);
    let eps = Array::scalar(EPS)?;
    let x = match around.norm {
        None => x.clone(),
        Some(Norm::Rms { weight, .. }) => {
            x.multiply(&mean(&x.square()?)?.add(&eps)?.rsqrt()?)?.multiply(weight)?
        }
        Some(Norm::Layer { weight, bias, .. }) => {
            let centred = x.subtract(&mean(x)?)?;
            let scaled =
                centred.multiply(&mean(&centred.square()?)?.add(&eps)?.rsqrt()?)?.multiply(weight)?;
            bias.map_or(Ok(scaled.clone()), |bias| scaled.add(bias))?
        }
    };
    let mut y = product(&x)?;
    if let Some(bias) = around.bias {
        y = y.add(bias)?;
    }
    if let Some(gate) = around.gate {
        let parts = y.split(&[y.dim(-1) / 2], -1)?;
        let inner = match gate {
            Gate::Silu => parts[0].clone(),
            Gate::GeluTanh => {
                let cube =
                    parts[0].square()?.multiply(&parts[0])?.multiply(&Array::scalar(0.044_715_f32)?)?;
                parts[0].add(&cube)?.multiply(&Array::scalar((8.0 / std::f32::consts::PI).sqrt())?)?
            }
        };
        y = parts[0].multiply(&inner.sigmoid()?)?.multiply(&parts[1])?;
    }
    around.residual.map_or(Ok(y.clone()), |residual| y.add(residual))
}

#[test]
fn every_combination_equals_its_parts() {
    for (m, n, k) in [(1, 34, 64), (5, 50, 96), (70, 16, 128)] {
        let (x, w, parts) = (noise(&[m, k], 6), noise(&[n, k], 7), Parts::new(m, n, k));
        for around in parts.all() {
            assert!(x.has_linear_kernel(&w));
            let wanted = by_parts(&x, &around, |x| x.matmul(&w.transpose(&[1, 0])?)).unwrap();
            assert_close(&x.project(&w, around).unwrap(), &wanted, 2e-5);
        }
    }
}

#[test]
fn quantised_matrices_do_the_same() {
    let (m, n, k) = (9, 34, 128);
    let (x, parts) = (noise(&[m, k], 8), Parts::new(m, n, k));
    let quantized = Quantized::quantize(&noise(&[n, k], 9), Packing { group_size: 64, bits: 8 }).unwrap();
    // The parts round a little otherwise, which may move an activation to the integer beside it.
    for (activations, tolerance) in
        [(Activations::F32, 3e-5), (Activations::Int16, 2e-4), (Activations::Int8, 5e-2)]
    {
        let packed = PackedMatrix::from_affine(&quantized, activations).unwrap().expect("a kernel");
        for around in parts.all() {
            let wanted = by_parts(&x, &around, |x| packed.apply(x)).unwrap();
            assert_close(&packed.project(&x, around).unwrap(), &wanted, tolerance);
        }
    }
    for around in parts.all() {
        let wanted = by_parts(&x, &around, |x| quantized.matmul(x, Orientation::Transposed)).unwrap();
        assert_close(&quantized.project(&x, around).unwrap(), &wanted, 3e-5);
    }
}

#[test]
fn a_row_is_the_same_in_any_company() {
    let (m, n, k) = (67, 96, 160);
    let (x, w, parts) = (noise(&[m, k], 10), noise(&[n, k], 11), Parts::new(m, n, k));
    let quantized = Quantized::quantize(&w, Packing { group_size: 32, bits: 4 }).unwrap();
    let packed = PackedMatrix::from_affine(&quantized, Activations::Int16).unwrap().expect("a kernel");
    let row = |a: &Array, r: i32| a.slice(&[r, 0], &[r + 1, a.dim(1)], &[1, 1]).unwrap();
    for around in parts.all() {
        let (dense, integer) = (x.project(&w, around).unwrap(), packed.project(&x, around).unwrap());
        for r in [0, 1, 31, 66] {
            let residual = around.residual.map(|residual| row(residual, r));
            let own = Around { residual: residual.as_ref(), ..around };
            assert_eq!(bits(&row(&x, r).project(&w, own).unwrap()), bits(&row(&dense, r)));
            assert_eq!(bits(&packed.project(&row(&x, r), own).unwrap()), bits(&row(&integer, r)));
        }
    }
}

#[test]
fn other_types_are_a_graph() {
    let (x, w, parts) = (noise(&[3, 64], 12), noise(&[32, 64], 13), Parts::new(3, 32, 64));
    let half = |a: &Array| a.astype(Dtype::Bf16).unwrap();
    let (weight, residual) = (half(&parts.weight), half(&parts.residual));
    let around = Around {
        norm: Some(Norm::Rms { weight: &weight, eps: EPS }),
        residual: Some(&residual),
        ..Around::default()
    };
    assert!(!half(&x).has_linear_kernel(&half(&w)));
    let found = half(&x).project(&half(&w), around).unwrap();
    assert_eq!(found.dtype(), Dtype::Bf16);
    let f32s = Around {
        norm: Some(Norm::Rms { weight: &parts.weight, eps: EPS }),
        residual: Some(&parts.residual),
        ..Around::default()
    };
    assert_close(&found.astype(Dtype::F32).unwrap(), &x.project(&w, f32s).unwrap(), 0.1);
}

#[test]
fn a_row_that_is_not_finite_spoils_itself_alone() {
    let (n, k) = (32, 64);
    let mut data = values(&noise(&[3, k], 14));
    data[k as usize + 5] = f32::NAN;
    let (x, w) = (Array::from_slice(&data, &[3, k]).unwrap(), noise(&[n, k], 15));
    let weight = noise(&[k], 16);
    let around = Around {
        norm: Some(Norm::Rms { weight: &weight, eps: EPS }),
        gate: Some(Gate::Silu),
        ..Around::default()
    };
    let found = values(&x.project(&w, around).unwrap());
    for (row, found) in found.chunks(n as usize / 2).enumerate() {
        assert!(found.iter().all(|value| value.is_nan() == (row == 1)));
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let (x, w) = (noise(&[2, 64], 17), noise(&[32, 64], 18));
    let (short, odd) = (noise(&[31], 19), noise(&[31, 64], 20));
    let refused = |w: &Array, around: Around<'_>| x.project(w, around).unwrap_err().to_string();
    let none = Around::default();
    assert_eq!(
        refused(&w, Around { bias: Some(&short), ..none }),
        "[projection] the bias is float32(31), not float32(32)"
    );
    assert_eq!(
        refused(&w, Around { norm: Some(Norm::Rms { weight: &short, eps: EPS }), ..none }),
        "[projection] the norm's weight is float32(31), not float32(64)"
    );
    assert_eq!(
        refused(&w, Around { residual: Some(&x), ..none }),
        "[projection] the residual is float32(2,64), not float32(2,32)"
    );
    assert_eq!(
        refused(&odd, Around { gate: Some(Gate::Silu), ..none }),
        "[projection] gate and up are 31 outputs, an odd number"
    );
    let empty = noise(&[0, 64], 21).project(&w, Around { gate: Some(Gate::Silu), ..none }).unwrap();
    assert_eq!(empty.shape(), [0, 16]);
    assert_eq!(values(&empty), []);
}
