//! An executor that runs, and the steps of one sequence for it.

use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use serde_json::json;
use tempfile::TempDir;
use troupe_gpu::Executor;
use troupe_protocol::{
    Binding, BlockId, Fault, GpuCommand, GpuEvent, Row, RowOutput, RowTokens, SamplingParams, SequenceId,
    SlotId, StepId, StepMasks, StepOutcome, StepPlan, TokenId, TokenMask,
};

use super::checkpoint::Checkpoint;
use super::request;

/// Far beyond what any answer takes here.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running executor and what it says. Joined in the end: MLX does not outlive the process in peace.
pub struct Running {
    pub executor: Option<Executor>,
    pub events: Receiver<GpuEvent>,
}

impl Running {
    pub fn start() -> Self {
        let (sender, events) = unbounded();
        // The test may be done with events before the executor is.
        let sink = Box::new(move |event| drop(sender.send(event)));
        Self { executor: Some(Executor::start(sink).unwrap()), events }
    }

    /// An executor with a tiny model.
    pub fn with_model() -> Self {
        let (running, folder) = (Self::start(), tiny());
        running.load(&folder);
        assert!(matches!(running.event(), GpuEvent::Ready(_)));
        running
    }

    pub fn send(&self, command: GpuCommand) {
        let executor = self.executor.as_ref().unwrap();
        let lane = match command {
            GpuCommand::Stats | GpuCommand::Stop => &executor.urgent,
            GpuCommand::Load(_) | GpuCommand::Submit(_) | GpuCommand::Masks(_) | GpuCommand::Drain => {
                &executor.data
            }
        };
        lane.send(command).unwrap();
    }

    pub fn load(&self, folder: &TempDir) {
        self.send(GpuCommand::Load(request(folder.path())));
    }

    pub fn submit(&self, plan: StepPlan) {
        self.send(GpuCommand::Submit(plan));
    }

    /// Gives a step in flight its masks.
    pub fn masks(&self, step: u64, masks: Vec<(SequenceId, TokenMask)>) {
        self.send(GpuCommand::Masks(StepMasks { step: StepId(step), masks }));
    }

    /// The next event that is not progress.
    #[track_caller]
    pub fn event(&self) -> GpuEvent {
        loop {
            match self.events.recv_timeout(PATIENCE).unwrap() {
                GpuEvent::Loading { .. } => {}
                event => return event,
            }
        }
    }

    #[track_caller]
    pub fn outcome(&self) -> StepOutcome {
        match self.event() {
            GpuEvent::StepDone(outcome) => outcome,
            event => panic!("{event:?}"),
        }
    }

    /// Takes `StepFailed` of this step, and answers its message.
    #[track_caller]
    pub fn failure(&self, wanted: u64) -> String {
        match self.event() {
            GpuEvent::StepFailed { step, fault: Fault::Step { step: of, message } } => {
                assert_eq!((step, of), (StepId(wanted), StepId(wanted)));
                message
            }
            event => panic!("{event:?}"),
        }
    }

    /// Nothing but the end comes.
    #[track_caller]
    pub fn assert_stops(mut self) {
        assert_eq!(self.event(), GpuEvent::Stopped);
        self.executor.take().unwrap().join();
        assert!(self.events.recv_timeout(PATIENCE).is_err_and(|error| error.is_disconnected()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(executor) = self.executor.take() {
            executor.join();
        }
    }
}

pub fn tiny() -> TempDir {
    Checkpoint::tiny(&json!({})).write()
}

/// A step that gives slot 0 to a prompt of five tokens, in blocks that hold eleven more.
pub fn first(step: u64) -> StepPlan {
    let binding = Binding { slot: SlotId(0), sampling: SamplingParams::greedy(), history: None, max_len: 16 };
    StepPlan {
        step: StepId(step),
        saves: Vec::new(),
        loads: Vec::new(),
        bindings: vec![binding],
        rows: vec![row(0, vec![9, 8, 7, 6, 5])],
    }
}

fn row(start: u32, ids: Vec<TokenId>) -> Row {
    Row {
        sequence: SequenceId(1),
        slot: SlotId(0),
        start,
        tokens: RowTokens::Prompt(ids),
        blocks: vec![BlockId(0), BlockId(1)],
        targets: Vec::new(),
        output: RowOutput::Sample,
        mask: None,
    }
}

/// The step after that, from the token that the last one sampled.
pub fn next(step: u64) -> StepPlan {
    let tokens = RowTokens::Sampled(StepId(step - 1));
    let start = 5 + step as u32 - 1;
    StepPlan {
        step: StepId(step),
        saves: Vec::new(),
        loads: Vec::new(),
        bindings: vec![],
        rows: vec![Row { tokens, ..row(start, vec![]) }],
    }
}
