//! The allocator's counters. One test: they belong to the process.

use mlx_sys::{Array, Dtype, memory};

const MIB: usize = 1 << 20;

#[test]
fn dropped_arrays_return_their_memory() {
    let limit = memory::set_cache_limit(0).unwrap();
    memory::clear_cache();
    let before = memory::active();
    memory::reset_peak();
    let slab = Array::uninit(&[64, 1 << 20], Dtype::U8).unwrap();
    assert_eq!(memory::active() - before, 64 * MIB);
    let copy = slab.clone();
    drop(slab);
    assert_eq!(memory::active() - before, 64 * MIB);
    drop(copy);
    assert!(memory::active() <= before);
    assert!(memory::peak() >= before + 64 * MIB);
    assert_eq!(memory::cache(), 0);

    memory::set_cache_limit(limit).unwrap();
    drop(Array::full(&[MIB as i32], 0_u8).unwrap().to_bytes().unwrap());
    assert!(memory::cache() >= MIB);
    memory::clear_cache();
    assert_eq!(memory::cache(), 0);

    let old = memory::set_limit(1 << 30).unwrap();
    assert_eq!(memory::set_limit(old).unwrap(), 1 << 30);
    memory::set_wired_limit(0).unwrap();
}
