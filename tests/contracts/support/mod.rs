//! A server to ask, a client to ask with, and the shapes of what comes back.

mod answer;
mod client;
mod named_events;
mod server;
mod templates;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

pub use answer::{Answer, Call, Choice, Event, Events};
pub use client::{Client, Response};
pub use server::{Server, Status, address};
pub use templates::{FORMATS, ToolServer};

/// The longest that anything is waited for. A limit for a machine that is busy with other tests, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A question with a short answer that the default model knows.
pub const CAPITAL: &str = "What is the capital of France?";

/// The default model.
pub fn model() -> PathBuf {
    let path = root().join("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.is_file(), "{} is not there: `make models` fetches it", path.display());
    path
}

/// The root of the work tree.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The program, without options from the environment of whoever runs the tests.
pub fn troupe(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_troupe"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TROUPE_")) {
        command.env_remove(name);
    }
    // No options from a file either.
    command.current_dir(env!("CARGO_TARGET_TMPDIR")).args(words);
    command
}

/// A chat request of one message for at most `max_tokens`, always with the same answer.
pub fn chat(question: &str, max_tokens: u32) -> Value {
    json!({
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "temperature": 0,
    })
}

/// `request` with the fields of `more`.
pub fn with(mut request: Value, more: Value) -> Value {
    let (Value::Object(fields), Value::Object(more)) = (&mut request, more) else { panic!("two objects") };
    fields.extend(more);
    request
}

/// `request`, to be streamed and to tell its usage.
pub fn streamed(request: Value) -> Value {
    with(request, json!({"stream": true, "stream_options": {"include_usage": true}}))
}
