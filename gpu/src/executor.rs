//! The executor: the one thread that calls MLX.
//!
//! Commands arrive on two bounded lanes, urgent before data; events leave by the sink given at start. While a
//! step is computed the next one is submitted, so the device never waits for the host. Idle, the thread blocks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use troupe_protocol::gpu::{DATA_LANE, URGENT_LANE};
use troupe_protocol::{Fault, GpuCommand, GpuEvent, LoadRequest, StepId, StepMasks, StepPlan};

use crate::engine::Engine;
use crate::error::GpuError;

/// Steps submitted beyond the one that is waited for.
const LOOKAHEAD: usize = 1;

/// How often the thread looks whether a step is computed while the next one has not been submitted. MLX
/// offers no call that waits for either; the scheduler answers within much less.
const POLL: Duration = Duration::from_micros(200);

/// Where events go. Called on the executor's thread; must not wait for it.
pub type EventSink = Box<dyn FnMut(GpuEvent) + Send>;

/// The sending ends of a running executor.
#[derive(Debug)]
pub struct Executor {
    /// For `Load`, `Submit`, `Masks` and `Drain`.
    pub data: Sender<GpuCommand>,
    /// For `Stats` and `Stop`.
    pub urgent: Sender<GpuCommand>,
    thread: JoinHandle<()>,
}

impl Executor {
    /// Starts the thread. It stops when told, or when a lane has lost its last sender.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(sink: EventSink) -> std::io::Result<Self> {
        let (data, data_lane) = bounded(DATA_LANE);
        let (urgent, urgent_lane) = bounded(URGENT_LANE);
        let run = move || {
            let mut worker = Worker { data: data_lane, urgent: urgent_lane, sink, engine: None };
            // A panic is a bug in a part that can be restarted, not a reason to end the process.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| worker.run())) {
                // The next executor needs its memory, and its lock on the block store.
                worker.engine = None;
                let message = panic_message(panic.as_ref());
                (worker.sink)(GpuEvent::Fault(Fault::ExecutorLost { message }));
            }
        };
        let thread = Builder::new().name("gpu-executor".to_owned()).spawn(run)?;
        Ok(Self { data, urgent, thread })
    }

    /// Waits for the thread to end.
    pub fn join(self) {
        drop((self.data, self.urgent));
        // Its panics are caught inside and reported as events.
        let _ = self.thread.join();
    }
}

/// State of the thread.
struct Worker {
    data: Receiver<GpuCommand>,
    urgent: Receiver<GpuCommand>,
    sink: EventSink,
    engine: Option<Engine>,
}

/// What the thread does next.
enum Next {
    Command(GpuCommand),
    FinishOldest,
    /// Nobody can send any more.
    Hangup,
}

/// Whether the thread goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    End,
}

impl Worker {
    fn run(&mut self) {
        while self.turn() == Flow::Continue {}
        (self.sink)(GpuEvent::Stopped);
    }

    fn turn(&mut self) -> Flow {
        match self.next() {
            Next::FinishOldest => self.finish_oldest(),
            Next::Hangup | Next::Command(GpuCommand::Stop) => return Flow::End,
            Next::Command(GpuCommand::Drain) => {
                self.finish_all();
                return Flow::End;
            }
            Next::Command(GpuCommand::Load(request)) => self.load(&request),
            Next::Command(GpuCommand::Submit(plan)) => self.submit(&plan),
            Next::Command(GpuCommand::Masks(masks)) => self.give_masks(masks),
            Next::Command(GpuCommand::Stats) => {
                let stats = self.engine.as_ref().map(Engine::stats).unwrap_or_default();
                (self.sink)(GpuEvent::Stats(stats));
            }
        }
        Flow::Continue
    }

    fn in_flight(&self) -> usize {
        self.engine.as_ref().map_or(0, Engine::num_in_flight)
    }

    /// Waits for a command or, with a step in flight, for whichever of both comes first.
    fn next(&self) -> Next {
        let received = |command: Result<GpuCommand, _>| command.map_or(Next::Hangup, Next::Command);
        if self.in_flight() == 0 {
            return select_biased! {
                recv(self.urgent) -> command => received(command),
                recv(self.data) -> command => received(command),
            };
        }
        if self.in_flight() > LOOKAHEAD {
            return self.urgent.try_recv().map_or(Next::FinishOldest, Next::Command);
        }
        loop {
            select_biased! {
                recv(self.urgent) -> command => return received(command),
                recv(self.data) -> command => return received(command),
                default(POLL) => {}
            }
            if self.engine.as_ref().is_some_and(Engine::is_oldest_done) {
                return Next::FinishOldest;
            }
        }
    }

    fn load(&mut self, request: &LoadRequest) {
        self.finish_all();
        // Two models at once may not fit.
        self.engine = None;
        let sink = &mut self.sink;
        match Engine::load(request, &mut |done, total| sink(GpuEvent::Loading { done, total })) {
            Ok(engine) => {
                (self.sink)(GpuEvent::Ready(engine.info().clone()));
                self.engine = Some(engine);
            }
            Err(error) => {
                let (message, option) = (error.to_string(), error.option());
                (self.sink)(GpuEvent::Fault(Fault::Load { message, option }));
            }
        }
    }

    fn submit(&mut self, plan: &StepPlan) {
        let result = match &mut self.engine {
            Some(engine) => engine.submit(plan),
            None => Err(GpuError::Step("no model is loaded".to_owned())),
        };
        if let Err(error) = result {
            // Steps before this one are sound: their outcomes are still wanted.
            self.finish_all();
            self.fail(plan.step, &error);
        }
    }

    fn give_masks(&mut self, masks: StepMasks) {
        let step = masks.step;
        if let Some(Err(error)) = self.engine.as_mut().map(|engine| engine.give_masks(masks)) {
            self.finish_all();
            self.fail(step, &error);
        }
    }

    fn finish_all(&mut self) {
        while self.in_flight() > 0 {
            self.finish_oldest();
        }
    }

    fn finish_oldest(&mut self) {
        match self.engine.as_mut().and_then(Engine::finish) {
            Some(Ok(outcome)) => (self.sink)(GpuEvent::StepDone(outcome)),
            Some(Err((step, error))) => self.fail(step, &error),
            None => {}
        }
    }

    /// Reports a failed step and all that were built on it, and makes the engine fit for new ones.
    fn fail(&mut self, step: StepId, error: &GpuError) {
        let failed = |step| {
            let message = error.to_string();
            let fault = match error {
                GpuError::Store(_) => Fault::Store { step, message },
                _ => Fault::Step { step, message },
            };
            GpuEvent::StepFailed { step, fault }
        };
        (self.sink)(failed(step));
        match self.engine.as_mut().map(Engine::reset) {
            Some(Ok(later)) => later.into_iter().for_each(|step| (self.sink)(failed(step))),
            Some(Err(error)) => {
                self.engine = None;
                let message = format!("no memory after a failed step: {error}");
                (self.sink)(GpuEvent::Fault(Fault::ExecutorLost { message }));
            }
            None => {}
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}
