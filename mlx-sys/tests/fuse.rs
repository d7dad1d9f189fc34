//! Many nodes as one: the same bits, whatever lies between them.

use mlx_sys::{Around, Array, Dtype, Gate, Norm, fuse};

fn noise(shape: &[i32], seed: f64) -> Array {
    let size = f64::from(shape.iter().product::<i32>());
    let ramp = Array::arange(seed, seed + size, 1.0, Dtype::F32).unwrap();
    let noise = ramp.sin().unwrap().reshape(shape).unwrap();
    noise.wait().unwrap();
    noise
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// A chain of our nodes; `between` is done to what the first gives.
fn chain(x: &Array, between: impl Fn(&Array) -> Array) -> Array {
    let (wide, narrow, weight) = (noise(&[64, 32], 1.0), noise(&[32, 32], 2.0), noise(&[32], 3.0));
    let norm = Some(Norm::Rms { weight: &weight, eps: 1e-5 });
    let gated = x.project(&wide, Around { norm, gate: Some(Gate::Silu), ..Around::default() }).unwrap();
    let gated = between(&gated);
    let added = gated.project(&narrow, Around { residual: Some(x), ..Around::default() }).unwrap();
    // What the chain began with is read once more, and a value twice.
    added
        .swiglu(&added)
        .unwrap()
        .project(&narrow, Around { residual: Some(&added), norm, ..Around::default() })
        .unwrap()
}

#[test]
fn a_fused_chain_gives_the_same_bits() {
    for rows in [1, 3, 40] {
        let x = noise(&[rows, 32], 4.0);
        let plain = bits(&chain(&x, Array::clone));
        assert_eq!(bits(&fuse(&chain(&x, Array::clone)).unwrap()), plain, "{rows} rows");
        // A chain that was fused may be the beginning of another.
        let twice = fuse(&chain(&fuse(&chain(&x, Array::clone)).unwrap(), Array::clone)).unwrap();
        assert_eq!(bits(&twice), bits(&chain(&chain(&x, Array::clone), Array::clone)));
    }
}

#[test]
fn operations_of_mlx_between_our_nodes_stay_what_they_are() {
    let x = noise(&[5, 32], 5.0);
    let doubled = |y: &Array| y.add(y).unwrap();
    assert_eq!(bits(&fuse(&chain(&x, doubled)).unwrap()), bits(&chain(&x, doubled)));
    let lazy = x.add(&x).unwrap();
    assert_eq!(bits(&fuse(&chain(&lazy, Array::clone)).unwrap()), bits(&chain(&doubled(&x), Array::clone)));
    // Nothing of ours: the array itself.
    assert_eq!(bits(&fuse(&lazy).unwrap()), bits(&doubled(&x)));
}

#[test]
fn what_was_evaluated_is_not_computed_again() {
    let x = noise(&[2, 32], 6.0);
    let first = chain(&x, Array::clone);
    first.wait().unwrap();
    let last = chain(&first, Array::clone);
    assert_eq!(bits(&fuse(&last).unwrap()), bits(&last));
}

#[test]
fn an_error_inside_is_the_error_of_the_whole() {
    let quantized =
        mlx_sys::Quantized::quantize(&noise(&[32, 32], 7.0), mlx_sys::Packing { group_size: 32, bits: 4 })
            .unwrap();
    let packed = mlx_sys::PackedMatrix::from_affine(&quantized, mlx_sys::Activations::Int16)
        .unwrap()
        .expect("a kernel");
    let rows = packed.rows(&Array::from_slice(&[40_i32], &[1]).unwrap()).unwrap();
    let fused = fuse(&packed.apply(&rows).unwrap()).unwrap();
    let error = fused.wait().unwrap_err().to_string();
    assert!(error.contains("row 40 of 32"), "{error}");
}
