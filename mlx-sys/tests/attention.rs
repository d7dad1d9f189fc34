//! Paged attention against a plain oracle, and its row invariance bit for bit.

use mlx_sys::{Array, KvSlabs, Projected, RaggedBatch, ScoreOptions, paged_attention};

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
}

const SMALL: Model = Model { heads: 6, kv_heads: 2, dim: 64, block_size: 16 };

/// A whole sequence's projections, and the blocks that it owns.
#[derive(Clone)]
struct Sequence {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    len: usize,
    blocks: Vec<i32>,
}

struct World {
    model: Model,
    slabs: KvSlabs,
    free: Vec<i32>,
    random: Random,
    options: ScoreOptions,
}

/// One row of a step: tokens `start..end` of a sequence.
type Row<'a> = (&'a Sequence, usize, usize);

impl World {
    fn new(model: Model, blocks: usize, seed: u64) -> Self {
        let shape = [blocks, model.block_size, model.kv_heads, model.dim].map(|n| n as i32);
        // A read of anything that no token wrote shows as NaN.
        let slab = || {
            let slab = Array::full(&shape, f32::NAN).unwrap().copy().unwrap();
            slab.wait().unwrap();
            slab
        };
        let mut random = Random(seed);
        let mut free: Vec<i32> = (0..blocks as i32).collect();
        for i in (1..free.len()).rev() {
            free.swap(i, random.below(i + 1));
        }
        let options = ScoreOptions { scale: 0.125, window: None, softcap: None };
        Self { model, slabs: KvSlabs { keys: slab(), values: slab() }, free, random, options }
    }

    fn sequence(&mut self, len: usize) -> Sequence {
        let Model { heads, kv_heads, dim, block_size } = self.model;
        let blocks = self.free.split_off(self.free.len() - len.div_ceil(block_size));
        let kv = len * kv_heads * dim;
        let (q, k, v) = (
            self.random.floats(len * heads * dim).iter().map(|x| 4.0 * x).collect(),
            self.random.floats(kv),
            self.random.floats(kv),
        );
        Sequence { q, k, v, len, blocks }
    }

    fn step(&self, rows: &[Row<'_>]) -> Vec<Vec<f32>> {
        let Model { heads, kv_heads, dim, block_size } = self.model;
        let (mut q, mut k, mut v) = (vec![], vec![], vec![]);
        let (mut offsets, mut contexts, mut slots) = (vec![0], vec![], vec![]);
        let width = rows.iter().map(|(s, ..)| s.blocks.len()).max().unwrap();
        let mut tables = vec![];
        for &(s, start, end) in rows {
            q.extend_from_slice(&s.q[start * heads * dim..end * heads * dim]);
            k.extend_from_slice(&s.k[start * kv_heads * dim..end * kv_heads * dim]);
            v.extend_from_slice(&s.v[start * kv_heads * dim..end * kv_heads * dim]);
            offsets.push(offsets.last().unwrap() + (end - start) as i32);
            contexts.push(start as i32);
            slots.extend(
                (start..end).map(|p| s.blocks[p / block_size] * block_size as i32 + (p % block_size) as i32),
            );
            tables.extend_from_slice(&s.blocks);
            tables.extend(std::iter::repeat_n(-1, width - s.blocks.len()));
        }
        let tokens = slots.len();
        let three = |data: &[f32], n: usize| Array::from_slice(data, &[tokens as i32, n as i32, dim as i32]);
        let ints = |data: &[i32]| Array::from_slice(data, &[data.len() as i32]).unwrap();
        let batch = RaggedBatch {
            row_offsets: ints(&offsets),
            context_lens: ints(&contexts),
            slot_mapping: ints(&slots),
            block_tables: Array::from_slice(&tables, &[rows.len() as i32, width as i32]).unwrap(),
        };
        let (q, k, v) =
            (three(&q, heads).unwrap(), three(&k, kv_heads).unwrap(), three(&v, kv_heads).unwrap());
        let projected = Projected { q: &q, k: &k, v: &v };
        let out = paged_attention(projected, &self.slabs, &batch, self.options).unwrap();
        let out = out.to_vec::<f32>().unwrap();
        offsets
            .windows(2)
            .map(|pair| out[pair[0] as usize * heads * dim..pair[1] as usize * heads * dim].to_vec())
            .collect()
    }
}

/// Attention of every token of a sequence, in f64.
fn oracle(model: Model, s: &Sequence, options: ScoreOptions) -> Vec<f32> {
    let Model { heads, kv_heads, dim, .. } = model;
    let mut out = vec![];
    for token in 0..s.len {
        let first = options.window.map_or(0, |w| (token + 1).saturating_sub(w.get() as usize));
        for head in 0..heads {
            let kv_head = head / (heads / kv_heads);
            let at = |data: &[f32], t: usize, d: usize| f64::from(data[(t * kv_heads + kv_head) * dim + d]);
            let scores: Vec<f64> = (first..=token)
                .map(|t| {
                    let dot: f64 = (0..dim)
                        .map(|d| f64::from(s.q[(token * heads + head) * dim + d]) * at(&s.k, t, d))
                        .sum();
                    let score = dot * f64::from(options.scale);
                    options.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
                })
                .collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
            let total: f64 = weights.iter().sum();
            out.extend((0..dim).map(|d| {
                let sum: f64 = weights.iter().zip(first..).map(|(w, t)| w * at(&s.v, t, d)).sum();
                (sum / total) as f32
            }));
        }
    }
    out
}

#[track_caller]
fn assert_close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= 2e-6 + 2e-5 * w.abs(), "element {i}: {f} is not {w}");
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn random_ragged_batches_equal_the_oracle() {
    let models = [
        SMALL,
        Model { heads: 3, kv_heads: 3, dim: 80, block_size: 7 },
        Model { heads: 8, kv_heads: 1, dim: 128, block_size: 32 },
        Model { heads: 2, kv_heads: 2, dim: 20, block_size: 1 },
    ];
    for (seed, model) in models.into_iter().cycle().take(12).enumerate() {
        let mut world = World::new(model, 600, seed as u64 + 1);
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
            assert_close(found, &oracle(model, s, world.options));
        }
    }
}

#[test]
fn windows_and_caps_equal_the_oracle() {
    for (window, softcap) in [(Some(1), None), (Some(50), None), (None, Some(3.0)), (Some(70), Some(0.5))] {
        let mut world = World::new(SMALL, 40, 9);
        world.options.window = window.map(|w| std::num::NonZeroU32::new(w).unwrap());
        world.options.softcap = softcap;
        let s = world.sequence(200);
        let found = world.step(&[(&s, 0, 200)]).remove(0);
        assert_close(&found, &oracle(SMALL, &s, world.options));
    }
}

#[test]
fn a_prompt_in_five_pieces_gives_the_bits_of_one() {
    let mut world = World::new(SMALL, 40, 5);
    let s = world.sequence(100);
    let whole = world.step(&[(&s, 0, 100)]).remove(0);
    let cuts = [0, 1, 17, 64, 65, 100];
    let pieces: Vec<f32> =
        cuts.windows(2).flat_map(|cut| world.step(&[(&s, cut[0], cut[1])]).remove(0)).collect();
    assert_eq!(bits(&pieces), bits(&whole));
}

#[test]
fn neighbours_do_not_change_a_bit() {
    let mut world = World::new(SMALL, 80, 6);
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
fn strided_inputs_are_read_as_they_lie() {
    let mut world = World::new(SMALL, 8, 7);
    let s = world.sequence(9);
    let wanted = world.step(&[(&s, 0, 9)]).remove(0);
    let Model { heads, kv_heads, dim, block_size } = SMALL;
    // q is the transpose of [heads, tokens, dim]; k and v are columns of one array, as a fused projection gives them.
    let q = Array::from_slice(&s.q, &[9, heads as i32, dim as i32]).unwrap();
    let q = q.transpose(&[1, 0, 2]).unwrap().contiguous().unwrap().transpose(&[1, 0, 2]).unwrap();
    let kv = |data: &[f32]| Array::from_slice(data, &[9, kv_heads as i32, dim as i32]).unwrap();
    let fused = mlx_sys::concatenate(&[&kv(&s.k), &kv(&s.v)], 1).unwrap();
    let parts = fused.split(&[kv_heads as i32], 1).unwrap();
    let slots: Vec<i32> = (0..9).map(|p| s.blocks[0] * block_size as i32 + p).collect();
    let batch = RaggedBatch {
        row_offsets: Array::from_slice(&[0, 9], &[2]).unwrap(),
        context_lens: Array::from_slice(&[0], &[1]).unwrap(),
        slot_mapping: Array::from_slice(&slots, &[9]).unwrap(),
        block_tables: Array::from_slice(&s.blocks, &[1, 1]).unwrap(),
    };
    let projected = Projected { q: &q, k: &parts[0], v: &parts[1] };
    let found = paged_attention(projected, &world.slabs, &batch, world.options).unwrap();
    assert_eq!(bits(&found.to_vec::<f32>().unwrap()), bits(&wanted));
}

fn ints(data: &[i32], shape: &[i32]) -> Array {
    Array::from_slice(data, shape).unwrap()
}

fn one_token(slot: i32, block: i32, context: i32) -> RaggedBatch {
    RaggedBatch {
        row_offsets: ints(&[0, 1], &[2]),
        context_lens: ints(&[context], &[1]),
        slot_mapping: ints(&[slot], &[1]),
        block_tables: ints(&[block], &[1, 1]),
    }
}

#[test]
fn wrong_shapes_are_refused_by_name() {
    let world = World::new(SMALL, 4, 8);
    let zeros = |shape: &[i32]| Array::full(shape, 0.0_f32).unwrap();
    let (q, k, short) = (zeros(&[1, 6, 64]), zeros(&[1, 2, 64]), zeros(&[1, 2, 32]));
    let half = k.astype(mlx_sys::Dtype::F16).unwrap();
    let batch = one_token(0, 0, 0);
    for (q, k, v, wanted) in [
        (&q, &short, &k, "[paged_attention] k is float32(1,2,32), not float32(1,2,64)"),
        (&q, &k, &half, "[paged_attention] v is float16(1,2,64), not float32(1,2,64)"),
        (&short, &k, &k, "[paged_attention] q is float32(1,2,32), not float32(1,2,64)"),
    ] {
        let error = paged_attention(Projected { q, k, v }, &world.slabs, &batch, world.options).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    let (five, none) =
        (zeros(&[1, 5, 64]), KvSlabs { keys: zeros(&[4, 0, 2, 64]), values: zeros(&[4, 0, 2, 64]) });
    for (q, slabs) in [(&five, &world.slabs), (&q, &none)] {
        assert!(paged_attention(Projected { q, k: &k, v: &k }, slabs, &batch, world.options).is_err());
    }
}

#[test]
fn slots_and_blocks_outside_the_slab_are_errors_of_the_evaluation() {
    let world = World::new(SMALL, 4, 8);
    let q = Array::full(&[1, 6, 64], 0.0_f32).unwrap();
    let k = Array::full(&[1, 2, 64], 0.0_f32).unwrap();
    let projected = Projected { q: &q, k: &k, v: &k };
    for (batch, wanted) in [
        (one_token(64, 0, 0), "slot_mapping names a slot outside the slab: 64"),
        (one_token(-1, 0, 0), "slot_mapping names a slot outside the slab: -1"),
        (one_token(0, 4, 0), "block_tables names a block outside the slab: 4"),
        (one_token(0, 0, 16), "the block table is too short for row 0"),
        (one_token(0, 0, -1), "the block table is too short for row 0"),
    ] {
        let out = paged_attention(projected, &world.slabs, &batch, world.options).unwrap();
        let error = mlx_sys::eval(&[&out]).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
    // The stream is usable afterwards, and nothing was written.
    assert!(world.slabs.keys.to_vec::<f32>().unwrap().iter().all(|value| value.is_nan()));
}
