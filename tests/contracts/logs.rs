//! Whoever reads the log may be slow or gone: the server goes on.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::support::{Client, chat, model, streamed, troupe, with};

/// A server that logs every request, and its log, read up to the line that says it is ready.
fn start() -> (Client, Child, BufReader<ChildStderr>) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (port, model) = (address.port().to_string(), model());
    let mut command =
        troupe(&["serve", "--model", model.to_str().unwrap(), "--port", &port, "--log-level", "debug"]);
    let mut process = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready on") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the server ended");
    }
    (Client { address }, process, log)
}

fn assert_serves_and_ends(client: &Client, mut process: Child) {
    let question = with(chat("What is the capital of France?", 16), json!({"temperature": 0}));
    assert_eq!(client.chat(&streamed(question)).text(), "The capital of France is Paris.");
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    assert!(process.wait().unwrap().success());
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
