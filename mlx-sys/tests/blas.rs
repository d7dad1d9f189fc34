//! MLX's products run on our kernel. By itself in a program that uses little else: what such a program does not name,
//! the linker drops.
#![cfg(target_os = "linux")]

use mlx_sys::Array;

/// One element of a product as our kernel sums it: sixteen lanes, then a tree.
fn lane_sum(a: &[f32], b: &[f32], fused: bool) -> f32 {
    let mut lanes = [0.0_f32; 16];
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        let lane = &mut lanes[i % 16];
        *lane = if fused { x.mul_add(*y, *lane) } else { *lane + x * y };
    }
    let f: Vec<f32> = (0..8).map(|i| lanes[i] + lanes[i + 8]).collect();
    ((f[0] + f[1]) + (f[2] + f[3])) + ((f[4] + f[5]) + (f[6] + f[7]))
}

#[test]
fn mlx_calls_our_product_and_not_the_blas_it_was_linked_to() {
    let (n, k) = (40, 576);
    let noise = |count: usize| -> Vec<f32> { (0..count).map(|i| (i as f32 * 1.7).sin()).collect() };
    let (a, b) = (noise(k), noise(n * k));
    let x = Array::from_slice(&a, &[1, k as i32]).unwrap();
    let weight = Array::from_slice(&b, &[n as i32, k as i32]).unwrap().transpose(&[1, 0]).unwrap();
    let found: Vec<u32> =
        x.matmul(&weight).unwrap().to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
    let wanted = |fused| -> Vec<u32> { b.chunks(k).map(|row| lane_sum(&a, row, fused).to_bits()).collect() };
    assert!(found == wanted(true) || found == wanted(false));
}
