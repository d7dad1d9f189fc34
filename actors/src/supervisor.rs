//! The supervisor: starts the executor, starts another when one is lost, and ends the company in order.
//!
//! Sequences live in the scheduler, so a lost executor costs their clients a pause and nothing else. Restarts
//! have a budget: an executor that keeps dying is a bug that a restart does not mend.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use actix::prelude::*;
use tokio::sync::watch;
use troupe_protocol::{EngineInfo, Fault, GpuCommand, GpuEvent, LoadRequest};

use crate::executor::{EventSink, ExecutorHandle, StartExecutor};
use crate::metrics;
use crate::scheduler::{AwaitIdle, ExecutorEvent, FlushCache, SchedulerActor, SchedulerCommand};

/// Executors that may be lost within [`RESTART_WINDOW`] before the supervisor gives up.
const MAX_RESTARTS: usize = 3;
/// See [`MAX_RESTARTS`].
const RESTART_WINDOW: Duration = Duration::from_secs(300);

/// How often the executor is asked for its memory. It answers between steps.
const STATS_PERIOD: Duration = Duration::from_secs(10);

/// How the engine is, as far as the rest of the process needs to know.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineState {
    /// Weights are being read.
    Loading {
        /// Tensors done.
        done: u32,
        /// Tensors in all; zero while that is not known.
        total: u32,
    },
    /// Steps are accepted.
    Ready(EngineInfo),
    /// It will not come (back).
    Failed(Fault),
}

/// What the executor tells the supervisor.
#[derive(Message)]
#[rtype(result = "()")]
struct SupervisorEvent(GpuEvent);

/// Ends the company: nothing new is taken, sequences get `grace` to finish, then the executor stops. Answered when
/// its thread is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Shutdown {
    /// Time for running sequences.
    pub grace: Duration,
}

/// The supervisor actor.
pub struct Supervisor {
    start: StartExecutor,
    load: LoadRequest,
    scheduler: Addr<SchedulerActor>,
    state: watch::Sender<EngineState>,
    executor: Option<ExecutorHandle>,
    losses: VecDeque<Instant>,
    stopping: bool,
}

impl Supervisor {
    /// A supervisor that loads `load` once it is started, and the end at which the engine's state is seen.
    pub fn new(
        start: StartExecutor,
        load: LoadRequest,
        scheduler: Addr<SchedulerActor>,
    ) -> (Self, watch::Receiver<EngineState>) {
        let (state, watcher) = watch::channel(EngineState::Loading { done: 0, total: 0 });
        let losses = VecDeque::with_capacity(MAX_RESTARTS);
        (Self { start, load, scheduler, state, executor: None, losses, stopping: false }, watcher)
    }

    fn start_executor(&mut self, supervisor: Addr<Self>) {
        let started = (self.start)(event_sink(self.scheduler.clone(), supervisor));
        match started {
            Ok(executor) => {
                // The lane of a new executor is empty.
                let _ = executor.data.try_send(GpuCommand::Load(self.load.clone()));
                self.executor = Some(executor);
            }
            Err(error) => self.give_up(Fault::ExecutorLost { message: error.to_string() }),
        }
    }

    fn executor_lost(&mut self, fault: Fault, ctx: &mut Context<Self>) {
        tracing::error!(%fault, "executor lost");
        self.executor = None;
        self.scheduler.do_send(SchedulerCommand::ExecutorLost);
        if self.stopping {
            return;
        }
        let now = Instant::now();
        self.losses.retain(|&loss| now.duration_since(loss) < RESTART_WINDOW);
        if self.losses.len() == MAX_RESTARTS {
            return self.give_up(fault);
        }
        self.losses.push_back(now);
        self.start_executor(ctx.address());
    }

    fn give_up(&mut self, fault: Fault) {
        self.scheduler.do_send(SchedulerCommand::Abandon(fault.clone()));
        self.state.send_replace(EngineState::Failed(fault));
    }
}

/// Steps go to the scheduler, everything else to the supervisor.
fn event_sink(scheduler: Addr<SchedulerActor>, supervisor: Addr<Supervisor>) -> EventSink {
    Box::new(move |event| match event {
        GpuEvent::StepDone(_) | GpuEvent::StepFailed { .. } => scheduler.do_send(ExecutorEvent(event)),
        _ => supervisor.do_send(SupervisorEvent(event)),
    })
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.start_executor(ctx.address());
        ctx.run_interval(STATS_PERIOD, |supervisor, _| {
            if let Some(executor) = &supervisor.executor {
                // A full lane means that the executor is busy; there is a next time.
                let _ = executor.urgent.try_send(GpuCommand::Stats);
            }
        });
    }
}

impl Handler<SupervisorEvent> for Supervisor {
    type Result = ();

    fn handle(&mut self, SupervisorEvent(event): SupervisorEvent, ctx: &mut Self::Context) {
        match event {
            GpuEvent::Loading { done, total } => {
                self.state.send_replace(EngineState::Loading { done, total });
            }
            GpuEvent::Ready(mut info) => {
                let Some(executor) = &self.executor else { return };
                let (limits, data) = (info.limits, executor.data.clone());
                let stored = std::mem::take(&mut info.stored);
                self.scheduler.do_send(SchedulerCommand::ExecutorReady { limits, stored, data });
                self.state.send_replace(EngineState::Ready(info));
            }
            GpuEvent::Fault(fault @ Fault::Load { .. }) => self.give_up(fault),
            GpuEvent::Fault(fault) => self.executor_lost(fault, ctx),
            GpuEvent::Stats(stats) => metrics::engine_memory(&stats),
            GpuEvent::Stopped => tracing::debug!("executor stopped"),
            GpuEvent::StepDone(_) | GpuEvent::StepFailed { .. } => {
                tracing::error!(?event, "an event that is not the supervisor's");
            }
        }
    }
}

impl Handler<Shutdown> for Supervisor {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, Shutdown { grace }: Shutdown, _: &mut Self::Context) -> Self::Result {
        self.stopping = true;
        self.scheduler.do_send(SchedulerCommand::Drain);
        let scheduler = self.scheduler.clone();
        let drained = async move {
            if tokio::time::timeout(grace, scheduler.send(AwaitIdle)).await.is_err() {
                scheduler.do_send(SchedulerCommand::Abandon(Fault::Shutdown));
                // Answered at once: nothing is left. It tells that the sessions were told.
                let _ = scheduler.send(AwaitIdle).await;
            }
            // What is not saved by then is computed again one day.
            let _ = tokio::time::timeout(FLUSH_TIMEOUT, scheduler.send(FlushCache)).await;
        };
        Box::pin(drained.into_actor(self).then(|(), supervisor, _| {
            let executor = supervisor.executor.take();
            async move {
                let Some(executor) = executor else { return };
                // A stuck executor does not empty its lane; the process ends without it.
                let _ = executor.urgent.try_send(GpuCommand::Stop);
                let joined = tokio::task::spawn_blocking(executor.join);
                let _ = tokio::time::timeout(STOP_TIMEOUT, joined).await;
            }
            .into_actor(supervisor)
        }))
    }
}

/// The longest that the prefix cache gets to be saved.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest that the executor gets to finish the step that it computes.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
