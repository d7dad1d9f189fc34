//! Repacked quantised matrices and products with halves, through MLX's graph, against MLX's own dequantisation.

use std::num::NonZeroUsize;

use mlx_sys::{Activations, Array, Dtype, PackedMatrix, Packing, Quantized, set_cpu_threads};

fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

fn array(data: &[f32], shape: &[usize]) -> Array {
    let shape: Vec<i32> = shape.iter().map(|&n| n as i32).collect();
    Array::from_slice(data, &shape).unwrap()
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// `a · bᵀ` in f64, and the sum of the magnitudes of its terms.
fn product(a: &[f32], b: &[f32], k: usize) -> Vec<(f64, f64)> {
    let dot = |x: &[f32], y: &[f32]| {
        let terms = x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y));
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    };
    a.chunks(k).flat_map(|x| b.chunks(k).map(move |y| dot(x, y))).collect()
}

#[track_caller]
fn assert_close(found: &Array, wanted: &[(f64, f64)], tolerance: f64, at: &str) {
    let found = found.to_vec::<f32>().unwrap();
    assert_eq!(found.len(), wanted.len(), "{at}");
    for (i, (&f, &(w, size))) in found.iter().zip(wanted).enumerate() {
        assert!((f64::from(f) - w).abs() <= tolerance * size, "{at}: element {i}: {f} is not {w}");
    }
}

/// A matrix quantised by MLX, with scales of `dtype`, and its values.
fn quantised(n: usize, k: usize, packing: Packing, dtype: Dtype) -> (Quantized, Array) {
    let matrix = array(&noise(n * k, 5), &[n, k]).astype(dtype).unwrap();
    let quantised = Quantized::quantize(&matrix, packing).unwrap();
    assert_eq!(quantised.scales.dtype(), dtype);
    let wide = Quantized {
        scales: quantised.scales.astype(Dtype::F32).unwrap(),
        biases: quantised.biases.astype(Dtype::F32).unwrap(),
        ..quantised.clone()
    };
    let values = wide.dequantize(Dtype::F32).unwrap();
    (quantised, values)
}

fn packed(matrix: &Quantized, activations: Activations) -> PackedMatrix {
    PackedMatrix::from_affine(matrix, activations).unwrap().expect("a kernel takes it")
}

#[test]
fn packed_products_and_rows_hold_what_mlx_quantised() {
    for packing_bits in [2, 3, 4, 5, 6, 8] {
        for group_size in [32, 64, 128] {
            for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
                let at = format!("{packing_bits} bits, group {group_size}, {dtype}");
                let (n, k, m) = (35, 384, 9);
                let packing = Packing { group_size, bits: packing_bits };
                let (matrix, values) = quantised(n, k, packing, dtype);
                let x = noise(m * k, 6);
                let wanted = product(&x, &values.to_vec().unwrap(), k);
                let x = array(&x, &[m, k]);
                for (activations, tolerance) in
                    [(Activations::F32, 1e-5), (Activations::Int16, 3e-5), (Activations::Int8, 5e-3)]
                {
                    let matrix = packed(&matrix, activations);
                    assert_eq!(matrix.shape(), [n as i32, k as i32]);
                    assert_close(&matrix.apply(&x).unwrap(), &wanted, tolerance, &at);
                    let ids = Array::from_slice(&[34_i32, 0, 17, 17], &[2, 2]).unwrap();
                    let rows = matrix.rows(&ids).unwrap();
                    assert_eq!(rows.shape(), [2, 2, k as i32]);
                    let values = values.take(&ids, 0).unwrap();
                    let values: Vec<f32> = values.to_vec().unwrap();
                    let sized: Vec<_> = values.iter().map(|&v| (f64::from(v), 1.0)).collect();
                    assert_close(&rows, &sized, 1e-6, &at);
                }
            }
        }
    }
}

#[test]
fn a_packed_matrix_is_no_larger_than_it_was() {
    let (matrix, _) = quantised(160, 256, Packing { group_size: 32, bits: 5 }, Dtype::F16);
    let stored = matrix.packed.nbytes() + matrix.scales.nbytes() + matrix.biases.nbytes();
    assert_eq!(packed(&matrix, Activations::Int8).nbytes(), stored);
}

#[test]
fn rows_depend_neither_on_company_nor_on_threads() {
    let (n, k, m) = (1000, 576, 37);
    let (matrix, _) = quantised(n, k, Packing { group_size: 32, bits: 4 }, Dtype::F16);
    let x = noise(m * k, 7);
    for activations in [Activations::Int8, Activations::Int16, Activations::F32] {
        let matrix = packed(&matrix, activations);
        let whole = bits(&matrix.apply(&array(&x, &[m, k])).unwrap());
        for threads in [1, 2, 4] {
            set_cpu_threads(NonZeroUsize::new(threads).unwrap()).unwrap();
            for (first, count) in [(0, 1), (0, 37), (1, 2), (5, 8), (20, 17), (36, 1)] {
                let rows = array(&x[first * k..(first + count) * k], &[count, k]);
                assert_eq!(bits(&matrix.apply(&rows).unwrap()), whole[first * n..(first + count) * n]);
            }
        }
    }
}

#[test]
fn rows_of_any_layout_are_read() {
    let (n, k, m) = (48, 64, 5);
    let (matrix, _) = quantised(n, k, Packing { group_size: 64, bits: 4 }, Dtype::Bf16);
    let matrix = packed(&matrix, Activations::Int8);
    let x = array(&noise(m * k, 8), &[m, k]);
    let wanted = bits(&matrix.apply(&x).unwrap());
    let turned = x.transpose(&[1, 0]).unwrap().contiguous().unwrap().transpose(&[1, 0]).unwrap();
    assert_eq!(bits(&matrix.apply(&turned).unwrap()), wanted);
    let wide = mlx_sys::concatenate(&[&x, &x], 1).unwrap().split(&[k as i32], 1).unwrap();
    assert_eq!(bits(&matrix.apply(&wide[1]).unwrap()), wanted);
    let deep = x.reshape(&[1, m as i32, k as i32]).unwrap();
    assert_eq!(matrix.apply(&deep).unwrap().shape(), [1, m as i32, n as i32]);
    let none = Array::zeros(&[0, k as i32], Dtype::F32).unwrap();
    assert_eq!(matrix.apply(&none).unwrap().to_vec::<f32>().unwrap(), []);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (matrix, _) = quantised(32, 64, Packing { group_size: 32, bits: 4 }, Dtype::F16);
    let packed = packed(&matrix, Activations::Int8);
    let narrow = Array::zeros(&[1, 32], Dtype::F32).unwrap();
    let error = packed.apply(&narrow).unwrap_err();
    assert_eq!(error.to_string(), "[projection] the last axis of x (1,32) is not 64");
    for id in [-1_i32, 32] {
        let rows = packed.rows(&Array::from_slice(&[id], &[1]).unwrap()).unwrap();
        assert_eq!(rows.wait().unwrap_err().to_string(), format!("[packed_rows] row {id} of 32"));
    }
    let odd = Quantized { packing: Packing { group_size: 32, bits: 7 }, ..matrix.clone() };
    assert!(PackedMatrix::from_affine(&odd, Activations::Int8).unwrap().is_none());
    let short = Quantized {
        biases: matrix.biases.take(&Array::from_slice(&[0_i32], &[1]).unwrap(), 1).unwrap(),
        ..matrix
    };
    assert!(PackedMatrix::from_affine(&short, Activations::Int8).is_err());
}

#[test]
fn products_with_halves_are_right_and_rowwise() {
    for (m, n, k) in [(1, 1, 1), (1, 37, 19), (4, 100, 64), (13, 65, 130), (100, 70, 576)] {
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            let weight = array(&noise(n * k, 2), &[n, k]).astype(dtype).unwrap();
            let values: Vec<f32> = weight.astype(Dtype::F32).unwrap().to_vec().unwrap();
            let x = noise(m * k, 1);
            let rows = array(&x, &[m, k]);
            assert!(rows.has_linear_kernel(&weight));
            let found = rows.linear(&weight).unwrap();
            assert_close(&found, &product(&x, &values, k), 1e-6, &format!("{m}x{n}x{k} {dtype}"));
            let last = array(&x[(m - 1) * k..], &[1, k]).linear(&weight).unwrap();
            assert_eq!(bits(&last), bits(&found)[(m - 1) * n..]);
        }
    }
    // Other types take MLX's own product.
    let (x, w) = (array(&noise(8, 3), &[2, 4]), array(&noise(12, 4), &[3, 4]));
    let (x, w) = (x.astype(Dtype::Bf16).unwrap(), w.astype(Dtype::Bf16).unwrap());
    assert!(!x.has_linear_kernel(&w));
    let found = x.linear(&w).unwrap();
    assert_eq!((found.dtype(), found.shape()), (Dtype::Bf16, &[2, 3][..]));
}
