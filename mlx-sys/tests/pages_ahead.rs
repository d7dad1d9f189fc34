//! Pages of KV memory that are present before they are used.

use mlx_sys::{Array, Dtype, PagesAhead, Result};

const PAGE: usize = 2 << 20;
/// Of 16 KiB each.
const BLOCKS: usize = 1024;
const BLOCKS_PER_PAGE: usize = PAGE / (16 << 10);

fn slab(contents: f32) -> Result<Array> {
    let array = Array::full(&[BLOCKS as i32, 4096], contents)?.copy()?;
    array.wait()?;
    Ok(array)
}

#[test]
fn a_page_is_wanted_from_the_middle_of_the_one_before_on() -> Result<()> {
    let slabs = [
        Array::uninit(&[BLOCKS as i32, 4096], Dtype::F32)?,
        Array::uninit(&[BLOCKS as i32, 16], Dtype::F32)?,
    ];
    let ahead = PagesAhead::new(&slabs.each_ref())?;
    assert_eq!(ahead.settle(), BLOCKS_PER_PAGE, "the first page at once");
    ahead.used(BLOCKS_PER_PAGE / 2 - 1);
    assert_eq!(ahead.settle(), BLOCKS_PER_PAGE);
    ahead.used(BLOCKS_PER_PAGE / 2);
    assert_eq!(ahead.settle(), 2 * BLOCKS_PER_PAGE);
    ahead.used(1);
    assert_eq!(ahead.settle(), 2 * BLOCKS_PER_PAGE, "what is there stays");
    ahead.used(BLOCKS);
    assert!(ahead.settle() >= BLOCKS, "and there is an end to it");
    Ok(())
}

#[test]
fn what_memory_holds_stays() -> Result<()> {
    let full = slab(7.5)?;
    let ahead = PagesAhead::new(&[&full])?;
    ahead.used(BLOCKS);
    assert!(ahead.settle() >= BLOCKS);
    drop(ahead);
    assert!(full.to_vec::<f32>()?.iter().all(|&value| value == 7.5));
    Ok(())
}

#[test]
fn memory_may_go_while_it_is_made_present() -> Result<()> {
    for _ in 0..8 {
        let slab = Array::uninit(&[BLOCKS as i32, 4096], Dtype::F32)?;
        let ahead = PagesAhead::new(&[&slab])?;
        ahead.used(BLOCKS);
        drop(slab);
        drop(ahead);
    }
    Ok(())
}
