//! Saving the prefix cache before the end.

use actix::prelude::*;
use tokio::sync::oneshot;

use super::SchedulerActor;

/// Has what the prefix cache holds copied to the block store, as much as it has room for. Answered when that is done, or
/// at once if there is no store or no executor. For a scheduler that takes nothing new and is idle.
#[derive(Message)]
#[rtype(result = "()")]
pub struct FlushCache;

impl SchedulerActor {
    /// The next step of a flush that was asked for.
    pub(super) fn flush_cache(&mut self) {
        if self.flush_waiters.is_empty() {
            return;
        }
        if let (Some(core), Some(_)) = (&mut self.core, &self.data) {
            if let Some(plan) = core.flush() {
                return self.submit(plan);
            }
            if core.counts().in_flight > 0 {
                return;
            }
        }
        for waiter in self.flush_waiters.drain(..) {
            // Whoever waited may have lost patience.
            let _ = waiter.send(());
        }
    }
}

impl Handler<FlushCache> for SchedulerActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: FlushCache, _: &mut Self::Context) -> Self::Result {
        let (done, waiter) = oneshot::channel();
        self.flush_waiters.push(done);
        self.flush_cache();
        // An error means that the scheduler is gone.
        Box::pin(async move { waiter.await.unwrap_or_default() })
    }
}
