//! Where the mass of the foremost candidates reaches a limit, without sorting all of them.

use crate::candidates::Weighed;
use crate::lanes;

/// A sort key, the larger the more forward, and a mass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    key: f32,
    mass: f32,
}

/// The least key of the smallest set of foremost candidates whose weight reaches `limit`; the largest of all keys if
/// `limit` is not positive. `None` if all of them together do not reach it. Linear in their number. `ranked` is room to
/// work in.
pub(crate) fn least_kept(
    candidates: &[Weighed],
    key: impl Fn(&Weighed) -> f32,
    limit: f64,
    ranked: &mut Vec<Ranked>,
) -> Option<f32> {
    /// The foremost 32 are told apart by eighths; what is behind has next to no mass.
    const BUCKETS: usize = 256;
    const PER_UNIT: f32 = 8.0;
    let most = lanes::max(candidates, &key);
    let bucket = |key: f32| (((most - key) * PER_UNIT) as usize).min(BUCKETS - 1);
    let mut masses = [0.0; BUCKETS];
    for candidate in candidates {
        masses[bucket(key(candidate))] += f64::from(candidate.weight);
    }
    let mut before = 0.0;
    let reaching = masses.iter().position(|mass| {
        before += mass;
        before >= limit
    })?;
    let all = candidates.iter().map(|candidate| Ranked { key: key(candidate), mass: candidate.weight });
    ranked.clear();
    ranked.extend(all.filter(|entry| bucket(entry.key) == reaching));
    least_of(ranked, limit - masses[..reaching].iter().sum::<f64>())
}

/// The least key of the smallest set of foremost entries whose mass reaches `limit`, or of all.
fn least_of(entries: &mut [Ranked], limit: f64) -> Option<f32> {
    /// As many are sorted as soon as they would be split.
    const FEW: usize = 64;
    let descending = |a: &Ranked, b: &Ranked| b.key.total_cmp(&a.key);
    // The entry that reaches the limit is in `first..last`; those before it are before all of these.
    let (mut first, mut last, mut before) = (0, entries.len(), 0.0);
    while last - first > FEW {
        let middle = first + (last - first) / 2;
        entries[first..last].select_nth_unstable_by(middle - first, descending);
        let mass: f64 = entries[first..middle].iter().map(|entry| f64::from(entry.mass)).sum();
        if before + mass >= limit {
            last = middle;
        } else {
            before += mass;
            first = middle;
        }
    }
    let rest = &mut entries[first..last];
    rest.sort_unstable_by(descending);
    let reaches = |entry: &&Ranked| {
        before += f64::from(entry.mass);
        before >= limit
    };
    rest.iter().find(reaches).or(rest.last()).map(|entry| entry.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_reached_where_a_sorted_walk_reaches_it() {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        // All in one bucket, in some, and more than there are buckets.
        for width in [0.1, 10.0, 100.0] {
            for count in [1, 2, 63, 64, 65, 300, 5000] {
                // Few keys: equal ones everywhere. Masses are powers of two, so that all sums are exact.
                let mut entry = || Weighed {
                    id: 0,
                    logit: ((next() * 100.0).round() / 100.0 - 0.5) * width,
                    weight: 1.0 / 1024.0,
                };
                let entries: Vec<Weighed> = (0..count).map(|_| entry()).collect();
                let mut sorted = entries.clone();
                sorted.sort_by(|a, b| b.logit.total_cmp(&a.logit));
                for share in [0.0, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.0, 1.1] {
                    let limit = share * count as f64 / 1024.0;
                    let rank = (limit * 1024.0).ceil().max(1.0) as usize;
                    let wanted = sorted.get(rank - 1).map(|last| last.logit);
                    let found = least_kept(&entries, |entry| entry.logit, limit, &mut Vec::new());
                    assert_eq!(found, wanted, "{share} of {count} over {width}");
                }
            }
        }
        assert_eq!(least_kept(&[], |entry| entry.logit, 1.0, &mut Vec::new()), None);
    }
}
