//! The scheduler actor: the shell around the pure core. It owns the clock, the sessions' addresses and the
//! executor's data lane, and decides nothing: facts go into the core, effects and plans come out.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use actix::prelude::*;
use crossbeam_channel::Sender;
use tokio::sync::oneshot;
use troupe_protocol::{
    EngineLimits, Fault, GpuCommand, GpuEvent, NewSequence, RejectReason, SequenceEvent, SequenceId, StepId,
    StepPlan, StoredBlock, TenantPolicy, TokenMask,
};
use troupe_scheduler::{Effects, Event, Scheduler, Timestamp};

pub use troupe_scheduler::{
    CacheShare, Config, PhaseStatus, Preemption, SequenceStatus, Status, StoreCounts, TenantStatus,
    TenantTotals,
};

mod effects;
mod flush;

pub use flush::FlushCache;

use crate::metrics;
use crate::session::SessionEvent;

/// A step that takes longer than this means that the executor is stuck: the server is alive but not ready.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Messages that may wait for the scheduler. Senders of the HTTP surface are bounded by its connections, and
/// executor events by the steps in flight.
const MAILBOX: usize = 4096;

/// What sessions and the supervisor may tell the scheduler.
#[derive(Message)]
#[rtype(result = "()")]
#[allow(clippy::large_enum_variant, reason = "a message is boxed on its way to the mailbox")]
pub enum SchedulerCommand {
    /// Generate. The answer is a stream of events: any number of tokens, then one that ends it.
    Admit {
        /// What to generate.
        sequence: NewSequence,
        /// The session; it hears of this sequence only.
        events: Recipient<SessionEvent>,
    },
    /// The session has room for `tokens` more tokens.
    Grant {
        /// Whose.
        sequence: SequenceId,
        /// How many more.
        tokens: u32,
    },
    /// The session of a guided sequence knows what may come next.
    Mask {
        /// Whose.
        sequence: SequenceId,
        /// Tokens that were generated before the one that the mask is for.
        generated: u32,
        /// What that may be.
        mask: TokenMask,
    },
    /// The session is gone or has what it wanted. Unknown sequences are ignored: they may have ended meanwhile.
    Cancel(SequenceId),
    /// An executor is ready: the first, or one after a loss.
    ExecutorReady {
        /// Its bounds.
        limits: EngineLimits,
        /// What its block store holds, least recently written first.
        stored: Vec<StoredBlock>,
        /// Its data lane.
        data: Sender<GpuCommand>,
    },
    /// The executor is gone. Sequences wait for the next one.
    ExecutorLost,
    /// Tenants have these shares and limits from now on; running sequences go on.
    Configure(Vec<TenantPolicy>),
    /// Take nothing new; finish what was taken.
    Drain,
    /// End everything now.
    Abandon(Fault),
}

/// What the executor tells the scheduler: `StepDone` and `StepFailed`.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ExecutorEvent(pub GpuEvent);

/// Answered when no sequence is left.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AwaitIdle;

/// Asks for a [`SchedulerStatus`].
#[derive(Message)]
#[rtype(result = "SchedulerStatus")]
pub struct Observe;

/// Asks for everything that the core can tell; nothing before the first executor is ready.
#[derive(Message)]
#[rtype(result = "Option<Status>")]
pub struct Inspect;

/// The scheduler's state in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, MessageResponse)]
pub struct SchedulerStatus {
    /// A model is loaded, steps complete in time, and new requests are taken.
    pub ready: bool,
    /// No new requests are taken.
    pub draining: bool,
    /// Sequences in the queue.
    pub num_waiting: u32,
    /// Sequences that hold a slot.
    pub num_running: u32,
    /// KV blocks that no sequence holds, those with contents that may be found again included.
    pub blocks_free: u32,
    /// Of these, those with contents.
    pub blocks_cached: u32,
    /// KV blocks in all.
    pub blocks_total: u32,
    /// The second tier of the prefix cache.
    pub store: StoreCounts,
    /// Steps completed.
    pub steps: u64,
}

/// The scheduler actor.
pub struct SchedulerActor {
    config: Config,
    /// Absent until the first executor is ready.
    core: Option<Scheduler>,
    /// Absent while there is no executor.
    data: Option<Sender<GpuCommand>>,
    sessions: HashMap<SequenceId, Recipient<SessionEvent>>,
    /// Steps in flight, and when they were submitted.
    submitted: VecDeque<(StepId, Instant)>,
    origin: Instant,
    draining: bool,
    idle_waiters: Vec<oneshot::Sender<()>>,
    flush_waiters: Vec<oneshot::Sender<()>>,
    /// The last step that was submitted when one failed.
    doomed_until: Option<StepId>,
    steps: u64,
    /// Time that the core took since the last step's outcome.
    bookkeeping: Duration,
    /// Of all tenants, as they were told last.
    policies: Vec<TenantPolicy>,
    /// The deadline that a timer is set for.
    alarm: Option<(Timestamp, SpawnHandle)>,
}

impl SchedulerActor {
    /// A scheduler without an executor yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            core: None,
            data: None,
            sessions: HashMap::new(),
            submitted: VecDeque::new(),
            origin: Instant::now(),
            draining: false,
            idle_waiters: Vec::new(),
            flush_waiters: Vec::new(),
            doomed_until: None,
            steps: 0,
            bookkeeping: Duration::ZERO,
            policies: Vec::new(),
            alarm: None,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.origin.elapsed().as_micros() as u64)
    }

    /// Has the core do something, and takes the time.
    fn ask<T>(&mut self, question: impl FnOnce(&mut Scheduler) -> T) -> Option<T> {
        let begun = Instant::now();
        let answer = question(self.core.as_mut()?);
        self.bookkeeping += begun.elapsed();
        Some(answer)
    }

    /// Books a fact, then does all that follows from it.
    fn book(&mut self, event: Event) {
        let now = self.now();
        let mut effects = Effects::new();
        self.ask(|core| core.apply(now, event, &mut effects));
        self.perform(effects);
        self.submit_steps();
        self.flush_cache();
        metrics::scheduler_gauges(&self.status());
        if self.sessions.is_empty() {
            for waiter in self.idle_waiters.drain(..) {
                // Whoever waited may have lost patience.
                let _ = waiter.send(());
            }
        }
    }

    fn submit_steps(&mut self) {
        let now = self.now();
        while self.data.is_some() {
            let mut effects = Effects::new();
            let plan = self.ask(|core| core.plan(now, &mut effects)).flatten();
            // Masks of the step in flight go before the one that is built on it.
            self.perform(effects);
            let Some(plan) = plan else { break };
            self.submit(plan);
        }
    }

    fn submit(&mut self, plan: StepPlan) {
        tracing::trace!(step = %plan.step, rows = plan.rows.len(), "submitted");
        self.submitted.push_back((plan.step, Instant::now()));
        self.send(GpuCommand::Submit(plan));
    }

    fn status(&self) -> SchedulerStatus {
        let counts = self.core.as_ref().map(Scheduler::counts).unwrap_or_default();
        let stuck = self.submitted.front().is_some_and(|(_, since)| since.elapsed() > STUCK_AFTER);
        SchedulerStatus {
            ready: self.core.is_some() && self.data.is_some() && !self.draining && !stuck,
            draining: self.draining,
            num_waiting: counts.waiting,
            num_running: counts.running,
            blocks_free: counts.blocks.free + counts.blocks.cached,
            blocks_cached: counts.blocks.cached,
            blocks_total: counts.blocks_total,
            store: counts.store,
            steps: self.steps,
        }
    }

    fn admit(&mut self, sequence: NewSequence, events: Recipient<SessionEvent>) {
        if self.core.is_none() {
            let reason = if self.draining { RejectReason::Draining } else { RejectReason::NotReady };
            return events.do_send(SessionEvent(SequenceEvent::Rejected(reason)));
        }
        self.sessions.insert(sequence.id, events);
        self.book(Event::Arrived(sequence));
    }

    fn executor_ready(&mut self, limits: EngineLimits, stored: Vec<StoredBlock>, data: Sender<GpuCommand>) {
        self.data = Some(data);
        if self.core.is_some() {
            return self.book(Event::ExecutorReady { limits, stored });
        }
        self.core = Some(Scheduler::new(self.config, limits, &stored));
        self.book(Event::TenantsConfigured(self.policies.clone()));
        if self.draining {
            self.book(Event::DrainStarted);
        }
    }

    fn abandon(&mut self, fault: &Fault) {
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        for id in ids {
            self.tell_last(id, SequenceEvent::Failed(fault.clone()));
            self.book(Event::Cancelled(id));
        }
    }

    fn configure(&mut self, policies: Vec<TenantPolicy>) {
        self.policies.clone_from(&policies);
        self.book(Event::TenantsConfigured(policies));
    }

    /// Sets the one timer for the core's next deadline. Without one, nothing wakes an idle server.
    fn set_alarm(&mut self, ctx: &mut Context<Self>) {
        let due = self.core.as_ref().and_then(Scheduler::next_deadline);
        if self.alarm.map(|(set, _)| set) == due {
            return;
        }
        if let Some((_, timer)) = self.alarm.take() {
            ctx.cancel_future(timer);
        }
        let Some(due) = due else { return };
        let left = Duration::from_micros(due.0.saturating_sub(self.now().0));
        let timer = ctx.run_later(left, |scheduler, ctx| {
            scheduler.alarm = None;
            scheduler.book(Event::TimePassed);
            scheduler.set_alarm(ctx);
        });
        self.alarm = Some((due, timer));
    }

    fn step_ended(&mut self, step: StepId) {
        if let Some((submitted, since)) = self.submitted.pop_front() {
            debug_assert_eq!(submitted, step);
            metrics::step(since.elapsed());
        }
        metrics::bookkeeping(std::mem::take(&mut self.bookkeeping));
        self.steps += 1;
    }
}

impl Actor for SchedulerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Handler<SchedulerCommand> for SchedulerActor {
    type Result = ();

    fn handle(&mut self, command: SchedulerCommand, ctx: &mut Self::Context) {
        match command {
            SchedulerCommand::Admit { sequence, events } => self.admit(sequence, events),
            SchedulerCommand::Grant { sequence, tokens } => {
                self.book(Event::CreditGranted { sequence, tokens });
            }
            SchedulerCommand::Mask { sequence, generated, mask } => {
                self.book(Event::MaskGiven { sequence, generated, mask });
            }
            SchedulerCommand::Cancel(sequence) => {
                self.sessions.remove(&sequence);
                self.book(Event::Cancelled(sequence));
            }
            SchedulerCommand::ExecutorReady { limits, stored, data } => {
                self.executor_ready(limits, stored, data);
            }
            SchedulerCommand::ExecutorLost => {
                self.data = None;
                self.submitted.clear();
                self.book(Event::ExecutorLost);
            }
            SchedulerCommand::Drain => {
                self.draining = true;
                self.book(Event::DrainStarted);
            }
            SchedulerCommand::Configure(policies) => self.configure(policies),
            SchedulerCommand::Abandon(fault) => self.abandon(&fault),
        }
        self.set_alarm(ctx);
    }
}

impl Handler<ExecutorEvent> for SchedulerActor {
    type Result = ();

    fn handle(&mut self, ExecutorEvent(event): ExecutorEvent, ctx: &mut Self::Context) {
        match event {
            GpuEvent::StepDone(outcome) => {
                self.step_ended(outcome.step);
                self.book(Event::StepDone(outcome));
            }
            GpuEvent::StepFailed { step, fault } => {
                // What was submitted before this was known fails with it: once is enough to say so.
                match self.doomed_until.is_some_and(|last| step <= last) {
                    true => tracing::debug!(%step, %fault, "step failed after another"),
                    false => tracing::warn!(%step, %fault, "step failed"),
                }
                self.doomed_until = self.submitted.back().map(|(last, _)| *last).max(self.doomed_until);
                self.step_ended(step);
                self.book(Event::StepFailed { step, fault });
            }
            other => tracing::error!(?other, "an event that is not the scheduler's"),
        }
        self.set_alarm(ctx);
    }
}

impl Handler<AwaitIdle> for SchedulerActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: AwaitIdle, _: &mut Self::Context) -> Self::Result {
        let (idle, waiter) = oneshot::channel();
        if self.sessions.is_empty() {
            let _ = idle.send(());
        } else {
            self.idle_waiters.push(idle);
        }
        // An error means that the scheduler is gone, and with it all sequences.
        Box::pin(async move { waiter.await.unwrap_or_default() })
    }
}

impl Handler<Observe> for SchedulerActor {
    type Result = SchedulerStatus;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        self.status()
    }
}

impl Handler<Inspect> for SchedulerActor {
    type Result = Option<Status>;

    fn handle(&mut self, _: Inspect, _: &mut Self::Context) -> Self::Result {
        let now = self.now();
        self.core.as_mut().map(|core| core.status(now))
    }
}

#[cfg(test)]
mod tests;
