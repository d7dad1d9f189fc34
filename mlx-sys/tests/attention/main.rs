//! Paged attention as a graph node against a plain oracle: its inputs, options and types, what it refuses, and its row
//! invariance bit for bit. The kernel's own tests are in cpp/tests.

mod oracle;

use std::num::NonZeroU32;

use mlx_sys::{
    Array, Columns, Dtype, KvLayout, KvSlabs, Projected, RaggedBatch, ScoreOptions, TokenAngles, Visibility,
    paged_attention,
};

use oracle::oracle;

/// A small generator (xorshift), so that a seed gives the same case everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }
}

#[derive(Clone, Copy)]
struct Model {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    block_size: usize,
    /// Pairs that are rotated.
    half: usize,
}

const SMALL: Model = Model { heads: 6, kv_heads: 2, dim: 64, block_size: 16, half: 32 };

/// A whole sequence's projections, not rotated, and the blocks that it owns.
struct Sequence {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    len: usize,
    blocks: Vec<i32>,
}

/// What scores are made with, the sinks as numbers.
#[derive(Clone)]
struct Scores {
    window: Option<u32>,
    softcap: Option<f32>,
    visibility: Visibility,
    sinks: Option<Vec<f32>>,
}

const SCALE: f32 = 0.125;
const PLAIN: Scores = Scores { window: None, softcap: None, visibility: Visibility::Causal, sinks: None };

struct World {
    model: Model,
    slabs: KvSlabs,
    free: Vec<i32>,
    random: Random,
    scores: Scores,
}

/// One row of a step: tokens `start..end` of a sequence.
type Row<'a> = (&'a Sequence, usize, usize);

fn ints(data: &[i32]) -> Array {
    Array::from_slice(data, &[data.len() as i32]).unwrap()
}

fn matrix(data: &[f32], rows: usize) -> Array {
    Array::from_slice(data, &[rows as i32, (data.len() / rows.max(1)) as i32]).unwrap()
}

fn angle(token: usize, pair: usize) -> f64 {
    token as f64 * 100_f64.powf(-(pair as f64) / 8.0)
}

fn columns(array: &Array, first: i32) -> Columns<'_> {
    Columns { array, first }
}

impl World {
    fn new(model: Model, dtype: Dtype, blocks: usize, seed: u64) -> Self {
        let layout = KvLayout {
            num_blocks: blocks as i32,
            block_size: model.block_size as i32,
            kv_heads: model.kv_heads as i32,
            dim: model.dim as i32,
        };
        let mut random = Random(seed);
        let mut free: Vec<i32> = (0..blocks as i32).collect();
        for i in (1..free.len()).rev() {
            free.swap(i, random.below(i + 1));
        }
        Self { model, slabs: KvSlabs::new(layout, dtype).unwrap(), free, random, scores: PLAIN }
    }

    fn sequence(&mut self, len: usize) -> Sequence {
        let Model { heads, kv_heads, dim, block_size, .. } = self.model;
        let blocks = self.free.split_off(self.free.len() - len.div_ceil(block_size));
        let kv = len * kv_heads * dim;
        let q = self.random.floats(len * heads * dim).iter().map(|x| 4.0 * x).collect();
        Sequence { q, k: self.random.floats(kv), v: self.random.floats(kv), len, blocks }
    }

    fn batch(&self, rows: &[Row<'_>]) -> RaggedBatch {
        let block_size = self.model.block_size;
        let (mut offsets, mut contexts, mut slots) = (vec![0], vec![], vec![]);
        let width = rows.iter().map(|(s, ..)| s.blocks.len()).max().unwrap();
        let mut tables = vec![];
        for &(s, start, end) in rows {
            offsets.push(offsets.last().unwrap() + (end - start) as i32);
            contexts.push(start as i32);
            slots.extend(
                (start..end).map(|p| s.blocks[p / block_size] * block_size as i32 + (p % block_size) as i32),
            );
            tables.extend_from_slice(&s.blocks);
            tables.extend(std::iter::repeat_n(-1, width - s.blocks.len()));
        }
        RaggedBatch {
            row_offsets: ints(&offsets),
            context_lens: ints(&contexts),
            slot_mapping: ints(&slots),
            block_tables: Array::from_slice(&tables, &[rows.len() as i32, width as i32]).unwrap(),
        }
    }

    /// Attention of some rows, given three arrays of projections.
    fn step(&self, rows: &[Row<'_>]) -> Vec<Vec<f32>> {
        let (mut q, mut k, mut v) = (vec![], vec![], vec![]);
        let (wide, narrow) = (self.model.heads * self.model.dim, self.model.kv_heads * self.model.dim);
        for &(s, start, end) in rows {
            q.extend_from_slice(&s.q[start * wide..end * wide]);
            k.extend_from_slice(&s.k[start * narrow..end * narrow]);
            v.extend_from_slice(&s.v[start * narrow..end * narrow]);
        }
        let tokens = q.len() / wide;
        let (q, k, v) = (matrix(&q, tokens), matrix(&k, tokens), matrix(&v, tokens));
        let out = self.attend([columns(&q, 0), columns(&k, 0), columns(&v, 0)], rows);
        assert_eq!(out.shape(), [tokens as i32, wide as i32]);
        let out = out.to_vec::<f32>().unwrap();
        let mut end = 0;
        let of_row = |&(_, first, last): &Row<'_>| {
            let start = end;
            end += (last - first) * wide;
            out[start..end].to_vec()
        };
        rows.iter().map(of_row).collect()
    }

    fn attend(&self, [q, k, v]: [Columns<'_>; 3], rows: &[Row<'_>]) -> Array {
        let positions = || rows.iter().flat_map(|&(_, start, end)| start..end);
        let table = |of: fn(f64) -> f64| {
            let half = self.model.half;
            let values: Vec<f32> =
                positions().flat_map(|t| (0..half).map(move |i| of(angle(t, i)) as f32)).collect();
            Array::from_slice(&values, &[positions().count() as i32, half as i32]).unwrap()
        };
        let (cos, sin) = (table(f64::cos), table(f64::sin));
        let angles = (self.model.half > 0).then_some(TokenAngles { cos: &cos, sin: &sin });
        let sinks =
            self.scores.sinks.as_ref().map(|sinks| Array::from_slice(sinks, &[sinks.len() as i32]).unwrap());
        let scores = ScoreOptions {
            scale: SCALE,
            softcap: self.scores.softcap,
            window: self.scores.window.map(|window| NonZeroU32::new(window).unwrap()),
            visibility: self.scores.visibility,
            sinks: sinks.as_ref(),
        };
        let projected = Projected { q, k, v, heads: self.model.heads as i32, angles };
        paged_attention(projected, &self.slabs, &self.batch(rows), scores).unwrap()
    }
}

#[track_caller]
fn assert_close(found: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(found.len(), wanted.len());
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= tolerance, "element {i}: {f} is not {w}");
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn random_ragged_batches_equal_the_oracle() {
    let models = [
        SMALL,
        Model { heads: 3, kv_heads: 3, dim: 80, block_size: 7, half: 0 },
        Model { heads: 8, kv_heads: 1, dim: 128, block_size: 32, half: 64 },
        Model { heads: 2, kv_heads: 2, dim: 20, block_size: 1, half: 3 },
    ];
    for (seed, model) in models.into_iter().cycle().take(12).enumerate() {
        let mut world = World::new(model, Dtype::F32, 600, seed as u64 + 1);
        let sequences: Vec<Sequence> = (0..4)
            .map(|_| {
                let len = 1 + world.random.below(140);
                world.sequence(len)
            })
            .collect();
        let mut found = vec![vec![]; sequences.len()];
        let mut done = [0; 4];
        while done.iter().zip(&sequences).any(|(&done, s)| done < s.len) {
            let mut rows = vec![];
            let mut who = vec![];
            for (i, s) in sequences.iter().enumerate().filter(|(i, s)| done[*i] < s.len) {
                let most = (s.len - done[i]).min(if world.random.below(2) == 0 { 1 } else { 64 });
                let end = done[i] + 1 + world.random.below(most);
                rows.push((s, done[i], end));
                who.push((i, end));
            }
            for ((i, end), out) in who.into_iter().zip(world.step(&rows)) {
                found[i].extend(out);
                done[i] = end;
            }
        }
        for (found, s) in found.iter().zip(&sequences) {
            assert_close(found, &oracle(model, s, &world.scores), 2e-5);
        }
    }
}

#[test]
fn every_option_equals_the_oracle() {
    let bidirectional = Visibility::Bidirectional;
    for scores in [
        Scores { window: Some(1), ..PLAIN },
        Scores { window: Some(50), visibility: bidirectional, ..PLAIN },
        Scores { softcap: Some(3.0), visibility: bidirectional, ..PLAIN },
        Scores {
            window: Some(70),
            softcap: Some(0.5),
            sinks: Some(vec![1.0, -2.0, 0.0, 9.0, 3.0, -30.0]),
            ..PLAIN
        },
    ] {
        let mut world = World::new(SMALL, Dtype::F32, 40, 9);
        world.scores = scores;
        let s = world.sequence(200);
        let found = world.step(&[(&s, 0, 200)]).remove(0);
        assert_close(&found, &oracle(SMALL, &s, &world.scores), 2e-5);
    }
}

/// The kernel's own test justifies a bound for every element; here it is only seen that the types reach it.
#[test]
fn every_type_of_slab_holds_keys_and_values() {
    for (dtype, bytes, tolerance) in
        [(Dtype::F32, 256, 2e-5), (Dtype::F16, 128, 5e-3), (Dtype::Bf16, 128, 4e-2), (Dtype::I8, 68, 6e-2)]
    {
        let mut world = World::new(SMALL, dtype, 40, 11);
        let s = world.sequence(150);
        let mut found = world.step(&[(&s, 0, 149)]).remove(0);
        found.extend(world.step(&[(&s, 149, 150)]).remove(0));
        assert_close(&found, &oracle(SMALL, &s, &PLAIN), tolerance);
        assert_eq!(world.slabs.nbytes(), 2 * 40 * 16 * 2 * bytes);
    }
}

#[test]
fn a_prompt_in_five_pieces_gives_the_bits_of_one() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::I8] {
        let mut world = World::new(SMALL, dtype, 40, 5);
        let s = world.sequence(300);
        let whole = world.step(&[(&s, 0, 300)]).remove(0);
        let cuts = [0, 1, 17, 64, 299, 300];
        let pieces: Vec<f32> =
            cuts.windows(2).flat_map(|cut| world.step(&[(&s, cut[0], cut[1])]).remove(0)).collect();
        assert_eq!(bits(&pieces), bits(&whole));
    }
}

#[test]
fn neighbours_do_not_change_a_bit() {
    let mut world = World::new(SMALL, Dtype::F16, 80, 6);
    let s = world.sequence(150);
    let others: Vec<Sequence> = [33, 150, 1].map(|len| world.sequence(len)).into();
    let alone = world.step(&[(&s, 0, 140)]).remove(0);
    let last = world.step(&[(&s, 140, 141)]).remove(0);
    let beside = world.step(&[(&others[0], 0, 33), (&s, 0, 140), (&others[1], 0, 150), (&others[2], 0, 1)]);
    assert_eq!(bits(&beside[1]), bits(&alone));
    let beside = world.step(&[(&others[1], 149, 150), (&others[0], 30, 33), (&s, 140, 141)]);
    assert_eq!(bits(&beside[2]), bits(&last));
}

#[test]
fn projections_are_read_where_they_lie() {
    let mut world = World::new(SMALL, Dtype::F32, 8, 7);
    let s = world.sequence(9);
    let rows = [(&s, 0, 9)];
    let wanted = world.step(&rows).remove(0);
    let (q, k, v) = (matrix(&s.q, 9), matrix(&s.k, 9), matrix(&s.v, 9));
    // Columns of one array, as a fused projection gives them, and the transpose of a transposed copy.
    let fused = mlx_sys::concatenate(&[&v, &q, &k], 1).unwrap();
    let turned = q.transpose(&[1, 0]).unwrap().contiguous().unwrap().transpose(&[1, 0]).unwrap();
    for of in [
        [columns(&fused, 128), columns(&fused, 128 + 384), columns(&fused, 0)],
        [columns(&turned, 0), columns(&k, 0), columns(&v, 0)],
    ] {
        let found = world.attend(of, &rows);
        assert_eq!(bits(&found.to_vec::<f32>().unwrap()), bits(&wanted));
    }
}

fn one_token(slot: i32, block: i32, context: i32) -> RaggedBatch {
    RaggedBatch {
        row_offsets: ints(&[0, 1]),
        context_lens: ints(&[context]),
        slot_mapping: ints(&[slot]),
        block_tables: Array::from_slice(&[block], &[1, 1]).unwrap(),
    }
}

fn zeros(shape: &[i32]) -> Array {
    Array::full(shape, 0.0_f32).unwrap()
}

#[test]
fn wrong_shapes_and_types_are_refused_by_name() {
    let world = World::new(SMALL, Dtype::F32, 4, 8);
    let (x, short, half) = (zeros(&[1, 384]), zeros(&[1, 120]), zeros(&[1, 384]).astype(Dtype::F16).unwrap());
    let (angles, wide) = (zeros(&[1, 32]), zeros(&[1, 33]));
    let sinks = zeros(&[5]);
    let good = Projected { q: columns(&x, 0), k: columns(&x, 0), v: columns(&x, 0), heads: 6, angles: None };
    let turned = |cos, sin| Projected { angles: Some(TokenAngles { cos, sin }), ..good };
    let refused = |projected: Projected<'_>, slabs: &KvSlabs, sinks: Option<&Array>| {
        let scores = ScoreOptions { sinks, ..ScoreOptions::causal(SCALE) };
        paged_attention(projected, slabs, &one_token(0, 0, 0), scores).unwrap_err().to_string()
    };
    let mut mixed = world.slabs.clone();
    mixed.values = mixed.values.astype(Dtype::F16).unwrap();
    let unscaled = KvSlabs { scales: None, ..World::new(SMALL, Dtype::I8, 4, 8).slabs };
    let empty = World::new(Model { block_size: 0, ..SMALL }, Dtype::F32, 4, 8).slabs;
    for (error, wanted) in [
        (
            refused(Projected { k: columns(&short, 0), ..good }, &world.slabs, None),
            "k is float32(1,120), not",
        ),
        (refused(Projected { v: columns(&half, 0), ..good }, &world.slabs, None), "v is float16(1,384), not"),
        (refused(Projected { q: columns(&x, 1), ..good }, &world.slabs, None), "384 columns from 1 on"),
        (refused(Projected { q: columns(&x, -1), ..good }, &world.slabs, None), "384 columns from -1 on"),
        (refused(Projected { heads: 5, ..good }, &world.slabs, None), "heads that divides 5"),
        (
            refused(turned(&wide, &wide), &world.slabs, None),
            "cos is float32(1,33), not of at most 32 columns",
        ),
        (refused(turned(&angles, &x), &world.slabs, None), "sin is float32(1,384), not float32(1,32)"),
        (refused(good, &world.slabs, Some(&sinks)), "sinks is float32(5), not float32(6)"),
        (refused(good, &mixed, None), "the value slab is float16(4,2,16,64), not float32"),
        (
            refused(good, &unscaled, None),
            "the key slab is int8(4,2,64,16), not of a type that goes with its scales",
        ),
        (refused(good, &empty, None), "blocks of at least one token"),
    ] {
        assert!(error.starts_with("[paged_attention] ") && error.contains(wanted), "{error}");
    }
}

#[test]
fn slots_and_blocks_outside_the_slab_are_errors_of_the_evaluation() {
    let nan = || {
        let slab = Array::full(&[4, 2, 64, 16], f32::NAN).unwrap().copy().unwrap();
        slab.wait().unwrap();
        slab
    };
    let slabs = KvSlabs { keys: nan(), values: nan().reshape(&[4, 2, 16, 64]).unwrap(), scales: None };
    slabs.values.wait().unwrap();
    let x = zeros(&[1, 384]);
    let projected =
        Projected { q: columns(&x, 0), k: columns(&x, 0), v: columns(&x, 0), heads: 6, angles: None };
    let attend = |batch: &RaggedBatch| {
        let out = paged_attention(projected, &slabs, batch, ScoreOptions::causal(SCALE)).unwrap();
        mlx_sys::eval(&[&out])
    };
    for (batch, wanted) in [
        (one_token(64, 0, 0), "slot_mapping names a slot outside the slab: 64"),
        (one_token(-1, 0, 0), "slot_mapping names a slot outside the slab: -1"),
        (one_token(0, 4, 0), "block_tables names a block outside the slab: 4"),
        (one_token(0, 0, 16), "the block table is too short for row 0"),
        (one_token(0, 0, -1), "the block table is too short for row 0"),
    ] {
        let error = attend(&batch).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
    // Nothing was written, and the stream is usable afterwards.
    assert!(slabs.keys.to_vec::<f32>().unwrap().iter().all(|value| value.is_nan()));
    attend(&one_token(17, 1, 0)).unwrap();
    assert_eq!(slabs.keys.to_vec::<f32>().unwrap().iter().filter(|value| !value.is_nan()).count(), 128);
}
