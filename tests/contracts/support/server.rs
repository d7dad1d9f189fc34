//! A server process of a test's own, on a port of its own.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{Client, PATIENCE, model, troupe};

/// A running server. Dropping it kills the process.
pub struct Server {
    pub client: Client,
    process: Child,
    /// Lines of its log; it ends when the process does.
    log: Receiver<String>,
    /// Lines up to the one that announced it.
    pub before_ready: Vec<String>,
}

/// What `/ready` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    pub word: String,
    pub running: u64,
    pub waiting: u64,
    pub blocks_free: u64,
    pub blocks_total: u64,
    pub steps: u64,
}

impl Server {
    /// Starts a server of the default model with further flags, and waits until it is ready.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_model(&model(), flags)
    }

    /// The same of another model.
    pub fn start_model(model: &Path, flags: &[&str]) -> Self {
        let (mut process, log) = spawn(model, 0, flags);
        let deadline = Instant::now() + PATIENCE;
        let mut before_ready = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = log.recv_timeout(left).unwrap_or_else(|error| {
                let _ = process.kill();
                panic!("the server did not get ready: {error}")
            });
            let address = address(&line);
            before_ready.push(line);
            if let Some(address) = address {
                return Self { client: Client { address }, process, log, before_ready };
            }
        }
    }

    /// Starts a server and waits only until it answers.
    pub fn loading(flags: &[&str]) -> Self {
        let address = free_address();
        let (process, log) = spawn(&model(), address.port(), flags);
        let server = Self { client: Client { address }, process, log, before_ready: Vec::new() };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
        }
        assert_eq!(server.client.get("/health").status, 200);
        server
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// A number that the server announced itself with.
    pub fn announced(&self, key: &str) -> u64 {
        let announced = self.before_ready.last().expect("it was waited for");
        let mut words = announced.split(' ').filter_map(|word| word.split_once('='));
        let (_, number) = words.find(|(name, _)| *name == key).expect(key);
        number.parse().expect(key)
    }

    /// Asks the process to end.
    #[cfg(unix)]
    pub fn terminate(&self) {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    }

    /// Asks the process to read its configuration again.
    #[cfg(unix)]
    pub fn hang_up(&self) {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    }

    /// The next line of the log that holds `text`; those before it are passed over.
    pub fn until_logged(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line =
                self.log.recv_timeout(left).unwrap_or_else(|error| panic!("no line {text:?}: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The exit of the process, if it comes within `limit`.
    pub fn exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(self.process.wait().unwrap()),
            }
        }
    }

    pub fn status(&self) -> Status {
        let response = self.client.get("/ready");
        let code = response.status;
        let body = response.json();
        let number = |name: &str| body[name].as_u64().expect(name);
        Status {
            code,
            word: body["status"].as_str().unwrap().to_owned(),
            running: number("num_requests_running"),
            waiting: number("num_requests_waiting"),
            blocks_free: number("kv_blocks_free"),
            blocks_total: number("kv_blocks_total"),
            steps: number("steps"),
        }
    }

    /// Asks for the status until it is as wanted.
    pub fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "waited too long for {what}: {status:?}");
        }
    }

    /// Waits until no sequence is left; then all blocks are free.
    pub fn until_idle(&self) -> Status {
        self.until("no sequence and all blocks free", |status| {
            (status.running, status.waiting, status.blocks_free) == (0, 0, status.blocks_total)
        })
    }

    /// The value of a metric, which is named with its labels.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.client.get("/metrics").text();
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(key, _)| *key == name).expect(name);
        value.parse().expect(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(model: &Path, port: u16, flags: &[&str]) -> (Child, Receiver<String>) {
    let mut process = troupe(&["serve", "--port", &port.to_string(), "--model"])
        .arg(model)
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = lines(&mut process);
    (process, log)
}

/// The lines that a process writes to stderr. Whatever becomes of the receiver, they are read, so that the process
/// never waits for a reader.
fn lines(process: &mut Child) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let stderr = BufReader::new(process.stderr.take().unwrap());
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            eprintln!("server: {line}");
            let _ = sender.send(line);
        }
    });
    receiver
}

/// An address that nobody listens on, for a server that has yet to say its own. Its port is below those that the system
/// gives to whoever names none, so no other test or connection can come by it before the server does.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 1000 * 10) as u16;
    let ports = (0..1000).map(|_| 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000);
    let mut addresses = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a free port")
}

/// Where a server says that it serves, if this is the line of its log that does.
pub fn address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("ready on http://")?;
    rest.split(' ').next()?.parse().ok()
}
