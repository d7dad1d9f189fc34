//! The signals that end a server.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that follow the first within this time are its echoes.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// SIGTERM and SIGINT.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// # Errors
    /// If the system does not let them be waited for.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for a signal after the first. One that comes right behind it is the same: `timeout` and other wrappers
    /// signal their child and its group.
    pub(crate) async fn received_again(&mut self) {
        let first = Instant::now();
        while first.elapsed() < SAME_SIGNAL {
            self.received().await;
        }
    }

    /// Waits for a signal.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
