//! `cargo run --release -p troupe-sim -- [SEEDS] [FIRST]`: runs so many seeds, each in every variant, and says what they
//! did; stops at the first violation and names its seed. `-- replay [FOLDER]` replays a trace and writes its charts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use troupe_sim::figures::Figures;
use troupe_sim::run::{Report, VARIANTS, run};
use troupe_sim::workload::Workload;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some("replay") = arguments.first().map(String::as_str) {
        return draw(Path::new(arguments.get(1).map_or("docs", String::as_str)));
    }
    let number = |at: usize, otherwise| arguments.get(at).map_or(Ok(otherwise), |text| text.parse::<u64>());
    match (number(0, 1000), number(1, 0)) {
        (Ok(seeds), Ok(first)) => search(first, seeds),
        _ => {
            eprintln!("usage: troupe-sim [SEEDS] [FIRST], or troupe-sim replay [FOLDER]");
            ExitCode::FAILURE
        }
    }
}

/// Replays the trace, and writes its charts into `folder`.
fn draw(folder: &Path) -> ExitCode {
    let figures = Figures::new();
    for (name, chart) in [("service.svg", figures.service()), ("waiting.svg", figures.waiting())] {
        let path = folder.join(name);
        if let Err(error) = std::fs::write(&path, chart) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    print!("{}", figures.table());
    ExitCode::SUCCESS
}

/// Runs `seeds` seeds from `first` on, on all cores.
fn search(first: u64, seeds: u64) -> ExitCode {
    let start = Instant::now();
    let next = AtomicU64::new(first);
    let end = first.saturating_add(seeds);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut sum = Report::default();
    let mut violated = false;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| worker(&next, end))).collect();
        for worker in workers {
            match worker.join() {
                Ok(Some(report)) => sum.add(&report),
                Ok(None) | Err(_) => violated = true,
            }
        }
    });
    if violated {
        return ExitCode::FAILURE;
    }
    println!(
        "{seeds} seeds from {first} on, {} variants each: {} requests, {} steps, {} tokens computed, {} found in the cache, \
         {} preemptions, {} answers finished, no violation, {:.1} s",
        VARIANTS.len(),
        sum.requests,
        sum.steps,
        sum.tokens,
        sum.cached_tokens,
        sum.preemptions,
        sum.finished,
        start.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}

/// Takes seed after seed; nothing comes back after a violation, and the others stop.
fn worker(next: &AtomicU64, end: u64) -> Option<Report> {
    let mut sum = Report::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return Some(sum);
        }
        let workload = Workload::new(seed);
        for variant in VARIANTS {
            let Ok(report) = catch_unwind(AssertUnwindSafe(|| run(&workload, variant, None))) else {
                eprintln!("seed {seed} with {variant:?}: see above; keep it in tests/sim/seeds.txt");
                next.store(end, Ordering::Relaxed);
                return None;
            };
            sum.add(&report);
        }
    }
}
