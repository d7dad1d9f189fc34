//! A server and a client that speaks just enough HTTP, so that tests decide when a connection closes.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::Actor as _;
use actix_web::dev::ServerHandle;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use troupe_actors::metrics;
use troupe_actors::response_store::{ResponseStore, StoreOptions};
use troupe_actors::scheduler::{Config, SchedulerActor, SchedulerStatus};
use troupe_actors::testing::{
    ScriptedScheduler, Seen, calling_card, calling_card_in, filling_card, model_card,
};
use troupe_actors::tokenizer_pool::TokenizerPool;
use troupe_protocol::{NewSequence, SequenceEvent, TenantId};

use crate::http::{AppState, Directory, HttpOptions, Served, Tenant, serve};

/// The most bytes of a body that test servers read.
pub(super) const BODY_LIMIT: usize = 64 * 1024;
/// The context of the model that test servers serve.
pub(super) const CONTEXT: u32 = 2048;

pub(super) type Script = fn(&NewSequence) -> Vec<SequenceEvent>;

pub(super) struct TestServer {
    address: SocketAddr,
    handle: ServerHandle,
    active: watch::Receiver<usize>,
    pub(super) seen: mpsc::UnboundedReceiver<Seen>,
}

/// A model that is loaded, or is still on its way.
pub(super) enum Model {
    Loaded,
    /// One that reasons and calls tools.
    Calling,
    /// The same in the format of that name.
    CallingIn(&'static str),
    /// One that fills in.
    Filling,
    Loading,
}

impl TestServer {
    pub(super) fn start(script: Script) -> Self {
        let status = SchedulerStatus { ready: true, ..SchedulerStatus::default() };
        Self::with(script, status, &Model::Loaded)
    }

    /// One whose model reasons and calls tools.
    pub(super) fn calling(script: Script) -> Self {
        let status = SchedulerStatus { ready: true, ..SchedulerStatus::default() };
        Self::with(script, status, &Model::Calling)
    }

    /// The same in the format of that name.
    pub(super) fn calling_in(format: &'static str, script: Script) -> Self {
        let status = SchedulerStatus { ready: true, ..SchedulerStatus::default() };
        Self::with(script, status, &Model::CallingIn(format))
    }

    pub(super) fn with(script: Script, status: SchedulerStatus, model: &Model) -> Self {
        Self::of(script, status, model, keyless())
    }

    pub(super) fn serving(script: Script, directory: Directory) -> Self {
        let status = SchedulerStatus { ready: true, ..SchedulerStatus::default() };
        Self::of(script, status, &Model::Loaded, directory)
    }

    fn of(script: Script, status: SchedulerStatus, model: &Model, directory: Directory) -> Self {
        let (scheduler, seen) = ScriptedScheduler::start(script, status);
        let served = Arc::new(OnceLock::new());
        let card = match model {
            Model::Loaded => Some(model_card(CONTEXT).unwrap()),
            Model::Calling => Some(calling_card(CONTEXT).unwrap()),
            Model::CallingIn(format) => Some(calling_card_in(format, CONTEXT).unwrap()),
            Model::Filling => Some(filling_card(CONTEXT).unwrap()),
            Model::Loading => None,
        };
        if let Some(card) = card.map(Arc::new) {
            let pool = TokenizerPool::start(1, Arc::clone(&card.tokenizer), card.template.clone(), CONTEXT);
            served.set(Served { card, pool }).unwrap();
        }
        let active = watch::Sender::new(0);
        let watcher = active.subscribe();
        let state = AppState {
            scheduler: scheduler.clone().recipient(),
            observe: scheduler.recipient(),
            inspect: SchedulerActor::new(Config::default()).start().recipient(),
            tenants: watch::Sender::new(Arc::new(directory)).subscribe(),
            served,
            responses: ResponseStore::start(StoreOptions { dir: None, max_bytes: 1 << 20, max_age_s: 3600 })
                .unwrap(),
            metrics: metrics::recorder().unwrap().handle(),
            active,
            body_limit: BODY_LIMIT,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let options = HttpOptions { workers: 1, ..HttpOptions::default() };
        let server = serve(listener, options, state).unwrap();
        let handle = server.handle();
        actix::spawn(server);
        Self { address, handle, active: watcher, seen }
    }

    /// Sends raw bytes on a connection of their own.
    pub(super) async fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(post(path, body.to_string().as_bytes())).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.ask(head("GET", path, "")).await
    }

    pub(super) async fn ask(&self, request: Vec<u8>) -> Reply {
        let mut stream = self.send(&request).await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        Reply::parse(&bytes)
    }

    pub(super) async fn admitted(&mut self) -> NewSequence {
        loop {
            if let Seen::Admitted(sequence) = self.seen.recv().await.unwrap() {
                return sequence;
            }
        }
    }

    /// Waits until a sequence is cancelled. The limit turns a hang into a failure.
    pub(super) async fn cancelled(&mut self) {
        let cancelled = async { while !matches!(self.seen.recv().await.unwrap(), Seen::Cancelled(_)) {} };
        tokio::time::timeout(Duration::from_secs(120), cancelled).await.expect("the sequence is cancelled");
    }

    /// Waits until no request is active.
    pub(super) async fn idle(&mut self) {
        self.active.wait_for(|&count| count == 0).await.unwrap();
    }

    pub(super) async fn stop(self) {
        self.handle.stop(false).await;
    }
}

/// A server that asks for no key.
pub(super) fn keyless() -> Directory {
    Directory {
        keys: Vec::new(),
        anonymous: Some(Arc::new(Tenant::unlimited(TenantId::ANONYMOUS))),
        admin: None,
        names: BTreeMap::new(),
    }
}

pub(super) fn head(method: &str, path: &str, headers: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n").into_bytes()
}

pub(super) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let mut request = head("POST", path, &format!("content-length: {}\r\n", body.len()));
    request.extend_from_slice(body);
    request
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let split = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
        let head = String::from_utf8(bytes[..split].to_vec()).unwrap();
        let mut body = bytes[split + 4..].to_vec();
        if head.contains("transfer-encoding: chunked") {
            body = unchunk(&body);
        }
        let status = head[9..12].parse().unwrap();
        Self { status, head, body: String::from_utf8(body).unwrap() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The data of a stream's events; it has to end in `[DONE]`, which is left out.
    pub(super) fn events(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"), "{self:?}");
        let mut data: Vec<_> =
            self.body.split_terminator("\n\n").map(|event| &event["data: ".len()..]).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{self:?}");
        data.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n").expect("a chunk's length");
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 2 + length + 2..];
    }
}
