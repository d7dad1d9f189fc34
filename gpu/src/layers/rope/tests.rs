//! Partial rotation and its bounds; whole heads are compared with the reference in tests/parity.rs.

use mlx_sys::Array;
use serde_json::{Value, json};
use troupe_protocol::{
    Binding, BlockId, EngineLimits, LengthClasses, Row, RowOutput, RowTokens, SamplingParams, SequenceId,
    SlotId, StepId, StepPlan,
};

use super::{Rope, length_classes};
use crate::batch::Batch;
use crate::error::Result;
use crate::models::ConfigReader;
use crate::slots::Slots;

fn read(config: Value, head_dim: usize) -> Result<Rope> {
    Rope::from_config(&ConfigReader::new(config.as_object().unwrap().clone()), head_dim)
}

/// A step of one row: `count` tokens from `start` on.
fn batch(start: u32, count: u32) -> Batch {
    let limits = EngineLimits {
        max_model_len: 64,
        max_num_seqs: 1,
        max_num_batched_tokens: 64,
        max_num_prompt_logprobs: 64,
        block_size: 64,
        num_blocks: 1,
        num_stored_blocks: 0,
        vocab_size: 64,
        length_classes: LengthClasses::One,
    };
    let (slot, sampling) = (SlotId(0), SamplingParams::greedy());
    let mut slots = Slots::new(1, 64).unwrap();
    slots.bind(&Binding { slot, sampling, history: None, max_len: 64 }).unwrap();
    let row = Row {
        sequence: SequenceId(0),
        slot,
        start,
        tokens: RowTokens::Prompt((0..count).collect()),
        blocks: vec![BlockId(0)],
        targets: vec![],
        output: RowOutput::None,
        mask: None,
    };
    Batch::new(
        &StepPlan {
            step: StepId(0),
            saves: Vec::new(),
            loads: Vec::new(),
            bindings: vec![],
            rows: vec![row],
        },
        &slots,
        &limits,
    )
    .unwrap()
}

#[test]
fn a_part_of_a_head_is_rotated_and_the_rest_passes() {
    const HEAD_DIM: usize = 12;
    const THETA: f64 = 100.0;
    let (start, count, heads) = (30, 3, 2);
    for (share, dims) in [(1.0, 12), (0.5, 6), (0.34, 4)] {
        let rope = read(json!({"partial_rotary_factor": share, "rope_theta": THETA}), HEAD_DIM).unwrap();
        let x: Vec<f32> =
            (0..count * heads * HEAD_DIM).map(|at| ((at * 7) % 23) as f32 / 11.0 - 1.0).collect();
        let array = Array::from_slice(&x, &[count as i32, heads as i32, HEAD_DIM as i32]).unwrap();
        let angles = rope.angles(&batch(start, count as u32)).unwrap();
        let found = array.rotate_half(&angles.cos, &angles.sin).unwrap().to_vec::<f32>().unwrap();
        for (at, &found) in found.iter().enumerate() {
            let (position, dim) = (f64::from(start) + (at / (heads * HEAD_DIM)) as f64, at % HEAD_DIM);
            let value = |dim: usize| f64::from(x[at / HEAD_DIM * HEAD_DIM + dim]);
            let half = dims / 2;
            let angle = position * THETA.powf(-2.0 * (dim % half) as f64 / dims as f64);
            let wanted = match dim {
                _ if dim < half => value(dim) * angle.cos() - value(dim + half) * angle.sin(),
                _ if dim < dims => value(dim) * angle.cos() + value(dim - half) * angle.sin(),
                _ => value(dim),
            };
            assert!((f64::from(found) - wanted).abs() < 1e-5, "{share}, element {at}: {found}, not {wanted}");
        }
    }
}

#[test]
fn a_part_that_is_no_pairs_is_refused() {
    for (share, head_dim) in [(0.0, 16), (0.2, 16), (1.2, 16), (-0.5, 16), (1.0, 15)] {
        let error = read(json!({"partial_rotary_factor": share}), head_dim).unwrap_err().to_string();
        assert!(error.contains("dimensions cannot be rotated"), "{share} of {head_dim}: {error}");
    }
}

#[test]
fn lengths_of_one_class_have_the_same_frequencies_and_others_do_not() {
    let model = |scaling: Value| {
        json!({
            "rope_theta": 1e4, "max_position_embeddings": 64, "original_max_position_embeddings": 32,
            "rope_scaling": scaling,
        })
    };
    let longrope = json!({
        "rope_type": "longrope", "short_factor": [1.0, 1.0, 1.0, 1.0], "long_factor": [2.0, 3.0, 4.0, 5.0],
    });
    let llama3 = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    });
    for (scaling, num_classes) in [
        (json!({"rope_type": "dynamic", "factor": 2.0}), 3),
        (longrope, 2),
        (llama3, 1),
        (json!({"rope_type": "yarn", "factor": 2.0}), 1),
        (json!(null), 1),
    ] {
        let config = model(scaling);
        let rope = read(config.clone(), 8).unwrap();
        let classes = length_classes(&ConfigReader::new(config.as_object().unwrap().clone())).unwrap();
        let lengths = [1, 31, 32, 33, 63, 64, 65, 128];
        let mut found = std::collections::BTreeSet::new();
        for one in lengths {
            found.insert(classes.class_of(one));
            for other in lengths {
                let alike = rope.frequencies(one) == rope.frequencies(other);
                assert_eq!(
                    classes.class_of(one) == classes.class_of(other),
                    alike,
                    "{one} and {other} of {config}"
                );
            }
        }
        assert_eq!(found.len(), num_classes, "{config}");
    }
}
