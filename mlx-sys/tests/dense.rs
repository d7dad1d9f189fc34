//! Dense matrices in our kernels' own form, behind the safe interface.
#![cfg(target_os = "linux")]

use mlx_sys::{Array, DensePanels, Dtype};

fn wave(shape: &[i32], step: f64) -> Array {
    let size = f64::from(shape.iter().product::<i32>());
    Array::arange(0.0, size, 1.0, Dtype::F32)
        .and_then(|x| x.multiply(&Array::from_slice(&[step as f32], &[1])?))
        .and_then(|x| x.sin()?.reshape(shape))
        .unwrap()
}

fn numbers(array: &Array) -> Vec<f32> {
    array.astype(Dtype::F32).unwrap().to_vec().unwrap()
}

fn bits(array: &Array) -> Vec<u32> {
    numbers(array).into_iter().map(f32::to_bits).collect()
}

fn panels(matrix: &Array) -> DensePanels {
    DensePanels::from_rows(matrix).unwrap().expect("a kernel takes it")
}

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

#[test]
fn products_are_those_of_the_numbers_in_the_matrix() {
    for dtype in DTYPES {
        for (m, n, k) in [(1, 1, 1), (1, 37, 19), (3, 32, 64), (9, 100, 77), (40, 65, 130)] {
            let (x, matrix) = (wave(&[m, k], 1.3), wave(&[n, k], 0.7).astype(dtype).unwrap());
            let packed = panels(&matrix);
            assert_eq!((packed.shape(), packed.dtype()), ([n, k], dtype));
            let found = numbers(&packed.apply(&x).unwrap());
            let (a, b) = (numbers(&x), numbers(&matrix));
            for (i, found) in found.into_iter().enumerate() {
                let (row, column) = (i / n as usize, i % n as usize);
                let k = k as usize;
                let pairs = a[row * k..][..k].iter().zip(&b[column * k..][..k]);
                let wanted: f64 = pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                assert!(
                    (f64::from(found) - wanted).abs() < 1e-5,
                    "{m}x{n}x{k} {dtype:?}: {found} is not {wanted}"
                );
            }
        }
    }
}

#[test]
fn a_row_of_a_product_is_the_same_in_any_company_and_layout() {
    let (x, matrix) = (wave(&[50, 300], 1.1), wave(&[90, 300], 0.3).astype(Dtype::F16).unwrap());
    let packed = panels(&matrix);
    let whole = bits(&packed.apply(&x).unwrap());
    for (first, count) in [(0, 1), (1, 2), (7, 8), (20, 13), (49, 1)] {
        let rows = x.slice(&[first, 0], &[first + count, 300], &[1, 1]).unwrap();
        let wanted = &whole[first as usize * 90..(first + count) as usize * 90];
        assert_eq!(bits(&packed.apply(&rows).unwrap()), wanted);
    }
    let apart = x.transpose(&[1, 0]).unwrap().contiguous().unwrap().transpose(&[1, 0]).unwrap();
    assert_eq!(bits(&packed.apply(&apart).unwrap()), whole);
    let deeper = x.reshape(&[5, 10, 300]).unwrap();
    let found = packed.apply(&deeper).unwrap();
    assert_eq!(found.shape(), [5, 10, 90]);
    assert_eq!(bits(&found), whole);
}

#[test]
fn rows_are_what_was_packed_of_many_matrices_at_once() {
    // Small ones lie in one block of memory, and one that is too large for it by itself.
    let matrices: Vec<Array> = [(5, 7), (700, 64), (33, 1), (1, 500), (9000, 1000)]
        .into_iter()
        .zip(DTYPES.into_iter().cycle())
        .map(|((n, k), dtype)| wave(&[n, k], 0.9).astype(dtype).unwrap())
        .collect();
    let packed: Vec<DensePanels> = matrices.iter().map(panels).collect();
    for (matrix, packed) in matrices.iter().zip(&packed) {
        let n = matrix.shape()[0];
        let ids = Array::from_slice(&[n - 1, 0, n / 2], &[3]).unwrap();
        assert_eq!(bits(&packed.rows(&ids).unwrap()), bits(&matrix.take(&ids, 0).unwrap()));
    }
}

#[test]
fn no_rows_give_none() {
    let packed = panels(&wave(&[40, 16], 1.0));
    let none = packed.apply(&Array::zeros(&[0, 16], Dtype::F32).unwrap()).unwrap();
    assert_eq!(none.shape(), [0, 40]);
    assert!(numbers(&none).is_empty());
    let ids = Array::zeros(&[0], Dtype::I32).unwrap();
    assert!(numbers(&packed.rows(&ids).unwrap()).is_empty());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let packed = panels(&wave(&[40, 16], 1.0));
    let error = packed.apply(&wave(&[2, 15], 1.0)).unwrap_err();
    assert_eq!(error.to_string(), "[projection] the last axis of x (2,15) is not 16");
    for id in [-1, 40] {
        let rows = packed.rows(&Array::from_slice(&[0, id], &[2]).unwrap()).unwrap();
        let error = rows.to_vec::<f32>().unwrap_err();
        assert!(error.to_string().contains(&format!("[dense_rows] row {id} of 40")), "{error}");
    }
    for other in [Array::zeros(&[4, 4], Dtype::I32).unwrap(), wave(&[2, 4, 4], 1.0), wave(&[4], 1.0)] {
        assert!(DensePanels::from_rows(&other).unwrap().is_none());
    }
}
