//! Many seeds, each in every variant, on all cores.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::run::{Report, VARIANTS, Variant, run};
use crate::workload::Workload;

/// A seed that broke something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// What it was run in.
    pub variant: Variant,
    /// What was said of it.
    pub words: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} with {:?}: {}; keep it in seeds.txt", self.seed, self.variant, self.words)
    }
}

/// Runs the seeds, and adds up what came of them.
///
/// # Errors
/// The violation of the lowest seed among those that were found before all stopped.
pub fn search(seeds: Range<u64>) -> Result<Report, Violation> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicU64::new(seeds.start);
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| worker(&next, seeds.end))).collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    let mut sum = Report::default();
    let mut found = None;
    for result in results {
        // A worker catches what a run panics with, and has nothing else to panic with.
        match result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            Ok(report) => sum.add(&report),
            Err(violation) => found = found.into_iter().chain([violation]).min_by_key(|found| found.seed),
        }
    }
    found.map_or(Ok(sum), Err)
}

/// Runs a seed in every variant.
///
/// # Errors
/// The first violation.
pub fn in_every_variant(seed: u64) -> Result<Report, Violation> {
    let workload = Workload::new(seed);
    let mut sum = Report::default();
    for variant in VARIANTS {
        let report = catch_unwind(AssertUnwindSafe(|| run(&workload, variant, None)));
        sum.add(&report.map_err(|panic| Violation { seed, variant, words: words(&*panic) })?);
    }
    Ok(sum)
}

/// What a panic said.
pub fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it said nothing").to_owned()
}

/// Takes seed after seed; after a violation, the others stop.
fn worker(next: &AtomicU64, end: u64) -> Result<Report, Violation> {
    let mut sum = Report::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return Ok(sum);
        }
        let report = in_every_variant(seed).inspect_err(|_| next.store(end, Ordering::Relaxed))?;
        sum.add(&report);
    }
}
