//! The shape of a response: items one after the other, each told in events that are numbered without a gap.

use std::time::{SystemTime, UNIX_EPOCH};

use actix_web::ResponseError as _;
use actix_web::http::StatusCode;
use serde_json::{Map, Value, json};
use troupe_actors::session::{FinishReason, Piece};
use troupe_protocol::Usage;

use super::keeper::Keeper;
use super::request::NAMES;
use crate::http::admission::ServiceTier;
use crate::http::chat_answer::scored_token;
use crate::http::error::ApiError;
use crate::http::generate::random_id;
use crate::http::narrate::{Delta, Ending, Event, Narrator};
use crate::http::params::Generation;

/// Makes a response.
pub(super) struct ResponseAnswer {
    /// The response as it is now.
    document: Value,
    /// Items that are whole.
    output: Vec<Value>,
    open: Option<Item>,
    /// Whether log-probabilities were asked for.
    logprobs: bool,
    next_number: u64,
    /// Events that were not given out.
    events: Vec<Event>,
    /// Absent if it is not to be kept.
    keeper: Option<Keeper>,
}

/// An item that is not whole yet.
#[derive(Debug)]
enum Item {
    Message { id: String, text: String, logprobs: Vec<Value> },
    Reasoning { id: String, text: String },
    Call { id: String, call_id: String, name: String, arguments: String },
}

impl Item {
    fn id(&self) -> &str {
        match self {
            Self::Message { id, .. } | Self::Reasoning { id, .. } | Self::Call { id, .. } => id,
        }
    }

    /// The part that its text is in, if it has parts.
    fn part(&self) -> Option<Value> {
        match self {
            Self::Message { text, logprobs, .. } => {
                Some(json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}))
            }
            Self::Reasoning { text, .. } => Some(json!({"type": "reasoning_text", "text": text})),
            Self::Call { .. } => None,
        }
    }

    /// The item with these parts.
    fn to_json(&self, status: &str, parts: Vec<Value>) -> Value {
        match self {
            Self::Message { id, .. } => {
                json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": parts})
            }
            Self::Reasoning { id, .. } => {
                json!({"id": id, "type": "reasoning", "status": status, "summary": [], "content": parts})
            }
            Self::Call { id, call_id, name, arguments } => json!({
                "id": id,
                "type": "function_call",
                "status": status,
                "call_id": call_id,
                "name": name,
                "arguments": arguments,
            }),
        }
    }
}

impl ResponseAnswer {
    /// A response of which nothing was told. `repeated` is what it repeats of its request.
    pub(super) fn new(
        id: &str,
        model: &str,
        generation: &Generation,
        repeated: Map<String, Value>,
        keeper: Option<Keeper>,
    ) -> Self {
        let mut document = json!({
            "id": id,
            "object": "response",
            "created_at": now(),
            "status": "in_progress",
            "background": false,
            "error": null,
            "incomplete_details": null,
            "model": model,
            "output": [],
            "service_tier": generation.service_tier.map_or("default", ServiceTier::as_str),
            "usage": null,
        });
        if let Value::Object(fields) = &mut document {
            fields.extend(repeated);
        }
        // What the request left open was chosen by the model's makers.
        let sampling = &generation.sampling;
        for (name, value) in [("temperature", sampling.temperature), ("top_p", sampling.top_p)] {
            if document[name].is_null() {
                document[name] = decimal(value);
            }
        }
        Self {
            document,
            output: Vec::new(),
            open: None,
            logprobs: sampling.logprobs.is_some(),
            next_number: 0,
            events: Vec::new(),
            keeper,
        }
    }

    fn event(&mut self, name: &'static str, data: Value) {
        let mut whole = json!({"type": name, "sequence_number": self.next_number});
        self.next_number += 1;
        if let (Value::Object(whole), Value::Object(data)) = (&mut whole, data) {
            whole.extend(data);
        }
        self.events.push(Event { name, data: whole });
    }

    /// An event about the item that is open.
    fn item_event(&mut self, name: &'static str, data: Value) {
        let id = self.open.as_ref().map(Item::id).map(str::to_owned);
        let mut whole = json!({"item_id": id, "output_index": self.output.len()});
        if let (Value::Object(whole), Value::Object(data)) = (&mut whole, data) {
            whole.extend(data);
        }
        self.event(name, whole);
    }

    fn start(&mut self, item: Item) {
        self.end_item("completed");
        let added = json!({
            "output_index": self.output.len(),
            "item": item.to_json("in_progress", Vec::new()),
        });
        let part = item.part();
        self.open = Some(item);
        self.event("response.output_item.added", added);
        if let Some(part) = part {
            self.item_event("response.content_part.added", json!({"content_index": 0, "part": part}));
        }
    }

    fn end_item(&mut self, status: &'static str) {
        let Some(item) = &self.open else { return };
        let part = item.part();
        let (done, data) = match item {
            Item::Message { text, logprobs, .. } => {
                let data = json!({"content_index": 0, "text": text, "logprobs": logprobs});
                ("response.output_text.done", data)
            }
            Item::Reasoning { text, .. } => {
                ("response.reasoning_text.done", json!({"content_index": 0, "text": text}))
            }
            Item::Call { name, arguments, .. } => {
                ("response.function_call_arguments.done", json!({"name": name, "arguments": arguments}))
            }
        };
        let whole = item.to_json(status, part.iter().cloned().collect());
        self.item_event(done, data);
        if let Some(part) = part {
            self.item_event("response.content_part.done", json!({"content_index": 0, "part": part}));
        }
        let index = self.output.len();
        self.event("response.output_item.done", json!({"output_index": index, "item": whole}));
        self.open = None;
        self.output.push(whole);
    }

    fn tell_text(&mut self, piece: Piece) {
        let logprobs: Vec<Value> =
            if self.logprobs { piece.tokens.iter().map(scored_token).collect() } else { Vec::new() };
        if piece.text.is_empty() && logprobs.is_empty() {
            return;
        }
        if !matches!(self.open, Some(Item::Message { .. })) {
            self.start(message());
        }
        if let Some(Item::Message { text, logprobs: all, .. }) = &mut self.open {
            *text += &piece.text;
            all.extend(logprobs.iter().cloned());
        }
        let data = json!({"content_index": 0, "delta": piece.text, "logprobs": logprobs});
        self.item_event("response.output_text.delta", data);
    }

    fn tell_reasoning(&mut self, piece: Piece) {
        if !matches!(self.open, Some(Item::Reasoning { .. })) {
            self.start(Item::Reasoning { id: random_id("rs_"), text: String::new() });
        }
        if let Some(Item::Reasoning { text, .. }) = &mut self.open {
            *text += &piece.text;
        }
        self.item_event("response.reasoning_text.delta", json!({"content_index": 0, "delta": piece.text}));
    }

    /// Ends the item that is open, and says how the response ended; returns the name of the last event.
    fn end(&mut self, ending: Ending) -> &'static str {
        let (status, name, item_status) = match &ending {
            Ending::Finished { reason: FinishReason::Stop | FinishReason::ToolCalls, .. } => {
                ("completed", "response.completed", "completed")
            }
            Ending::Finished { reason: FinishReason::Length, .. } => {
                ("incomplete", "response.incomplete", "incomplete")
            }
            Ending::Failed(_) => ("failed", "response.failed", "incomplete"),
            // There is no event for it alone.
            Ending::Interrupted => ("cancelled", "response.incomplete", "incomplete"),
        };
        match (&self.open, &ending) {
            // A call that its model did not end is none to be made.
            (Some(Item::Call { .. }), _) => self.end_item("incomplete"),
            (None, Ending::Finished { .. }) if self.output.is_empty() => {
                self.start(message());
                self.end_item(item_status);
            }
            _ => self.end_item(item_status),
        }
        self.document["status"] = status.into();
        self.document["output"] = self.output.clone().into();
        match ending {
            Ending::Finished { reason, usage, .. } => {
                if reason == FinishReason::Length {
                    self.document["incomplete_details"] = json!({"reason": "max_output_tokens"});
                }
                self.document["usage"] = usage_json(usage);
            }
            Ending::Failed(error) => self.document["error"] = error_json(error),
            Ending::Interrupted => {}
        }
        name
    }
}

impl Narrator for ResponseAnswer {
    async fn open(&mut self) -> Vec<Event> {
        if let Some(keeper) = &mut self.keeper {
            keeper.begin(self.document.clone()).await;
        }
        for name in ["response.created", "response.in_progress"] {
            let data = json!({"response": self.document});
            self.event(name, data);
        }
        std::mem::take(&mut self.events)
    }

    fn tell(&mut self, delta: Delta) -> Vec<Event> {
        match delta {
            Delta::Text(piece) => self.tell_text(piece),
            Delta::Reasoning(piece) => self.tell_reasoning(piece),
            Delta::CallStarted { id, name } => {
                let arguments = String::new();
                self.start(Item::Call { id: random_id("fc_"), call_id: id, name, arguments });
            }
            Delta::CallArguments(fragment) => {
                if let Some(Item::Call { arguments, .. }) = &mut self.open {
                    *arguments += &fragment;
                    self.item_event("response.function_call_arguments.delta", json!({"delta": fragment}));
                }
            }
            Delta::CallFinished => self.end_item("completed"),
            Delta::CallBroken => self.end_item("incomplete"),
        }
        std::mem::take(&mut self.events)
    }

    async fn close(&mut self, ending: Ending) -> Vec<Event> {
        let mut name = self.end(ending);
        if let Some(keeper) = &mut self.keeper
            && let Err(error) = keeper.keep(self.document.clone()).await
        {
            // A response that cannot be asked for again is not what was ordered.
            name = self.end(Ending::Failed(error));
        }
        let data = json!({"response": self.document});
        self.event(name, data);
        std::mem::take(&mut self.events)
    }

    fn document(&mut self) -> Value {
        self.document.take()
    }

    async fn interrupted(&mut self) {
        match &mut self.keeper {
            Some(keeper) => keeper.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

fn message() -> Item {
    Item::Message { id: random_id("msg_"), text: String::new(), logprobs: Vec::new() }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    })
}

/// The error of a response, which has a code and a message. OpenAI's codes are a closed list, which knows no time limit
/// and no server that shuts down.
fn error_json(error: ApiError) -> Value {
    let status = error.status_code();
    let code = match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded",
        _ if status.is_client_error() => "invalid_prompt",
        _ => "server_error",
    };
    json!({"code": code, "message": error.renamed(NAMES).to_json()["error"]["message"]})
}

/// A number as a person would write it: 0.7, not 0.699999988079071.
fn decimal(value: f32) -> Value {
    json!(value.to_string().parse::<f64>().unwrap_or_else(|_| value.into()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
