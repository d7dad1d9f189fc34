//! The shape of a message: content blocks one after the other, then why it ended.

use bytes::Bytes;
use serde_json::{Value, json};
use troupe_actors::session::FinishReason;
use troupe_protocol::Usage;

use super::error;
use super::request::NAMES;
use crate::http::narrate::{Delta, Ending, Event, Narrator};

/// Makes a message.
#[derive(Debug)]
pub(super) struct MessageAnswer {
    id: String,
    model: String,
    /// The request's stop strings.
    stops: Vec<String>,
    thinking: Thinking,
    usage: Usage,
    /// Blocks that are whole.
    content: Vec<Value>,
    open: Option<Block>,
    /// Blocks of calls that were cut off, or whose syntax was wrong.
    broken: Vec<usize>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<String>,
}

/// What becomes of the text of thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// It is told.
    Told,
    /// Its blocks are empty.
    Omitted,
}

/// A block that is not whole yet.
#[derive(Debug)]
enum Block {
    Text(String),
    Thinking(String),
    ToolUse { id: String, name: String, input: String },
}

impl Block {
    /// The block with nothing in it.
    fn start(&self) -> Value {
        match self {
            Self::Text(_) => json!({"type": "text", "text": ""}),
            Self::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::ToolUse { id, name, .. } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        }
    }

    /// The block with all that was told.
    fn whole(self) -> Value {
        let mut block = self.start();
        match self {
            Self::Text(text) => block["text"] = text.into(),
            Self::Thinking(text) => block["thinking"] = text.into(),
            Self::ToolUse { input, .. } => {
                let read = serde_json::from_str(&input).or_else(|_| serde_json::from_str(&bounded(&input)));
                block["input"] = read.unwrap_or_else(|_| json!({}));
            }
        }
        block
    }
}

/// JSON whose numbers a double can hold: a larger one becomes the largest, as a client that reads the stream may do with it.
fn bounded(json: &str) -> String {
    let (mut bounded, mut number) = (String::with_capacity(json.len()), String::new());
    let (mut in_text, mut is_escaped) = (false, false);
    for character in json.chars().chain(['\0']) {
        if !in_text && matches!(character, '0'..='9' | '+' | '-' | '.' | 'e' | 'E') {
            number.push(character);
            continue;
        }
        let largest = number.parse().is_ok_and(f64::is_infinite).then(|| match number.starts_with('-') {
            true => format!("{:e}", f64::MIN),
            false => format!("{:e}", f64::MAX),
        });
        bounded.push_str(&largest.unwrap_or_else(|| std::mem::take(&mut number)));
        number.clear();
        in_text ^= character == '"' && !is_escaped;
        is_escaped = in_text && character == '\\' && !is_escaped;
        bounded.push(character);
    }
    bounded.pop();
    bounded
}

impl MessageAnswer {
    /// A message of which nothing was told. `stops` are the request's stop strings.
    pub(super) fn new(
        id: String,
        model: String,
        stops: Vec<String>,
        thinking: Thinking,
        prompt_tokens: u32,
    ) -> Self {
        Self {
            id,
            model,
            stops,
            thinking,
            usage: Usage { prompt_tokens, ..Usage::default() },
            content: Vec::new(),
            open: None,
            broken: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
        }
    }

    fn message(&self) -> Value {
        let content = self.content.iter().enumerate().filter(|(at, _)| !self.broken.contains(at));
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content.map(|(_, block)| block).collect::<Vec<_>>(),
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage(),
        })
    }

    /// Input tokens are those that were not read from the cache.
    fn usage(&self) -> Value {
        let Usage { prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens } = self.usage;
        json!({
            "input_tokens": prompt_tokens.saturating_sub(cached_tokens),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached_tokens,
            "output_tokens": completion_tokens,
            "output_tokens_details": {"thinking_tokens": reasoning_tokens},
            "service_tier": "standard",
        })
    }

    fn start(&mut self, block: Block, events: &mut Vec<Event>) {
        self.stop_block(events);
        let data = json!({"index": self.content.len(), "content_block": block.start()});
        events.push(event("content_block_start", data));
        self.open = Some(block);
    }

    fn delta(&self, delta: Value) -> Event {
        event("content_block_delta", json!({"index": self.content.len(), "delta": delta}))
    }

    fn stop_block(&mut self, events: &mut Vec<Event>) {
        if let Some(block) = self.open.take() {
            events.push(event("content_block_stop", json!({"index": self.content.len()})));
            self.content.push(block.whole());
        }
    }
}

impl Narrator for MessageAnswer {
    async fn open(&mut self) -> Vec<Event> {
        vec![event("message_start", json!({"message": self.message()}))]
    }

    fn tell(&mut self, delta: Delta) -> Vec<Event> {
        let mut events = Vec::new();
        match delta {
            Delta::Text(piece) if piece.text.is_empty() => {}
            Delta::Text(piece) => {
                if !matches!(self.open, Some(Block::Text(_))) {
                    self.start(Block::Text(String::new()), &mut events);
                }
                if let Some(Block::Text(text)) = &mut self.open {
                    *text += &piece.text;
                }
                events.push(self.delta(json!({"type": "text_delta", "text": piece.text})));
            }
            Delta::Reasoning(piece) => {
                if !matches!(self.open, Some(Block::Thinking(_))) {
                    self.start(Block::Thinking(String::new()), &mut events);
                }
                if self.thinking == Thinking::Omitted {
                    return events;
                }
                if let Some(Block::Thinking(text)) = &mut self.open {
                    *text += &piece.text;
                }
                events.push(self.delta(json!({"type": "thinking_delta", "thinking": piece.text})));
            }
            Delta::CallStarted { id, name } => {
                self.start(Block::ToolUse { id, name, input: String::new() }, &mut events);
            }
            Delta::CallArguments(fragment) => {
                if let Some(Block::ToolUse { input, .. }) = &mut self.open {
                    *input += &fragment;
                }
                events.push(self.delta(json!({"type": "input_json_delta", "partial_json": fragment})));
            }
            Delta::CallFinished => self.stop_block(&mut events),
            // What was streamed of it is no JSON, and the reason of the end is not that tools are used. A whole message does
            // not have it: nobody is to act on it.
            Delta::CallBroken => {
                self.stop_block(&mut events);
                self.broken.extend(self.content.len().checked_sub(1));
            }
        }
        events
    }

    async fn close(&mut self, ending: Ending) -> Vec<Event> {
        let (reason, usage, matched_stop) = match ending {
            Ending::Finished { reason, usage, matched_stop } => (reason, usage, matched_stop),
            Ending::Failed(fault) => {
                return vec![Event { name: "error", data: error::to_json(&fault.renamed(NAMES)) }];
            }
            // Nobody can ask for that.
            Ending::Interrupted => return Vec::new(),
        };
        let mut events = Vec::new();
        self.stop_block(&mut events);
        self.usage = usage;
        self.stop_sequence = matched_stop.and_then(|index| self.stops.get(index).cloned());
        self.stop_reason = Some(match reason {
            FinishReason::Length => "max_tokens",
            FinishReason::Stop if self.stop_sequence.is_some() => "stop_sequence",
            FinishReason::ToolCalls => "tool_use",
            FinishReason::Stop => "end_turn",
        });
        let delta = json!({"stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence});
        events.push(event("message_delta", json!({"delta": delta, "usage": self.usage()})));
        events.push(event("message_stop", json!({})));
        events
    }

    fn document(&mut self) -> Value {
        self.message()
    }

    fn ping(&self) -> Bytes {
        event("ping", json!({})).to_bytes()
    }
}

/// An event whose data begin with its name.
fn event(name: &'static str, data: Value) -> Event {
    let mut whole = json!({"type": name});
    if let (Value::Object(whole), Value::Object(data)) = (&mut whole, data) {
        whole.extend(data);
    }
    Event { name, data: whole }
}
