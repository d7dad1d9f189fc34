//! The executor as the actors see it: two lanes to send on, a sink that its events come by, and a way to wait
//! for its end. What is at the other end of the lanes is not known here.

use std::io;

use crossbeam_channel::Sender;
use troupe_protocol::{GpuCommand, GpuEvent};

/// Where an executor's events go. Called on its thread.
pub type EventSink = Box<dyn FnMut(GpuEvent) + Send>;

/// Starts an executor. Called again by the supervisor after one was lost.
pub type StartExecutor = Box<dyn FnMut(EventSink) -> io::Result<ExecutorHandle> + Send>;

/// A running executor.
pub struct ExecutorHandle {
    /// For `Load`, `Submit`, `Masks` and `Drain`.
    pub data: Sender<GpuCommand>,
    /// For `Stats` and `Stop`.
    pub urgent: Sender<GpuCommand>,
    /// Waits for the thread to end.
    pub join: Box<dyn FnOnce() + Send>,
}
