//! `cargo run --release -p troupe-sim -- [SEEDS] [FIRST]`: runs so many seeds, each in every variant, and says what they
//! did; stops at the first violation and names its seed. `-- replay [FOLDER]` replays a trace and writes its charts.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use troupe_sim::figures::Figures;
use troupe_sim::run::VARIANTS;
use troupe_sim::search::search;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some("replay") = arguments.first().map(String::as_str) {
        return draw(Path::new(arguments.get(1).map_or("docs", String::as_str)));
    }
    let number = |at: usize, otherwise| arguments.get(at).map_or(Ok(otherwise), |text| text.parse::<u64>());
    match (number(0, 1000), number(1, 0)) {
        (Ok(seeds), Ok(first)) => search_from(first, seeds),
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
fn search_from(first: u64, seeds: u64) -> ExitCode {
    let start = Instant::now();
    let sum = match search(first..first.saturating_add(seeds)) {
        Ok(sum) => sum,
        Err(violation) => {
            eprintln!("{violation}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{seeds} seeds from {first} on, {} variants each: {} requests, {} steps, {} tokens computed, {} found in the cache, \
         {} blocks from the store, \
         {} masks, {} preemptions, {} answers finished, no violation, {:.1} s",
        VARIANTS.len(),
        sum.requests,
        sum.steps,
        sum.tokens,
        sum.cached_tokens,
        sum.blocks_loaded,
        sum.masks,
        sum.preemptions,
        sum.finished,
        start.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
