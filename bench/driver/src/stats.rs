//! Medians and percentiles.

use std::time::Duration;

/// The middle value; of an even number of values, the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().saturating_sub(1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The duration below which this part (0.99) of the times lies, in milliseconds.
pub fn percentile(times: &[Duration], part: f64) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let rank = ((times.len() as f64 * part).ceil() as usize).clamp(1, times.len().max(1));
    times.get(rank - 1).map(|time| time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value_and_a_percentile_is_a_measured_time() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(2.5));
        assert_eq!(median([]), None);
        let times: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!((percentile(&times, 0.5), percentile(&times, 0.99)), (Some(50.0), Some(99.0)));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[Duration::from_millis(7)], 0.99), Some(7.0));
    }
}
