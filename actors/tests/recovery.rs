//! The supervisor and the scheduler beside an executor that dies: streams pause and go on with the same text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use actix::prelude::*;
use crossbeam_channel::{Receiver, bounded, select};
use tokio::sync::mpsc;
use troupe_actors::executor::{EventSink, ExecutorHandle};
use troupe_actors::scheduler::{Config, Observe, SchedulerActor, SchedulerCommand};
use troupe_actors::session::SessionEvent;
use troupe_actors::supervisor::{EngineState, Shutdown, Supervisor};
use troupe_protocol::gpu::{DATA_LANE, URGENT_LANE};
use troupe_protocol::{
    CpuOptions, DeviceChoice, EngineInfo, EngineLimits, Fault, FinishReason, GpuCommand, GpuEvent,
    KvCacheDtype, LengthClasses, LoadRequest, NewSequence, Priority, RequestPart, RowOutcome, SampledToken,
    SamplingParams, SequenceEvent, SequenceId, StepOutcome, TenantId, WeightDtype,
};

const LIMITS: EngineLimits = EngineLimits {
    max_model_len: 256,
    max_num_seqs: 4,
    max_num_batched_tokens: 16,
    max_num_prompt_logprobs: 16,
    block_size: 8,
    num_blocks: 64,
    num_stored_blocks: 0,
    vocab_size: 1000,
    length_classes: LengthClasses::One,
};

const TOKENS: u32 = 40;

/// What an executor says at a position, whichever executor it is.
fn token_at(sequence: SequenceId, position: u32) -> u32 {
    (sequence.0 as u32 * 97 + position * 31) % LIMITS.vocab_size
}

/// An executor without a device. It dies after `steps` steps.
struct Puppet {
    data: Receiver<GpuCommand>,
    urgent: Receiver<GpuCommand>,
    sink: EventSink,
    steps: u32,
}

impl Puppet {
    fn start(sink: EventSink, steps: u32) -> std::io::Result<ExecutorHandle> {
        let (data, data_lane) = bounded(DATA_LANE);
        let (urgent, urgent_lane) = bounded(URGENT_LANE);
        let mut puppet = Puppet { data: data_lane, urgent: urgent_lane, sink, steps };
        let thread = std::thread::spawn(move || puppet.run());
        Ok(ExecutorHandle { data, urgent, join: Box::new(move || thread.join().unwrap()) })
    }

    fn run(&mut self) {
        loop {
            let command = select! {
                recv(self.urgent) -> command => command,
                recv(self.data) -> command => command,
            };
            match command {
                Ok(GpuCommand::Load(_)) => (self.sink)(GpuEvent::Ready(EngineInfo {
                    architecture: "puppet".to_owned(),
                    device: "none".to_owned(),
                    limits: LIMITS,
                    weight_bytes: 0,
                    kv_bytes: 0,
                    stored: Vec::new(),
                })),
                Ok(GpuCommand::Submit(plan)) => {
                    if self.steps == 0 {
                        let message = "planted".to_owned();
                        return (self.sink)(GpuEvent::Fault(Fault::ExecutorLost { message }));
                    }
                    self.steps -= 1;
                    let sampling = plan.rows.iter().filter(|row| row.output.samples());
                    let rows = sampling.map(|row| {
                        let id = token_at(row.sequence, row.start + row.tokens.count());
                        RowOutcome {
                            sequence: row.sequence,
                            token: SampledToken { id, logprobs: None },
                            mu: None,
                        }
                    });
                    (self.sink)(GpuEvent::StepDone(StepOutcome {
                        step: plan.step,
                        rows: rows.collect(),
                        prompts: vec![],
                        unsaved: vec![],
                    }));
                }
                // No sequence here is guided.
                Ok(GpuCommand::Masks(_) | GpuCommand::Stats) => {}
                Ok(GpuCommand::Drain | GpuCommand::Stop) | Err(_) => return (self.sink)(GpuEvent::Stopped),
            }
        }
    }
}

/// Hands what a session hears to the test.
struct Ear(mpsc::UnboundedSender<SequenceEvent>);

impl Actor for Ear {
    type Context = Context<Self>;
}

impl Handler<SessionEvent> for Ear {
    type Result = ();

    fn handle(&mut self, SessionEvent(event): SessionEvent, _: &mut Self::Context) {
        self.0.send(event).unwrap();
    }
}

struct World {
    scheduler: Addr<SchedulerActor>,
    supervisor: Addr<Supervisor>,
    engine: tokio::sync::watch::Receiver<EngineState>,
    started: Arc<AtomicU32>,
}

/// A company whose executors die after so many steps; the last of the list is the life of all later ones.
fn company(lives: &'static [u32]) -> World {
    let load = LoadRequest {
        path: String::new(),
        device: DeviceChoice::Cpu,
        weights: WeightDtype::Auto,
        kv_cache_dtype: KvCacheDtype::Auto,
        max_model_len: None,
        max_num_seqs: None,
        max_num_batched_tokens: None,
        block_size: 8,
        kv_cache_bytes: None,
        store: None,
        cpu: CpuOptions::default(),
    };
    let started = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&started);
    let start = move |sink: EventSink| {
        let number = count.fetch_add(1, Ordering::SeqCst) as usize;
        Puppet::start(sink, lives[number.min(lives.len() - 1)])
    };
    let scheduler = SchedulerActor::new(Config { max_queued: 16, ..Config::default() }).start();
    let (supervisor, engine) = Supervisor::new(Box::new(start), load, scheduler.clone());
    World { scheduler, supervisor: supervisor.start(), engine, started }
}

impl World {
    async fn ready(&mut self) {
        self.engine.wait_for(|state| matches!(state, EngineState::Ready(_))).await.unwrap();
    }

    fn admit(&self, id: u64) -> mpsc::UnboundedReceiver<SequenceEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let sequence = NewSequence {
            id: SequenceId(id),
            tenant: TenantId::ANONYMOUS,
            part: RequestPart::First,
            prompt: vec![1, 2, 3],
            sampling: SamplingParams::greedy(),
            max_tokens: TOKENS,
            stop_tokens: vec![],
            priority: Priority::Normal,
            timeout: None,
            cache_salt: 0,
            mask: None,
            credit: 1000,
        };
        let events = Ear(sender).start().recipient();
        self.scheduler.do_send(SchedulerCommand::Admit { sequence, events });
        receiver
    }
}

/// All that a session hears, up to its end.
async fn hear(mut ear: mpsc::UnboundedReceiver<SequenceEvent>) -> (Vec<u32>, SequenceEvent) {
    let mut tokens = Vec::new();
    loop {
        match ear.recv().await.unwrap() {
            SequenceEvent::Accepted(_) | SequenceEvent::Started { .. } => {}
            SequenceEvent::Token(token) => tokens.push(token.id),
            end => return (tokens, end),
        }
    }
}

#[actix::test]
async fn streams_go_on_when_the_executor_dies_under_them() {
    let mut world = company(&[7, 11, u32::MAX]);
    world.ready().await;
    let ears: Vec<_> = (1..=6).map(|id| (id, world.admit(id))).collect();
    for (id, ear) in ears {
        let (tokens, end) = hear(ear).await;
        let expected: Vec<u32> = (3..3 + TOKENS).map(|position| token_at(SequenceId(id), position)).collect();
        assert_eq!(tokens, expected, "sequence {id}");
        assert!(matches!(end, SequenceEvent::Finished { reason: FinishReason::Length, .. }), "{end:?}");
    }
    assert_eq!(world.started.load(Ordering::SeqCst), 3);
    let status = world.scheduler.send(Observe).await.unwrap();
    assert_eq!((status.num_running, status.blocks_free), (0, LIMITS.num_blocks));
    assert!(status.ready);
}

#[actix::test]
async fn an_executor_that_keeps_dying_fails_what_waits_and_says_so() {
    let mut world = company(&[2]);
    world.ready().await;
    let (_, end) = hear(world.admit(1)).await;
    assert!(matches!(end, SequenceEvent::Failed(Fault::ExecutorLost { .. })), "{end:?}");
    world.engine.wait_for(|state| matches!(state, EngineState::Failed(_))).await.unwrap();
    assert!(!world.scheduler.send(Observe).await.unwrap().ready);
}

#[actix::test]
async fn c278_a_shutdown_lets_streams_finish_and_takes_nothing_new() {
    let mut world = company(&[u32::MAX]);
    world.ready().await;
    let running = world.admit(1);
    let shutdown = world.supervisor.send(Shutdown { grace: Duration::from_secs(60) });
    shutdown.await.unwrap();
    let (tokens, end) = hear(running).await;
    assert_eq!(tokens.len() as u32, TOKENS);
    assert!(matches!(end, SequenceEvent::Finished { .. }), "{end:?}");
    let (_, end) = hear(world.admit(2)).await;
    assert!(matches!(end, SequenceEvent::Rejected(_)), "{end:?}");
}
