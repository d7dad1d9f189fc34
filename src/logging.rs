//! Log lines, to standard error, by a thread of their own: whoever reads them may be slow or gone, and neither may hold
//! up a request. Lines that find the queue full are dropped.

use std::io::{self, IsTerminal};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use troupe_config::{Config, LogFormat};

/// Lines that wait for their reader.
const QUEUED_LINES: usize = 4096;

/// Keeps the writing thread. Dropping it writes what is queued, for a second at most.
pub(crate) struct LogGuard {
    _worker: WorkerGuard,
}

/// Starts logging as configured.
pub(crate) fn start(config: &Config) -> LogGuard {
    let level = config.log.level.as_str();
    // What the HTTP library calls an error is a client's mistake, which anybody can make any number of times.
    let filter = format!("warn,actix_http=off,troupe={level},troupe_actors={level},troupe_gpu={level}");
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUED_LINES);
    let (writer, worker) = builder.finish(io::stderr());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(writer)
        // There is nowhere to report to that a line cannot be written.
        .log_internal_errors(false);
    // An error means that a test or an embedder has set a subscriber; theirs is as good.
    let _ = match config.log.format {
        LogFormat::Json => subscriber.json().try_init(),
        LogFormat::Text => subscriber.with_ansi(io::stderr().is_terminal()).try_init(),
    };
    LogGuard { _worker: worker }
}
