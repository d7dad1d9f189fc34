//! The counter-based generator behind sampling: a pure function of (seed, position).
//!
//! A sequence's draw at a position depends on nothing else, so batching, preemption and replay cannot
//! change what it says. The mixer is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a draw decides. Draws of different kinds at one position have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Which token is taken.
    Token,
    /// Whether top choices are excluded.
    Xtc,
}

/// A uniform draw in [0, 1), with 24 bits, of the token at `position` of a sequence seeded with `seed`.
pub fn uniform(seed: u64, position: u32) -> f32 {
    uniform_for(Draw::Token, seed, position)
}

/// The same for any kind of draw.
pub fn uniform_for(draw: Draw, seed: u64, position: u32) -> f32 {
    let stream = mix(seed.wrapping_add(GOLDEN));
    let stream = match draw {
        Draw::Token => stream,
        Draw::Xtc => mix(!stream),
    };
    let bits = mix(stream.wrapping_add(GOLDEN.wrapping_mul(u64::from(position) + 1)));
    // 24 bits are what an f32 holds exactly, and keep the largest draw below one.
    (bits >> 40) as f32 / (1_u32 << 24) as f32
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Draw, uniform, uniform_for};

    #[test]
    fn draws_are_uniform_over_positions_and_seeds() {
        type OfIndex = fn(u32) -> f32;
        let table: [(&str, OfIndex); 3] = [
            ("positions", |i| uniform(7, i)),
            ("seeds", |i| uniform(u64::from(i), 7)),
            ("another kind", |i| uniform_for(Draw::Xtc, 7, i)),
        ];
        for (name, draw) in table {
            let mut bins = [0_u32; 16];
            for i in 0..16_000 {
                let u = draw(i);
                assert!((0.0..1.0).contains(&u), "{name}: {u}");
                bins[(u * 16.0) as usize] += 1;
            }
            let chi2: f64 = bins.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
            // 15 degrees of freedom: 37.7 is the 99.9th percentile.
            assert!(chi2 < 37.7, "{name}: chi-square {chi2}");
        }
    }

    #[test]
    fn neighbouring_seeds_and_kinds_do_not_share_draws() {
        let same = (0..1000).filter(|&i| uniform(1, i) == uniform(2, i)).count();
        assert_eq!(same, 0);
        let xtc = |i| uniform_for(Draw::Xtc, 1, i);
        let shifted = |by| (0..1000).filter(|&i| uniform(1, i + by) == xtc(i)).count();
        assert_eq!((shifted(0), shifted(1)), (0, 0));
    }
}
