//! Where the mass of the foremost candidates reaches a limit, without sorting all of them.

/// A sort key, the larger the more forward, and a mass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    pub(crate) key: f32,
    pub(crate) mass: f32,
}

/// The least key of the smallest set of foremost entries whose mass reaches `limit`; the largest of all if `limit` is
/// not positive. `None` if there are no entries. Linear in their number.
pub(crate) fn least_kept(entries: &mut [Ranked], limit: f64) -> Option<f32> {
    /// As many are sorted as soon as they would be split.
    const FEW: usize = 64;
    /// Most such sets are small, so this many of the foremost are looked at first.
    const LIKELY: usize = 256;
    let descending = |a: &Ranked, b: &Ranked| b.key.total_cmp(&a.key);
    // The entry that reaches the limit is in `first..last`; those before it are before all of these.
    let (mut first, mut last, mut before) = (0, entries.len(), 0.0);
    let mut most = LIKELY;
    while last - first > FEW {
        let count = most.min((last - first) / 2);
        most = most.saturating_mul(8);
        entries[first..last].select_nth_unstable_by(count, descending);
        let mass: f64 = entries[first..first + count].iter().map(|entry| f64::from(entry.mass)).sum();
        if before + mass >= limit {
            last = first + count;
        } else {
            before += mass;
            first += count;
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
        for count in [1, 2, 63, 64, 65, 300, 5000] {
            for share in [0.0, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.0, 1.1] {
                let entries: Vec<Ranked> = (0..count)
                    // Few keys: equal ones everywhere.
                    .map(|_| Ranked { key: (next() * 100.0).round() - 50.0, mass: 1.0 / 1024.0 })
                    .collect();
                let limit = share * count as f64 / 1024.0;
                let mut sorted = entries.clone();
                sorted.sort_by(|a, b| b.key.total_cmp(&a.key));
                // Masses are powers of two, so that all sums are exact.
                let rank = (limit * 1024.0).ceil().max(1.0) as usize;
                let wanted = sorted[rank.min(count) - 1].key;
                let found = least_kept(&mut entries.clone(), limit);
                assert_eq!(found, Some(wanted), "{share} of {count}");
            }
        }
        assert_eq!(least_kept(&mut [], 1.0), None);
    }
}
