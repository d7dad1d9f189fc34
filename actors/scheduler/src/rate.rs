//! Token buckets, in whole numbers: what a tenant may take in a minute, and what it has taken.

use core::num::NonZeroU32;

use troupe_protocol::RateStatus;

use crate::Timestamp;

/// Microseconds of a minute: one unit of what is limited is this many of the bucket.
const MINUTE: i64 = 60_000_000;

/// A bucket that holds what may be taken in a minute and fills up evenly. It may go below empty: answers are paid for as
/// they come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    per_minute: u32,
    level: i64,
    since: Timestamp,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(per_minute: NonZeroU32, now: Timestamp) -> Self {
        let per_minute = per_minute.get();
        Self { per_minute, level: i64::from(per_minute) * MINUTE, since: now }
    }

    /// The same with another limit; what was taken stays taken.
    pub(crate) fn with_limit(mut self, per_minute: NonZeroU32, now: Timestamp) -> Self {
        self.fill(now);
        let taken = i64::from(self.per_minute) * MINUTE - self.level;
        self.per_minute = per_minute.get();
        self.level = i64::from(self.per_minute) * MINUTE - taken;
        self
    }

    fn fill(&mut self, now: Timestamp) {
        let elapsed = now.0.saturating_sub(self.since.0).min(i64::MAX as u64) as i64;
        self.since = now;
        let filled = self.level.saturating_add(elapsed.saturating_mul(i64::from(self.per_minute)));
        self.level = filled.min(i64::from(self.per_minute) * MINUTE);
    }

    /// Microseconds until `count`, or a whole bucket if that is less, could be taken; zero if now.
    pub(crate) fn wait_for(&mut self, count: u32, now: Timestamp) -> u64 {
        self.fill(now);
        let wanted = i64::from(count.min(self.per_minute)) * MINUTE;
        let missing = (wanted - self.level).max(0) as u64;
        missing.div_ceil(u64::from(self.per_minute))
    }

    /// Takes `count`, whether they are there or not.
    pub(crate) fn take(&mut self, count: u32, now: Timestamp) {
        self.fill(now);
        self.level = self.level.saturating_sub(i64::from(count) * MINUTE);
    }

    pub(crate) fn limit(&self) -> u32 {
        self.per_minute
    }

    pub(crate) fn status(&mut self, now: Timestamp) -> RateStatus {
        let reset = self.wait_for(u32::MAX, now);
        RateStatus { limit: self.per_minute, remaining: (self.level / MINUTE).max(0) as u32, reset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_limit_at_once_and_then_evenly() {
        let at = |seconds: u64| Timestamp(seconds * 1_000_000);
        let mut bucket = Bucket::new(NonZeroU32::new(6).unwrap(), at(0));
        for _ in 0..6 {
            assert_eq!(bucket.wait_for(1, at(0)), 0);
            bucket.take(1, at(0));
        }
        assert_eq!(bucket.wait_for(1, at(0)), 10_000_000);
        assert_eq!(bucket.wait_for(1, at(9)), 1_000_000);
        assert_eq!(bucket.wait_for(2, at(10)), 10_000_000);
        assert_eq!(bucket.wait_for(1, at(10)), 0);
        assert_eq!(bucket.status(at(1000)), RateStatus { limit: 6, remaining: 6, reset: 0 });
        // More than a minute's worth is taken once a minute's worth is there.
        assert_eq!(bucket.wait_for(100, at(1000)), 0);
        bucket.take(100, at(1000));
        assert_eq!(bucket.wait_for(6, at(1000)), 1_000_000_000);
        assert_eq!(bucket.status(at(1000)).remaining, 0);
    }

    #[test]
    fn a_new_limit_keeps_what_was_taken() {
        let now = Timestamp(0);
        let limit = |n| NonZeroU32::new(n).unwrap();
        let mut bucket = Bucket::new(limit(10), now);
        bucket.take(4, now);
        assert_eq!(bucket.with_limit(limit(20), now).status(now).remaining, 16);
        assert_eq!(bucket.with_limit(limit(3), now).status(now).remaining, 0);
    }
}
