//! Each group of operations against plain Rust on the same numbers.

use mlx_sys::{
    Array, Axis, Dtype, Mask, Orientation, Packing, Quantized, Result, Rope, RopeAngles, RopePairs, Scan,
    concatenate, random_bits, scaled_dot_product_attention, stack,
};

const X: [f32; 6] = [0.5, -1.25, 2.0, 0.0, -0.125, 3.5];
const Y: [f32; 6] = [1.5, 2.0, 2.0, -1.0, 0.25, 0.75];

fn array(data: &[f32], shape: &[i32]) -> Array {
    Array::from_slice(data, shape).unwrap()
}

fn ints(data: &[i32], shape: &[i32]) -> Array {
    Array::from_slice(data, shape).unwrap()
}

#[track_caller]
fn assert_close(found: &Array, wanted: &[f32]) {
    let found = found.to_vec::<f32>().unwrap();
    assert_eq!(found.len(), wanted.len());
    for (f, w) in found.iter().zip(wanted) {
        let close = (f - w).abs() <= 1e-5 * w.abs().max(1.0);
        assert!(close || f == w || (f.is_nan() && w.is_nan()), "{found:?} is not {wanted:?}");
    }
}

#[test]
fn unary_operations() {
    type Case = (&'static str, fn(&Array) -> Result<Array>, fn(f32) -> f32);
    let cases: [Case; 17] = [
        ("abs", Array::abs, f32::abs),
        ("contiguous", Array::contiguous, |x| x),
        ("copy", Array::copy, |x| x),
        ("cos", Array::cos, f32::cos),
        ("exp", Array::exp, f32::exp),
        ("floor", Array::floor, f32::floor),
        ("log", Array::log, f32::ln),
        ("log1p", Array::log1p, f32::ln_1p),
        ("negative", Array::negative, |x| -x),
        ("reciprocal", Array::reciprocal, |x| 1.0 / x),
        ("rsqrt", Array::rsqrt, |x| 1.0 / x.sqrt()),
        ("sigmoid", Array::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        ("sin", Array::sin, f32::sin),
        ("sqrt", Array::sqrt, f32::sqrt),
        ("square", Array::square, |x| x * x),
        ("stop_gradient", Array::stop_gradient, |x| x),
        ("tanh", Array::tanh, f32::tanh),
    ];
    for (name, op, plain) in cases {
        println!("{name}");
        assert_close(&op(&array(&X, &[6])).unwrap(), &X.map(plain));
    }
    assert_close(&array(&[0.5, -2.0], &[2]).erf().unwrap(), &[0.520_499_9, -0.995_322_3]);
    let odd = array(&[f32::NAN, 0.0], &[2]);
    assert_eq!(odd.isnan().unwrap().to_bools().unwrap(), [true, false]);
    assert_eq!(odd.logical_not().unwrap().to_bools().unwrap(), [false, true]);
}

#[test]
fn binary_operations() {
    type Case = (&'static str, fn(&Array, &Array) -> Result<Array>, fn(f32, f32) -> f32);
    let cases: [Case; 10] = [
        ("add", Array::add, |x, y| x + y),
        ("divide", Array::divide, |x, y| x / y),
        ("floor_divide", Array::floor_divide, |x, y| (x / y).floor()),
        ("logaddexp", Array::logaddexp, |x, y| (x.exp() + y.exp()).ln()),
        ("maximum", Array::maximum, f32::max),
        ("minimum", Array::minimum, f32::min),
        ("multiply", Array::multiply, |x, y| x * y),
        ("power", Array::power, f32::powf),
        ("remainder", Array::remainder, |x, y| x - y * (x / y).floor()),
        ("subtract", Array::subtract, |x, y| x - y),
    ];
    for (name, op, plain) in cases {
        println!("{name}");
        let wanted: Vec<f32> = X.iter().zip(Y).map(|(&x, y)| plain(x, y)).collect();
        assert_close(&op(&array(&X, &[2, 3]), &array(&Y, &[2, 3])).unwrap(), &wanted);
    }
    // Rows broadcast.
    let sum = array(&X, &[2, 3]).add(&array(&[1.0, 2.0, 3.0], &[3])).unwrap();
    assert_close(&sum, &[1.5, 0.75, 5.0, 1.0, 1.875, 6.5]);
}

#[test]
fn comparisons_and_bits() {
    type Case = (fn(&Array, &Array) -> Result<Array>, fn(&f32, &f32) -> bool);
    let cases: [Case; 8] = [
        (Array::equal, |x, y| x == y),
        (Array::greater, |x, y| x > y),
        (Array::greater_equal, |x, y| x >= y),
        (Array::less, |x, y| x < y),
        (Array::less_equal, |x, y| x <= y),
        (Array::logical_and, |x, y| *x != 0.0 && *y != 0.0),
        (Array::logical_or, |x, y| *x != 0.0 || *y != 0.0),
        (Array::not_equal, |x, y| x != y),
    ];
    for (op, plain) in cases {
        let wanted: Vec<bool> = X.iter().zip(&Y).map(|(x, y)| plain(x, y)).collect();
        assert_eq!(op(&array(&X, &[6]), &array(&Y, &[6])).unwrap().to_bools().unwrap(), wanted);
    }
    let (a, b) =
        (Array::from_slice(&[12_u32, 5], &[2]).unwrap(), Array::from_slice(&[2_u32, 1], &[2]).unwrap());
    let bits = |op: fn(&Array, &Array) -> Result<Array>| op(&a, &b).unwrap().to_vec::<u32>().unwrap();
    assert_eq!(bits(Array::bitwise_and), [0, 1]);
    assert_eq!(bits(Array::bitwise_xor), [14, 4]);
    assert_eq!(bits(Array::left_shift), [48, 10]);
    assert_eq!(bits(Array::right_shift), [3, 2]);
    let chosen = array(&X, &[6]).less(&array(&Y, &[6])).unwrap().where_(&array(&X, &[6]), &array(&Y, &[6]));
    assert_close(&chosen.unwrap(), &[0.5, -1.25, 2.0, -1.0, -0.125, 0.75]);
}

#[test]
fn folds_and_scans() {
    let x = array(&X, &[2, 3]);
    assert_close(&x.sum(-1, Axis::Drop).unwrap(), &[1.25, 3.375]);
    assert_close(&x.mean(0, Axis::Drop).unwrap(), &[0.25, -0.6875, 2.75]);
    assert_close(&x.max(1, Axis::Drop).unwrap(), &[2.0, 3.5]);
    assert_close(&x.min(1, Axis::Drop).unwrap(), &[-1.25, -0.125]);
    let lse = [X[..3].iter(), X[3..].iter()].map(|row| row.map(|x| x.exp()).sum::<f32>().ln());
    assert_close(&x.logsumexp(1, Axis::Drop).unwrap(), &lse);
    assert_eq!(x.argmax(1, Axis::Keep).unwrap().shape(), [2, 1]);
    assert_eq!(x.argmax(1, Axis::Drop).unwrap().to_vec::<u32>().unwrap(), [2, 2]);
    assert_eq!(x.argmin(1, Axis::Drop).unwrap().to_vec::<u32>().unwrap(), [1, 1]);
    let positive = x.greater(&Array::scalar(0.0_f32).unwrap()).unwrap();
    assert_eq!(positive.any(1, Axis::Drop).unwrap().to_bools().unwrap(), [true, true]);
    assert_eq!(positive.all(0, Axis::Drop).unwrap().to_bools().unwrap(), [false, false, true]);
    for (scan, wanted) in [
        (Scan::Inclusive, [1.0, 3.0, 6.0]),
        (Scan::Exclusive, [0.0, 1.0, 3.0]),
        (Scan::ReverseInclusive, [6.0, 5.0, 3.0]),
        (Scan::ReverseExclusive, [5.0, 3.0, 0.0]),
    ] {
        assert_close(&array(&[1.0, 2.0, 3.0], &[3]).cumsum(0, scan).unwrap(), &wanted);
    }
    let weights: Vec<f32> = X[..3].iter().map(|x| (x - lse[0]).exp()).collect();
    assert_close(&array(&X[..3], &[3]).softmax(-1).unwrap(), &weights);
}

#[test]
fn order() {
    let x = array(&X, &[6]);
    assert_close(&x.sort(0).unwrap(), &[-1.25, -0.125, 0.0, 0.5, 2.0, 3.5]);
    assert_eq!(x.argsort(0).unwrap().to_vec::<u32>().unwrap(), [1, 4, 3, 0, 2, 5]);
    let part = x.argpartition(1, 0).unwrap().to_vec::<u32>().unwrap();
    assert_eq!((part[0], part[1]), (1, 4));
    assert_close(&x.topk(2, 0).unwrap().sort(0).unwrap(), &[2.0, 3.5]);
}

#[test]
fn shapes() {
    let x = array(&X, &[2, 3]);
    assert_eq!(x.reshape(&[3, -1]).unwrap().shape(), [3, 2]);
    assert_eq!(x.expand_dims(&[0, 3]).unwrap().shape(), [1, 2, 3, 1]);
    assert_eq!(x.expand_dims(&[0]).unwrap().squeeze(&[0]).unwrap().shape(), [2, 3]);
    assert_eq!(x.flatten(0, -1).unwrap().shape(), [6]);
    assert_close(&x.swapaxes(0, 1).unwrap(), &[0.5, 0.0, -1.25, -0.125, 2.0, 3.5]);
    assert_eq!(x.broadcast_to(&[4, 2, 3]).unwrap().shape(), [4, 2, 3]);
    assert_close(
        &concatenate(&[&x, &x], 1).unwrap().slice(&[0, 2], &[2, 5], &[1, 2]).unwrap(),
        &[2.0, -1.25, 3.5, -0.125],
    );
    assert_eq!(stack(&[&x, &x, &x], 1).unwrap().shape(), [2, 3, 3]);
    let parts = x.split(&[1], 1).unwrap();
    assert_close(&parts[0], &[0.5, 0.0]);
    assert_close(&parts[1], &[-1.25, 2.0, -0.125, 3.5]);
    let updated = x.slice_update(&array(&[9.0, 8.0], &[2, 1]), &[0, 1], &[2, 2]).unwrap();
    assert_close(&updated, &[0.5, 9.0, 2.0, 0.0, 8.0, 3.5]);
    assert_eq!(x.dim(-1), 3);
    assert_eq!(x.view(Dtype::U32).unwrap().to_vec::<u32>().unwrap(), X.map(f32::to_bits));
}

#[test]
fn indexing() {
    let x = array(&X, &[3, 2]);
    assert_close(&x.take(&ints(&[2, 0], &[2]), 0).unwrap(), &[-0.125, 3.5, 0.5, -1.25]);
    assert_close(&x.take_along_axis(&ints(&[1, 0, 1], &[3, 1]), 1).unwrap(), &[-1.25, 2.0, 3.5]);
    let put = x.put_along_axis(&ints(&[1, 0, 1], &[3, 1]), &array(&[7.0, 8.0, 9.0], &[3, 1]), 1).unwrap();
    assert_close(&put, &[0.5, 7.0, 8.0, 0.0, -0.125, 9.0]);
    let rows = array(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    assert_close(&x.set_rows(&ints(&[2, 0], &[2]), &rows).unwrap(), &[3.0, 4.0, 2.0, 0.0, 1.0, 2.0]);
    assert_close(&x.add_rows(&ints(&[1, 1], &[2]), &rows).unwrap(), &[0.5, -1.25, 6.0, 6.0, -0.125, 3.5]);
}

#[test]
fn quantised_products_equal_those_of_the_dequantised_matrix() {
    let data: Vec<f32> = (0..8 * 128).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let matrix = array(&data, &[8, 128]);
    let x = array(&data[..256], &[2, 128]);
    for bits in [2, 3, 4, 5, 6, 8] {
        let quantized = Quantized::quantize(&matrix, Packing { group_size: 32, bits }).unwrap();
        let plain = quantized.dequantize(Dtype::F32).unwrap();
        let error = plain.subtract(&matrix).unwrap().abs().unwrap().flatten(0, -1).unwrap();
        let step = 2.0 / ((1 << bits) - 1) as f32;
        assert!(error.max(0, Axis::Drop).unwrap().item::<f32>().unwrap() <= step, "{bits} bits");
        let wanted = x.matmul(&plain.transpose(&[1, 0]).unwrap()).unwrap().to_vec::<f32>().unwrap();
        assert_close(&quantized.matmul(&x, Orientation::Transposed).unwrap(), &wanted);
    }
}

#[test]
fn stock_attention_and_rope() {
    // Two keys with scores 0 and ln 3: weights 1/4 and 3/4.
    let q = array(&[1.0, 0.0], &[1, 1, 1, 2]);
    let k = array(&[0.0, 5.0, 3.0_f32.ln(), 1.0], &[1, 1, 2, 2]);
    let v = array(&[4.0, 8.0, 0.0, 4.0], &[1, 1, 2, 2]);
    for mask in [Mask::None, Mask::Causal, Mask::Array(&array(&[0.0, 0.0], &[1, 2]))] {
        assert_close(&scaled_dot_product_attention(&q, &k, &v, 1.0, mask).unwrap(), &[1.0, 5.0]);
    }
    let x = array(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 1, 4]);
    let (s, c) = (2.0_f32.sin(), 2.0_f32.cos());
    let (t, d) = (0.2_f32.sin(), 0.2_f32.cos());
    for (pairs, wanted) in [
        (RopePairs::HalfSplit, [c - 3.0 * s, 2.0 * d - 4.0 * t, 3.0 * c + s, 4.0 * d + 2.0 * t]),
        (RopePairs::Interleaved, [c - 2.0 * s, 2.0 * c + s, 3.0 * d - 4.0 * t, 4.0 * d + 3.0 * t]),
    ] {
        for angles in [RopeAngles::Base(100.0), RopeAngles::Periods(array(&[1.0, 10.0], &[2]))] {
            let rope = Rope { dims: 4, pairs, angles, scale: 1.0 };
            assert_close(&rope.apply(&x, 2).unwrap(), &wanted);
        }
    }
}

#[test]
fn random_bits_follow_their_key() {
    let key = |n: u32| Array::from_slice(&[0, n], &[2]).unwrap();
    let bits = |n| random_bits(&[8], 4, &key(n)).unwrap().to_vec::<u32>().unwrap();
    assert_eq!(bits(1), bits(1));
    assert_ne!(bits(1), bits(2));
}
