//! What an idle server, and a busy one, take from the machine. Read from `/proc`.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::support::{CAPITAL, Server, chat, streamed, with};

/// Resident memory of the server's process.
pub fn resident_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

/// Processor time that the server's process has used, all threads together.
fn processor_time(server: &Server) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    // The second field is a name in parentheses, which may hold anything; after it, utime and stime are the 12th and 13th.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[test]
fn an_idle_server_uses_no_processor_time() {
    const INTERVAL: Duration = Duration::from_secs(5);
    let mut server = Server::start(&[]);
    let mut assert_idle = |when: &str| {
        // Other load may delay the way to rest; a server that is never idle has no such interval.
        let mut intervals = (0..4).map(|_| {
            let before = processor_time(&server);
            assert_eq!(server.exit(INTERVAL), None, "an idle server goes on");
            processor_time(&server) - before
        });
        let busy: Vec<Duration> = intervals.by_ref().take_while(|&used| used > INTERVAL / 100).collect();
        assert!(busy.len() < 4, "{busy:?} in {INTERVAL:?} {when}");
        server.client.chat(&with(chat(CAPITAL, 16), json!({"n": 8})));
        drop(server.client.post("/v1/chat/completions", &streamed(chat(CAPITAL, 16))));
        server.until_idle();
    };
    assert_idle("after the start");
    assert_idle("after traffic");
}

#[test]
fn beside_weights_and_kv_the_server_stays_small() {
    const LIMIT: u64 = 250 << 20;
    let server = Server::start(&["--kv-cache-memory", "128MiB"]);
    let accounted = (server.announced("weights_mib") + server.announced("kv_mib")) << 20;
    let assert_small = |when: &str| {
        let beside = resident_bytes(&server).saturating_sub(accounted);
        assert!(beside < LIMIT, "{} MiB {when}", beside >> 20);
    };
    assert_small("after the start");
    let question = "A fox ran over the hill to the river. ".repeat(100);
    server.client.chat(&chat(&question, 16));
    server.client.chat(&with(chat(CAPITAL, 32), json!({"n": 8, "temperature": 1, "logprobs": true})));
    assert_small("after traffic");
}
