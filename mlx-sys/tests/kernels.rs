//! Our CPU kernels behind ordinary operations: right numbers, and rows that do not depend on each other.

use mlx_sys::{Array, Dtype};

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

fn transposed(array: &Array) -> Array {
    array.transpose(&[1, 0]).unwrap()
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[track_caller]
fn assert_close(found: &[f32], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    for (i, (&f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f64::from(f) - w).abs() <= tolerance * w.abs().max(1.0), "element {i}: {f} is not {w}");
    }
}

/// `a · bᵀ` in f64.
fn product(a: &[f32], b: &[f32], k: usize) -> Vec<f64> {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
    a.chunks(k).flat_map(|x| b.chunks(k).map(move |y| dot(x, y))).collect()
}

#[test]
fn products_of_every_layout_are_right() {
    for (m, n, k) in
        [(1, 1, 2), (1, 37, 19), (2, 8, 16), (3, 9, 33), (5, 100, 64), (13, 65, 130), (100, 70, 576)]
    {
        let (a, b) = (noise(m * k, 1), noise(n * k, 2));
        let wanted = product(&a, &b, k);
        let (x, w) = (array(&a, &[m, k]), array(&b, &[n, k]));
        let packed = |y: &Array| transposed(&transposed(y).contiguous().unwrap());
        for (x, w) in [
            (x.clone(), w.clone()),
            (packed(&x), w.clone()),
            (x.clone(), packed(&w)),
            (packed(&x), packed(&w)),
        ] {
            let found = x.matmul(&transposed(&w)).unwrap().to_vec::<f32>().unwrap();
            assert_close(&found, &wanted, 5e-5);
        }
        let bias = array(&noise(n, 3), &[n]);
        let added = bias.addmm(&x, &transposed(&w)).unwrap().to_vec::<f32>().unwrap();
        let bias = noise(n, 3);
        let wanted: Vec<f64> = wanted.iter().enumerate().map(|(i, x)| x + f64::from(bias[i % n])).collect();
        assert_close(&added, &wanted, 5e-5);
    }
}

#[test]
fn a_row_of_a_product_is_the_same_in_any_company() {
    for (n, k) in [(1536, 576), (576, 1536), (100, 77)] {
        let (a, b) = (noise(130 * k, 4), noise(n * k, 5));
        let weight = transposed(&array(&b, &[n, k]));
        let whole = bits(&array(&a, &[130, k]).matmul(&weight).unwrap());
        for (first, count) in [(0, 1), (0, 2), (0, 3), (1, 4), (7, 8), (60, 33), (96, 34), (129, 1)] {
            let rows = array(&a[first * k..(first + count) * k], &[count, k]);
            assert_eq!(bits(&rows.matmul(&weight).unwrap()), whole[first * n..(first + count) * n]);
        }
    }
}

#[test]
fn rms_norm_is_right_and_rowwise() {
    for (rows, n) in [(1, 576), (5, 100), (40, 2048), (3, 7)] {
        let (x, weight) = (noise(rows * n, 6), noise(n, 7));
        let wanted: Vec<f64> = x
            .chunks(n)
            .flat_map(|row| {
                let mean = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / n as f64;
                let weight = &weight;
                row.iter().zip(weight).map(move |(&x, &w)| f64::from(x) / (mean + 1e-5).sqrt() * f64::from(w))
            })
            .collect();
        let weight = array(&weight, &[n]);
        let whole = array(&x, &[rows, n]).rms_norm(Some(&weight), 1e-5).unwrap();
        assert_close(&whole.to_vec::<f32>().unwrap(), &wanted, 1e-5);
        let last = array(&x[(rows - 1) * n..], &[1, n]).rms_norm(Some(&weight), 1e-5).unwrap();
        assert_eq!(bits(&last), bits(&whole)[(rows - 1) * n..]);
        // A transposed view has the same values.
        let view = transposed(&transposed(&array(&x, &[rows, n])).contiguous().unwrap());
        assert_eq!(bits(&view.rms_norm(Some(&weight), 1e-5).unwrap()), bits(&whole));
        let ones = array(&vec![1.0; n], &[n]);
        let x = array(&x, &[rows, n]);
        assert_eq!(bits(&x.rms_norm(None, 1e-5).unwrap()), bits(&x.rms_norm(Some(&ones), 1e-5).unwrap()));
    }
    let error = array(&[1.0; 4], &[1, 4]).rms_norm(Some(&array(&[1.0; 3], &[3])), 1e-5).unwrap_err();
    assert_eq!(error.to_string(), "[rms_norm] the weight does not fit the last axis: (1,4) and (3)");
}

#[test]
fn swiglu_is_right_far_out_too() {
    let mut gate: Vec<f32> = noise(50_000, 8).iter().map(|x| 20.0 * x).collect();
    gate[..6].copy_from_slice(&[0.0, -100.0, 100.0, -87.5, 88.5, -1e30]);
    let up = noise(50_000, 9);
    let silu = |g: f64| g / (1.0 + (-g).exp());
    let wanted: Vec<f64> = gate.iter().zip(&up).map(|(&g, &u)| silu(g.into()) * f64::from(u)).collect();
    let (gate, up) = (array(&gate, &[500, 100]), array(&up, &[500, 100]));
    assert_close(&gate.swiglu(&up).unwrap().to_vec::<f32>().unwrap(), &wanted, 1e-6);
    assert!(gate.swiglu(&up.flatten(0, 1).unwrap()).is_err());
    // The columns of one array, as a fused projection gives them, and elements apart.
    let wanted = bits(&gate.swiglu(&up).unwrap());
    let parts = mlx_sys::concatenate(&[&gate, &up], 1).unwrap().split(&[100], 1).unwrap();
    assert_eq!(bits(&parts[0].swiglu(&parts[1]).unwrap()), wanted);
    let apart = |x: &Array| transposed(&transposed(x).contiguous().unwrap());
    assert_eq!(bits(&apart(&gate).swiglu(&apart(&up)).unwrap()), wanted);
}

#[test]
fn rotate_half_is_right_for_whole_and_partial_heads() {
    for (tokens, heads, dim, half) in [(3, 2, 64, 32), (1, 9, 40, 20), (70, 4, 128, 16)] {
        let x = noise(tokens * heads * dim, 10);
        let angles = noise(tokens * half, 11);
        let mut wanted = vec![];
        for (i, head) in x.chunks(dim).enumerate() {
            let angle = |d: usize| f64::from(angles[i / heads * half + d]);
            let at = |d: usize| f64::from(head[d]);
            wanted.extend((0..half).map(|d| at(d) * angle(d).cos() - at(d + half) * angle(d).sin()));
            wanted.extend((0..half).map(|d| at(d + half) * angle(d).cos() + at(d) * angle(d).sin()));
            wanted.extend((2 * half..dim).map(at));
        }
        let (x, angles) = (array(&x, &[tokens, heads, dim]), array(&angles, &[tokens, half]));
        let (cos, sin) = (angles.cos().unwrap(), angles.sin().unwrap());
        let found = x.rotate_half(&cos, &sin).unwrap();
        assert_close(&found.to_vec::<f32>().unwrap(), &wanted, 1e-5);
        // Strided in two ways: heads first, and elements apart.
        for axes in [[1, 0, 2], [2, 1, 0]] {
            let view = x.transpose(&axes).unwrap().contiguous().unwrap().transpose(&axes).unwrap();
            assert_eq!(bits(&view.rotate_half(&cos, &sin).unwrap()), bits(&found));
        }
        // Other types take the graph of stock operations.
        let half_type = x.astype(Dtype::Bf16).unwrap().rotate_half(&cos, &sin).unwrap();
        assert_eq!(half_type.dtype(), Dtype::Bf16);
        assert_close(&half_type.astype(Dtype::F32).unwrap().to_vec::<f32>().unwrap(), &wanted, 2e-2);
    }
}
