//! What follows from the core's decisions: sessions and the executor hear of it, and so do logs and metrics.

use std::time::Duration;

use crossbeam_channel::TrySendError;
use troupe_protocol::{Fault, GpuCommand, SequenceEvent, SequenceId};
use troupe_scheduler::{Effect, Effects};

use super::SchedulerActor;
use crate::metrics;
use crate::session::SessionEvent;

impl SchedulerActor {
    /// Does what the core decided.
    pub(super) fn perform(&mut self, effects: Effects) {
        for effect in effects {
            match effect {
                Effect::Accept { sequence, rates } => self.tell(sequence, SequenceEvent::Accepted(rates)),
                Effect::Started { sequence, queue_time, cached_tokens } => {
                    metrics::queue_time(Duration::from_micros(queue_time));
                    metrics::cached_tokens(cached_tokens);
                    self.tell(sequence, SequenceEvent::Started { cached_tokens });
                }
                Effect::Preempted { sequence } => {
                    tracing::debug!(%sequence, "preempted");
                    metrics::preemption();
                }
                Effect::GiveMasks(masks) => self.send(GpuCommand::Masks(masks)),
                Effect::DeliverPrompt { sequence, logprobs } => {
                    self.tell(sequence, SequenceEvent::Prompt(logprobs));
                }
                Effect::Deliver { sequence, token } => self.tell(sequence, SequenceEvent::Token(token)),
                Effect::Finish { sequence, reason, usage } => {
                    self.tell_last(sequence, SequenceEvent::Finished { reason, usage });
                }
                Effect::Reject { sequence, reason } => {
                    self.tell_last(sequence, SequenceEvent::Rejected(reason));
                }
                Effect::Fail { sequence, fault } => {
                    // A deadline is the client's own; everything else is ours.
                    if matches!(fault, Fault::DeadlineExceeded { .. }) {
                        tracing::debug!(%sequence, %fault, "ended");
                    } else {
                        tracing::error!(%sequence, %fault, "failed");
                    }
                    self.tell_last(sequence, SequenceEvent::Failed(fault));
                }
                Effect::WrongOutcome { fault } => tracing::error!(%fault, "the step is computed again"),
            }
        }
    }

    /// Tells the executor, if there is one.
    pub(super) fn send(&mut self, command: GpuCommand) {
        let Some(data) = &self.data else { return };
        match data.try_send(command) {
            Ok(()) => {}
            // The supervisor says so too; nothing more is sent until it brings another.
            Err(TrySendError::Disconnected(_)) => self.data = None,
            Err(TrySendError::Full(_)) => unreachable!("the lane holds more than the steps in flight"),
        }
    }

    fn tell(&self, sequence: SequenceId, event: SequenceEvent) {
        if let Some(session) = self.sessions.get(&sequence) {
            session.do_send(SessionEvent(event));
        }
    }

    /// Tells a session the last that it hears of its sequence.
    pub(super) fn tell_last(&mut self, sequence: SequenceId, event: SequenceEvent) {
        if let Some(session) = self.sessions.remove(&sequence) {
            session.do_send(SessionEvent(event));
        }
    }
}
