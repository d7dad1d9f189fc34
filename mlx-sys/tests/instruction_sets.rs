//! The choice of an instruction set by hand: each computes the same product, and one that is not there is refused.

use mlx_sys::{Array, Dtype, instruction_set, instruction_sets, use_instruction_set};

// One test, since a process has one set at a time.
#[test]
fn a_set_is_used_once_it_is_chosen_and_an_unknown_one_is_refused() {
    let sets = instruction_sets();
    assert_eq!(instruction_set(), sets[0], "the best is the default");
    assert_eq!(sets.last().map(String::as_str), Some("base"), "every machine runs it");
    let x = Array::arange(0.0, 640.0, 1.0, Dtype::F32).unwrap().reshape(&[10, 64]).unwrap();
    for set in &sets {
        use_instruction_set(set).unwrap();
        assert_eq!(&instruction_set(), set);
        let squares = x.linear(&x).unwrap().to_vec::<f32>().unwrap();
        // 64 whole numbers from 64 i on, squared: exact in f32.
        for i in 0..10 {
            let wanted: u32 = (64 * i..64 * (i + 1)).map(|n| n * n).sum();
            assert_eq!(squares[(11 * i) as usize], wanted as f32, "{set}");
        }
    }
    let error = use_instruction_set("v9").unwrap_err().to_string();
    assert_eq!(error, format!("no instruction set v9: this machine runs {}", sets.join(", ")));
    assert_eq!(instruction_set(), "base", "a refused choice changes nothing");
}
