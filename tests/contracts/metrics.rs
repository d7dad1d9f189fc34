//! `GET /metrics`: what it counts is what clients were told.

use serde_json::json;

use crate::support::{CAPITAL, Server, chat, streamed, with};

#[test]
fn c270_c271_c273_counters_agree_with_the_answers_and_a_scrape_does_not_grow() {
    let server = Server::start(&[]);
    let requests =
        [chat(CAPITAL, 32), streamed(chat(CAPITAL, 4)), with(chat("Tell me a story.", 8), json!({"n": 2}))];
    let mut lines = Vec::new();
    let (mut prompt_tokens, mut generated_tokens) = (0, 0);
    for round in 1..=3_u32 {
        for request in &requests {
            let usage = server.client.chat(request).usage;
            // Of a prompt with several choices each sequence is counted.
            let sequences = request["n"].as_u64().unwrap_or(1);
            prompt_tokens += usage["prompt_tokens"].as_u64().unwrap() * sequences;
            generated_tokens += usage["completion_tokens"].as_u64().unwrap();
        }
        server.until_idle();
        for (name, value) in [
            ("troupe_prompt_tokens_total", prompt_tokens as f64),
            ("troupe_generation_tokens_total", generated_tokens as f64),
            ("troupe_request_success_total{finished_reason=\"stop\"}", f64::from(round)),
            ("troupe_request_success_total{finished_reason=\"length\"}", f64::from(3 * round)),
            ("troupe_time_to_first_token_seconds_count", f64::from(4 * round)),
            ("troupe_e2e_request_latency_seconds_count", f64::from(4 * round)),
            ("troupe_num_requests_running", 0.0),
            ("troupe_num_requests_waiting", 0.0),
            ("troupe_kv_cache_usage_perc", 0.0),
        ] {
            assert_eq!(server.metric(name), value, "{name}");
        }
        assert!(server.metric("troupe_inter_token_latency_seconds_sum") > 0.0);
        lines.push(server.client.get("/metrics").text().lines().count());
    }
    assert_eq!(lines[1], lines[2], "the same traffic again makes no new series");
}
