//! One request and its stream, measured.

use std::fmt;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::chunk::{Chunk, TokenCounts};
use super::client::{Client, refusal};
use super::sse::SseParser;

/// Which of the two APIs is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Endpoint {
    /// `/v1/chat/completions`, with the prompt as the user's message.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// What all requests of a run have in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestShape {
    pub(super) endpoint: Endpoint,
    pub(super) model: String,
    pub(super) output_tokens: u32,
    pub(super) temperature: f32,
    pub(super) ignore_eos: bool,
    pub(super) response_format: Option<Value>,
}

/// A request that was answered to its end. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// From the start of the run to the request.
    pub start: f64,
    /// From the request to the first text.
    pub ttft: f64,
    /// Between one piece of text and the next.
    pub itl: Vec<f64>,
    /// From the request to the end of the stream.
    pub e2e: f64,
    /// As the server counted them, or pieces of text if it did not.
    pub tokens: TokenCounts,
    /// Whether the server counted.
    pub usage_reported: bool,
    /// Why the server stopped.
    pub finish_reason: Option<String>,
}

/// A request that was not answered to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// In the server's or the system's words; may be empty.
    pub detail: String,
}

/// What can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// No connection, or none that lasted to the head of the answer.
    Connection,
    /// A status that is not 200.
    Status(u16),
    /// An error event in the stream, or an event that is not one of the API.
    Event,
    /// The stream ended, or broke, before its `[DONE]`.
    Truncated,
    /// The stream held no text.
    Empty,
    /// It took longer than the bound.
    TimedOut,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection => f.write_str("connection failed"),
            Self::Status(code) => write!(f, "status {code}"),
            Self::Event => f.write_str("error in the stream"),
            Self::Truncated => f.write_str("stream ended early"),
            Self::Empty => f.write_str("no text"),
            Self::TimedOut => f.write_str("timed out"),
        }
    }
}

impl Serialize for FailureKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FailureKind {
    fn because(self, detail: impl fmt::Display) -> Failure {
        Failure { kind: self, detail: detail.to_string() }
    }
}

impl RequestShape {
    fn path(&self) -> &'static str {
        match self.endpoint {
            Endpoint::Chat => "/v1/chat/completions",
            Endpoint::Completions => "/v1/completions",
        }
    }

    fn body(&self, prompt: &str) -> Value {
        let mut body = json!({
            "model": self.model,
            "max_tokens": self.output_tokens,
            "temperature": self.temperature,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        match self.endpoint {
            Endpoint::Chat => body["messages"] = json!([{ "role": "user", "content": prompt }]),
            Endpoint::Completions => body["prompt"] = json!(prompt),
        }
        // An extension of vLLM's and others': sent only if asked for, since strict servers refuse it.
        if self.ignore_eos {
            body["ignore_eos"] = json!(true);
        }
        if let Some(format) = &self.response_format {
            body["response_format"] = format.clone();
        }
        body
    }
}

/// Sends one request and reads its stream to the end. `run` is when the run began.
pub(super) async fn measure(
    client: &Client,
    shape: &RequestShape,
    prompt: &str,
    run: Instant,
) -> Result<Sample, Failure> {
    match tokio::time::timeout(client.timeout(), exchange(client, shape, prompt, run)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(FailureKind::TimedOut.because(format!("after {:?}", client.timeout()))),
    }
}

async fn exchange(
    client: &Client,
    shape: &RequestShape,
    prompt: &str,
    run: Instant,
) -> Result<Sample, Failure> {
    let body = shape.body(prompt);
    let begun = Instant::now();
    let response = client
        .send(Method::POST, shape.path(), Some(&body))
        .await
        .map_err(|error| FailureKind::Connection.because(format!("{error:#}")))?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(FailureKind::Status(status).because(refusal(response).await));
    }
    let stream = read_stream(response.into_body(), begun).await?;
    stream.sample(begun.duration_since(run).as_secs_f64())
}

/// What was seen of a stream. Times are offsets from the request.
#[derive(Debug, Default)]
struct Stream {
    texts: Vec<Duration>,
    end: Duration,
    usage: Option<TokenCounts>,
    finish_reason: Option<String>,
}

async fn read_stream(mut body: Incoming, begun: Instant) -> Result<Stream, Failure> {
    let mut parser = SseParser::default();
    let mut stream = Stream::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| FailureKind::Truncated.because(error))?;
        let Some(bytes) = frame.data_ref() else { continue };
        let at = begun.elapsed();
        for data in parser.push(bytes).map_err(|error| FailureKind::Event.because(error))? {
            if data == "[DONE]" {
                stream.end = at;
                return Ok(stream);
            }
            stream.take(Chunk::parse(&data).map_err(|message| FailureKind::Event.because(message))?, at);
        }
    }
    Err(FailureKind::Truncated.because("no [DONE]"))
}

impl Stream {
    fn take(&mut self, chunk: Chunk, at: Duration) {
        if chunk.text_chars > 0 {
            self.texts.push(at);
        }
        self.usage = chunk.usage.or(self.usage);
        self.finish_reason = chunk.finish_reason.or(self.finish_reason.take());
    }

    fn sample(self, start: f64) -> Result<Sample, Failure> {
        let Some(first) = self.texts.first() else {
            return Err(FailureKind::Empty.because(self.finish_reason.unwrap_or_default()));
        };
        let pieces = TokenCounts { output: self.texts.len() as u64, ..TokenCounts::default() };
        Ok(Sample {
            start,
            ttft: first.as_secs_f64(),
            itl: self.texts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect(),
            e2e: self.end.as_secs_f64(),
            tokens: self.usage.unwrap_or(pieces),
            usage_reported: self.usage.is_some(),
            finish_reason: self.finish_reason,
        })
    }
}
