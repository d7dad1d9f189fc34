//! A stream of server-sent events, made from outputs as they come.
//!
//! However it ends, the last event is `[DONE]`. The client's going away drops the stream, and with it the sessions.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep};
use troupe_actors::session::{Output, Part};

use super::answer::{Running, Shape, finished};
use super::error::ApiError;

/// A comment is sent when nothing else was for this long, so that proxies and clients keep the connection.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// The body of a streamed answer.
pub(super) struct EventStream<S> {
    running: Running,
    shape: S,
    include_usage: bool,
    /// Events that are ready, in order. Bounded: one output makes two at most, and the end a few.
    ready: VecDeque<Bytes>,
    /// Choices whose first chunk was sent.
    opened: Vec<bool>,
    /// Choices that have not ended.
    open: u32,
    heartbeat: Pin<Box<Sleep>>,
}

impl<S: Shape> EventStream<S> {
    /// A stream that starts with `first`, if that has come already.
    pub(super) fn new(running: Running, first: Option<Output>, shape: S, include_usage: bool) -> Self {
        let mut stream = Self {
            opened: vec![false; running.choices as usize],
            open: running.choices,
            running,
            shape,
            include_usage,
            ready: VecDeque::new(),
            heartbeat: Box::pin(sleep(HEARTBEAT)),
        };
        match first {
            Some(output) => stream.accept(output),
            // The headers go out before the first token; the role goes with them.
            None => stream.open_choice(0),
        }
        stream
    }

    fn accept(&mut self, Output { choice, part }: Output) {
        match part {
            // The headers are out.
            Part::Accepted(_) => {}
            Part::Prompt(tokens) => {
                self.open_choice(choice);
                let chunk = self.shape.prompt_chunk(choice, tokens);
                self.ready.extend(chunk.map(|chunk| event(&chunk)));
            }
            Part::Text(piece) => {
                self.open_choice(choice);
                let chunk = self.shape.chunk(choice, piece);
                self.ready.push_back(event(&chunk));
            }
            Part::Reasoning(piece) => {
                self.open_choice(choice);
                let chunk = self.shape.reasoning_chunk(choice, piece);
                self.ready.extend(chunk.map(|chunk| event(&chunk)));
            }
            Part::Call(part) => {
                self.open_choice(choice);
                let chunk = self.shape.call_chunk(choice, part);
                self.ready.extend(chunk.map(|chunk| event(&chunk)));
            }
            Part::End(end) => match finished(end) {
                Ok((reason, usage)) => {
                    self.open_choice(choice);
                    self.running.bill.add(choice, usage);
                    let chunk = self.shape.closing(choice, reason);
                    self.ready.push_back(event(&chunk));
                    self.open -= 1;
                    if self.open == 0 {
                        self.finish();
                    }
                }
                Err(error) => self.fail(&error),
            },
        }
    }

    fn open_choice(&mut self, choice: u32) {
        if !std::mem::replace(&mut self.opened[choice as usize], true)
            && let Some(chunk) = self.shape.opening(choice)
        {
            self.ready.push_back(event(&chunk));
        }
    }

    fn finish(&mut self) {
        if self.include_usage {
            let chunk = self.shape.usage_chunk(self.running.bill.total());
            self.ready.push_back(event(&chunk));
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    /// Ends the whole stream: what a client cannot get whole, it is told so.
    fn fail(&mut self, error: &ApiError) {
        self.open = 0;
        self.running.outputs.close();
        self.ready.push_back(event(&error.to_json()));
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    fn send(&mut self, event: Bytes) -> Poll<Option<Result<Bytes, Infallible>>> {
        self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
        Poll::Ready(Some(Ok(event)))
    }
}

impl<S: Shape + Unpin> Stream for EventStream<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = &mut *self;
        loop {
            if let Some(event) = stream.ready.pop_front() {
                return stream.send(event);
            }
            if stream.open == 0 {
                return Poll::Ready(None);
            }
            match stream.running.outputs.poll_recv(cx) {
                Poll::Ready(Some(output)) => stream.accept(output),
                Poll::Ready(None) => stream.fail(&ApiError::internal("a session ended without a word")),
                Poll::Pending => {
                    ready!(stream.heartbeat.as_mut().poll(cx));
                    return stream.send(Bytes::from_static(b": ping\n\n"));
                }
            }
        }
    }
}

fn event(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
