//! Whoever reads the log may be slow or gone: the server goes on.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::support::{Client, address, chat, model, streamed, troupe, with};

/// A process that does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that logs every request, and its log, read up to the line that says it is ready.
fn start() -> (Client, Process, BufReader<ChildStderr>) {
    let model = model();
    let mut command =
        troupe(&["serve", "--model", model.to_str().unwrap(), "--port", "0", "--log-level", "debug"]);
    let mut process = Process(command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let mut log = BufReader::new(process.0.stderr.take().unwrap());
    let mut line = String::new();
    loop {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the server ended");
        if let Some(address) = address(&line) {
            return (Client { address }, process, log);
        }
    }
}

fn assert_serves_and_ends(client: &Client, mut process: Process) {
    let question = with(chat("What is the capital of France?", 16), json!({"temperature": 0}));
    assert_eq!(client.chat(&streamed(question)).text(), "The capital of France is Paris.");
    kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
    assert!(process.0.wait().unwrap().success());
}

#[test]
fn a_log_that_nobody_can_write_to_is_no_reason_to_fail() {
    let (client, process, log) = start();
    drop(log);
    assert_eq!(client.get("/nowhere").status, 404);
    assert_serves_and_ends(&client, process);
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_request() {
    let (client, process, _log) = start();
    // More lines than a pipe holds.
    for _ in 0..1000 {
        assert_eq!(client.get("/nowhere").status, 404);
    }
    assert_serves_and_ends(&client, process);
}
