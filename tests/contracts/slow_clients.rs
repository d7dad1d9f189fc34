//! A client that does not read makes its own sequence wait, and nobody else.

use std::net::TcpStream;

use serde_json::json;
use socket2::{Domain, Socket, Type};

#[cfg(target_os = "linux")]
use crate::resources::resident_bytes;
use crate::support::{CAPITAL, Client, Server, chat, streamed, with};

/// Tokens of the slow client's answer, each in an event of 2 KiB. The server's side of the socket holds 130 KiB.
const TOKENS: u32 = 200;
/// Answers that others get before the slow client's sequence has to stand still.
const OTHERS: usize = 60;

/// A connection that takes only a few KiB ahead of its reader.
fn narrow(client: Client) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    // Segments of the size of a real network's: the sender's buffer is a multiple of them.
    socket.set_tcp_mss(536).unwrap();
    socket.connect(&client.address.into()).unwrap();
    socket.into()
}

#[test]
fn a_client_that_reads_nothing_stops_its_own_sequence_and_gets_all_of_it_in_the_end() {
    let server = Server::start(&[]);
    let client = server.client;
    let own = json!({"ignore_eos": true, "logprobs": true, "top_logprobs": 20});
    let request = with(chat("Tell me a long story.", TOKENS), own);
    let expected = client.chat(&request);
    let quick = client.chat(&chat(CAPITAL, 32));
    let quick_tokens = quick.usage["completion_tokens"].as_f64().unwrap();

    let before_slow = server.metric("troupe_generation_tokens_total");
    #[cfg(target_os = "linux")]
    let memory = resident_bytes(&server);
    let body = streamed(request).to_string();
    let slow = Client::send_on(narrow(client), "POST", "/v1/chat/completions", body.as_bytes());

    let generated = || server.metric("troupe_generation_tokens_total");
    server.until("a sequence that has begun", |_| generated() > before_slow);

    // Others are served meanwhile. Once all tokens that are generated are theirs, the slow sequence stands still.
    let stands_still = (0..OTHERS).any(|_| {
        let before = generated();
        assert_eq!(client.chat(&chat(CAPITAL, 32)), quick);
        generated() - before == quick_tokens
    });
    assert!(stands_still, "the sequence went on without its reader");
    assert_eq!(server.status().running, 1, "{TOKENS} tokens are the whole answer");
    #[cfg(target_os = "linux")]
    {
        let grown = resident_bytes(&server).saturating_sub(memory);
        assert!(grown < 16 << 20, "{grown} bytes for a client that reads nothing");
    }

    assert_eq!(slow.answer(), expected);
    server.until_idle();
}
