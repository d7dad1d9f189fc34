//! Numbers in blocks: against the formats' definitions, and the affine form against the f32 one.

mod support;

use half::f16;
use support::GgufWriter;
use troupe_model_files::{AffineQuantized, ModelFiles, to_affine, to_f32, write_f32};

const ROWS: usize = 5;
const COLUMNS: usize = 64;
const NAME: &str = "model.layers.0.mlp.down_proj.weight";

/// A small generator of bytes: the high byte of a linear congruential step.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut step = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| step()).collect()
}

/// A model with one tensor of blocks: halves of ordinary size before random quants.
fn model(kind: u32, halves: usize, quants: usize) -> (ModelFiles, Vec<u8>) {
    let mut stored = Vec::new();
    for block in 0..(ROWS * COLUMNS / 32) as u64 {
        for half in 0..halves as u64 {
            let number = f16::from_f32((block as f32 - 4.3) * 0.037 + half as f32 * 0.11);
            stored.extend(number.to_le_bytes());
        }
        stored.extend(bytes(block * 31 + 7, quants));
    }
    let mut file = GgufWriter::tiny();
    file.tensor("blk.0.ffn_down.weight", &[COLUMNS as u64, ROWS as u64], kind, &stored);
    (file.open().expect("a good file"), stored)
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Element `i` of a block of nibbles: low ones first.
fn nibble(quants: &[u8], i: usize) -> f32 {
    f32::from(if i < 16 { quants[i] & 15 } else { quants[i - 16] >> 4 })
}

/// MLX's definition, element by element.
fn unpack(affine: &AffineQuantized) -> Vec<f32> {
    let (bits, group) = (affine.spec.bits() as usize, affine.spec.group_size());
    (0..affine.scales.len() * group)
        .map(|i| {
            let q = affine.packed[i * bits / 32] >> (i * bits % 32) & ((1 << bits) - 1);
            affine.scales[i / group].to_f32() * q as f32 + affine.biases[i / group].to_f32()
        })
        .collect()
}

#[test]
fn blocks_decode_by_their_definition() {
    type Element = fn(&[u8], usize) -> f32;
    let formats: [(&str, u32, usize, usize, Element); 3] = [
        ("Q4_0", 2, 1, 16, |block, i| (nibble(&block[2..], i) - 8.0) * half_at(block, 0)),
        ("Q4_1", 3, 2, 16, |block, i| nibble(&block[4..], i) * half_at(block, 0) + half_at(block, 2)),
        ("Q8_0", 8, 1, 32, |block, i| f32::from(block[2 + i] as i8) * half_at(block, 0)),
    ];
    for (name, kind, halves, quants, element) in formats {
        let (model, stored) = model(kind, halves, quants);
        let view = model.tensor(NAME).expect("a tensor");
        assert_eq!((view.format().to_string().as_str(), view.shape()), (name, &[ROWS, COLUMNS][..]));
        let blocks = stored.chunks(halves * 2 + quants);
        let expected: Vec<f32> = blocks.flat_map(|block| (0..32).map(move |i| element(block, i))).collect();
        assert_eq!(to_f32(&view).expect("floats"), expected, "{name}");
    }
}

#[test]
fn the_affine_form_holds_the_same_numbers() {
    for (kind, halves, quants, bits) in [(2, 1, 16, 4), (3, 2, 16, 4), (8, 1, 32, 8)] {
        let (model, _) = model(kind, halves, quants);
        let view = model.tensor(NAME).expect("a tensor");
        let affine = to_affine(&view).expect("an affine form");
        assert_eq!((affine.spec.bits(), affine.spec.group_size()), (bits, 32));
        assert_eq!(affine.packed.len(), ROWS * COLUMNS * bits as usize / 32);
        // scale * q and the bias round apart from (q - offset) * scale: equal up to an ulp of the larger term.
        let largest = affine.scales.iter().map(|scale| scale.to_f32().abs()).fold(0.0, f32::max) * 256.0;
        for (i, (got, want)) in unpack(&affine).iter().zip(to_f32(&view).expect("floats")).enumerate() {
            assert!(
                (got - want).abs() <= largest * f32::EPSILON,
                "type {kind}, element {i}: {got} and {want}"
            );
        }
    }
}

#[test]
fn the_affine_form_refuses_what_16_bits_cannot_hold() {
    for (kind, half, quants) in [(8, f16::from_f32(600.0), 32), (2, f16::NAN, 16), (3, f16::INFINITY, 16)] {
        let mut block = half.to_le_bytes().to_vec();
        block.resize(if kind == 3 { 4 } else { 2 }, 0);
        block.extend(vec![0; quants]);
        let mut file = GgufWriter::tiny();
        file.tensor("blk.0.ffn_down.weight", &[32, 1], kind, &block);
        let model = file.open().expect("a good file");
        let error = to_affine(&model.tensor(NAME).expect("a tensor")).expect_err("refused").to_string();
        assert!(error.contains(NAME) && error.contains("finite"), "{error}");
    }
    let dense = GgufWriter::tiny().open().expect("a good file");
    let error =
        to_affine(&dense.tensor("model.norm.weight").expect("a tensor")).expect_err("refused").to_string();
    assert!(error.contains("model.norm.weight") && error.contains("F32"), "{error}");
}

#[test]
fn dense_halves_widen_exactly() {
    let numbers = [0.0, -1.5, 0.333_251_95, 6.1e-5];
    let f16s: Vec<u8> = numbers.iter().flat_map(|&number| f16::from_f32(number).to_le_bytes()).collect();
    let bf16s: Vec<u8> =
        numbers.iter().flat_map(|&number| half::bf16::from_f32(number).to_le_bytes()).collect();
    let mut file = GgufWriter::tiny();
    file.tensor("blk.0.attn_norm.weight", &[4], 1, &f16s).tensor("blk.0.ffn_norm.weight", &[4], 30, &bf16s);
    let model = file.open().expect("a good file");
    let read = |name: &str| to_f32(&model.tensor(name).expect("a tensor")).expect("floats");
    let f16s = numbers.map(|number| f16::from_f32(number).to_f32());
    let bf16s = numbers.map(|number| half::bf16::from_f32(number).to_f32());
    assert_eq!(read("model.layers.0.input_layernorm.weight"), f16s);
    assert_eq!(read("model.layers.0.post_attention_layernorm.weight"), bf16s);
}

#[test]
fn memory_of_the_wrong_size_is_refused() {
    let model = GgufWriter::tiny().open().expect("a good file");
    let view = model.tensor("model.norm.weight").expect("a tensor");
    assert!(write_f32(&view, &mut [0.0; 31]).is_err());
    assert!(write_f32(&view, &mut [0.0; 32]).is_ok());
}
