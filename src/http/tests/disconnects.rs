//! C113: a client that goes away is noticed at once, whatever its request waits for.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use troupe_actors::testing::{Seen, says, token};
use troupe_protocol::{RateStatuses, SequenceEvent};

use super::client::{Script, TestServer, post};

/// Prefills for ever.
const SILENT: Script = |_| vec![SequenceEvent::Accepted(RateStatuses::default())];
/// Does not say whether it takes what it is asked.
const UNDECIDED: Script = |_| Vec::new();
/// Says a little, then nothing more.
const STALLS: Script = |_| vec![token(b'x'.into()); 5];
/// Has more to say than sockets and buffers hold.
const ENDLESS: Script = |_| vec![token(b'x'.into()); 200_000];

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// Its process ends.
    Closes,
    /// It says that it will send no more.
    ShutsDown,
    /// Its machine resets the connection.
    Resets,
}

async fn leave(mut stream: TcpStream, leaving: Leaving) -> Option<TcpStream> {
    match leaving {
        Leaving::Closes => None,
        Leaving::ShutsDown => {
            stream.shutdown().await.unwrap();
            Some(stream)
        }
        Leaving::Resets => {
            stream.set_zero_linger().unwrap();
            None
        }
    }
}

fn request(extra: &Value) -> Vec<u8> {
    let mut body = json!({"prompt": "hello"});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    post("/v1/completions", body.to_string().as_bytes())
}

#[actix_web::test]
async fn c113_c268_a_client_that_leaves_is_noticed_while_nothing_is_written() {
    for leaving in [Leaving::Closes, Leaving::ShutsDown, Leaving::Resets] {
        for (name, script, extra, reads) in [
            ("whole answer, long prefill", SILENT, json!({}), false),
            ("whole answer, decoding", STALLS, json!({}), false),
            ("stream, not yet taken", UNDECIDED, json!({"stream": true}), false),
            ("stream, long prefill", SILENT, json!({"stream": true}), true),
            ("stream, between frames", STALLS, json!({"stream": true}), true),
            ("several choices", SILENT, json!({"n": 3}), false),
        ] {
            let mut server = TestServer::start(script);
            let mut stream = server.send(&request(&extra)).await;
            server.admitted().await;
            if reads {
                assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            }
            println!("{name}, {leaving:?}");
            let _half = leave(stream, leaving).await;
            server.cancelled().await;
            server.idle().await;
            server.stop().await;
        }
    }
}

/// A client that does not read stops its sequence, once the sockets' buffers are full; reading starts it again.
#[actix_web::test]
async fn a_slow_client_makes_its_sequence_wait() {
    const STALL: Duration = Duration::from_millis(300);
    let mut server = TestServer::start(|sequence| says(sequence, &"x".repeat(100_000)));
    let mut stream = server.send(&request(&json!({"stream": true}))).await;
    server.admitted().await;
    let mut granted = 0;
    while let Ok(Some(seen)) = timeout(STALL, server.seen.recv()).await {
        if let Seen::Granted(_, tokens) = seen {
            granted += tokens;
        }
    }
    assert!(granted < 90_000, "{granted} tokens were granted to a client that reads nothing");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes.windows(10).filter(|window| window == b"\"text\":\"x\"").count(), 100_000);
}

#[actix_web::test]
async fn c113_a_slow_client_that_leaves_is_noticed() {
    let mut server = TestServer::start(ENDLESS);
    let stream = server.send(&request(&json!({"stream": true}))).await;
    server.admitted().await;
    drop(stream);
    server.cancelled().await;
    server.stop().await;
}
