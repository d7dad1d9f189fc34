//! Distributions in numbers. Pure.

use serde::Serialize;

/// A set of samples, described. All fields are in the samples' unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// How many samples there were; at least one.
    pub count: usize,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The 50th percentile.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Distribution {
    /// Describes `samples`; `None` if there are none. Samples are finite.
    pub fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_unstable_by(f64::total_cmp);
        let max = *samples.last()?;
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let [p50, p90, p95, p99] = [50.0, 90.0, 95.0, 99.0].map(|p| percentile(&samples, p));
        Some(Self { count: samples.len(), mean, p50, p90, p95, p99, max })
    }
}

/// The `p`-th percentile of sorted samples, by linear interpolation between the two samples around rank
/// `p / 100 · (n − 1)`: what numpy, and so most published serving benchmarks, compute.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = p / 100.0 * (sorted.len() - 1) as f64;
    let below = sorted[rank.floor() as usize];
    let above = sorted[rank.ceil() as usize];
    below + (above - below) * rank.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate_between_neighbours() {
        // Values from numpy.percentile.
        let table: [(&[f64], f64, f64); 7] = [
            (&[1.0, 2.0, 3.0, 4.0], 50.0, 2.5),
            (&[1.0, 2.0, 3.0, 4.0], 90.0, 3.7),
            (&[1.0, 2.0, 3.0, 4.0], 99.0, 3.97),
            (&[10.0, 20.0, 30.0], 50.0, 20.0),
            (&[10.0, 20.0, 30.0], 95.0, 29.0),
            (&[5.0], 99.0, 5.0),
            (&[0.0, 100.0], 0.0, 0.0),
        ];
        for (samples, p, expected) in table {
            let got = percentile(samples, p);
            assert!((got - expected).abs() < 1e-9, "p{p} of {samples:?}: {got}");
        }
    }

    #[test]
    fn a_distribution_does_not_depend_on_the_order_of_samples() {
        let shuffled = Distribution::of(vec![3.0, 1.0, 100.0, 2.0]).unwrap();
        assert_eq!(Some(shuffled), Distribution::of(vec![100.0, 3.0, 2.0, 1.0]));
        assert_eq!((shuffled.count, shuffled.mean, shuffled.p50, shuffled.max), (4, 26.5, 2.5, 100.0));
    }

    #[test]
    fn no_samples_have_no_distribution() {
        assert_eq!(Distribution::of(Vec::new()), None);
    }
}
