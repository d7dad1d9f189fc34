//! When requests are sent. Pure: times are offsets from the start.

use std::time::Duration;

use troupe_protocol::random::uniform;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many clients, each of which sends its next request when the last one ended.
    Concurrency(usize),
    /// So many requests a second on average, each at its time, however many are still running.
    Rate(f64),
}

/// Offsets of `count` requests that arrive independently of each other, `rate` a second on average (a
/// Poisson process).
pub(super) fn poisson(rate: f64, count: usize, seed: u64) -> Vec<Duration> {
    let mut at = 0.0;
    let gaps = (0..count).map(|i| {
        let offset = at;
        // `1 − u` is above zero, so the logarithm is finite: at most 16.7 mean gaps.
        at += -(1.0 - f64::from(uniform(seed, i as u32))).ln() / rate;
        Duration::from_secs_f64(offset)
    });
    gaps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_spread_of_a_poisson_process() {
        let times = poisson(50.0, 20_001, 3);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        // Both are 1/rate; with 20000 gaps the standard errors are 0.7 % and 1 %.
        assert!((mean * 50.0 - 1.0).abs() < 0.03, "{mean}");
        assert!((deviation * 50.0 - 1.0).abs() < 0.05, "{deviation}");
    }

    #[test]
    fn a_seed_fixes_the_times() {
        assert_eq!(poisson(5.0, 10, 1), poisson(5.0, 10, 1));
        assert_ne!(poisson(5.0, 10, 1), poisson(5.0, 10, 2));
        assert_eq!(poisson(5.0, 10, 1)[0], Duration::ZERO);
    }
}
