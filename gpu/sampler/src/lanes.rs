//! Sums and maxima of many values at once: in one lane each addition would wait for the one before.
//!
//! What is added to what depends on the places alone, so the same values give the same sum on every machine.

const LANES: usize = 8;

/// The sum of `of` each value.
pub(crate) fn sum<T>(values: &[T], of: impl Fn(&T) -> f64) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += of(value);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(of).sum::<f64>()
}

/// The largest of `of` each value, NaN left out; minus infinity if there is none.
pub(crate) fn max<T>(values: &[T], of: impl Fn(&T) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let larger = |most: f32, value: f32| if value > most { value } else { most };
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, of(value));
        }
    }
    rest.iter().map(of).chain(lanes).fold(f32::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use super::{max, sum};

    #[test]
    fn every_value_counts_once() {
        for count in [0, 1, 7, 8, 9, 40, 41] {
            let values: Vec<f32> = (0..count).map(|at| ((at * 7) % 23) as f32 - 30.0).collect();
            let wanted: f64 = values.iter().map(|value| f64::from(*value)).sum();
            assert_eq!(sum(&values, |value| f64::from(*value)), wanted, "{count}");
            let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(&values, |value| *value), most, "{count}");
        }
    }

    #[test]
    fn what_is_no_number_is_no_maximum() {
        for at in [0, 3, 8] {
            let mut values = [1.0; 9];
            values[at] = f32::NAN;
            assert_eq!(max(&values, |value| *value), 1.0);
        }
        assert_eq!(max(&[f32::NAN; 9], |value| *value), f32::NEG_INFINITY);
    }
}
