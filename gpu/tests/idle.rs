//! An executor without work does not even wake.
#![cfg(target_os = "linux")]

mod support;

use std::fs::read_to_string;
use std::time::Duration;

use support::running::{Running, first, next};
use troupe_protocol::StepId;

/// A time in which the thread may not wake.
const REST: Duration = Duration::from_millis(250);

/// How often the executor's thread went to wait so far.
fn waits() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let mut own =
        tasks.filter(|task| read_to_string(task.join("comm")).is_ok_and(|name| name == "gpu-executor\n"));
    let status = read_to_string(own.next().expect("the executor's thread").join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a count").trim().parse().unwrap()
}

#[test]
fn an_executor_without_steps_in_flight_does_not_wake() {
    let running = Running::with_model();
    // After a prompt, and after a token that was decoded.
    for step in 0..2 {
        running.submit(if step == 0 { first(0) } else { next(1) });
        assert_eq!(running.outcome().step, StepId(step));
        // Other load may delay the way into the wait; a thread that polls never has such a time of rest.
        let rests = || {
            let before = waits();
            assert!(running.events.recv_timeout(REST).is_err());
            waits() == before
        };
        assert!((0..20).any(|_| rests()));
    }
}
