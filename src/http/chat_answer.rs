//! The shape of a chat completion.

use serde_json::{Map, Value, json};
use troupe_actors::session::{Alternative, CallPart, FinishReason, Piece, ScoredToken, reason_name};
use troupe_protocol::Usage;

use super::answer::{Call, Choice, Envelope, Message, Shape};

const CHUNK: &str = "chat.completion.chunk";

/// Makes chat completions.
#[derive(Debug)]
pub(super) struct ChatAnswer {
    /// What all chunks share.
    pub(super) envelope: Envelope,
    /// Whether tokens of the content are reported. Those of reasoning and calls never are.
    pub(super) logprobs: bool,
    /// Whether reasoning is shown.
    pub(super) reasoning: bool,
}

impl ChatAnswer {
    fn delta(&self, choice: u32, delta: Value, logprobs: Value, reason: Option<FinishReason>) -> Value {
        let choice = json!({
            "index": choice,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": reason.map(reason_name),
        });
        self.envelope.chunk(CHUNK, choice)
    }

    fn logprobs(&self, tokens: &[ScoredToken]) -> Value {
        if !self.logprobs {
            return Value::Null;
        }
        json!({"content": tokens.iter().map(scored_token).collect::<Vec<_>>(), "refusal": null})
    }

    /// Content is null where there are calls alone.
    fn message(&self, message: &Message) -> Value {
        let content = Some(&message.piece.text).filter(|text| !text.is_empty() || message.calls.is_empty());
        let mut fields = Map::new();
        fields.insert("role".to_owned(), json!("assistant"));
        fields.insert("content".to_owned(), json!(content));
        fields.insert("refusal".to_owned(), Value::Null);
        if self.reasoning && !message.reasoning.is_empty() {
            fields.insert("reasoning_content".to_owned(), json!(message.reasoning));
        }
        if !message.calls.is_empty() {
            fields.insert("tool_calls".to_owned(), message.calls.iter().map(call).collect());
        }
        Value::Object(fields)
    }
}

impl Shape for ChatAnswer {
    fn opening(&mut self, choice: u32) -> Option<Value> {
        Some(self.delta(choice, json!({"role": "assistant", "content": ""}), Value::Null, None))
    }

    fn chunk(&mut self, choice: u32, piece: Piece) -> Value {
        let logprobs = self.logprobs(&piece.tokens);
        self.delta(choice, json!({"content": piece.text}), logprobs, None)
    }

    fn reasoning_chunk(&mut self, choice: u32, piece: Piece) -> Option<Value> {
        let delta = json!({"reasoning_content": piece.text});
        self.reasoning.then(|| self.delta(choice, delta, Value::Null, None))
    }

    fn call_chunk(&mut self, choice: u32, part: CallPart) -> Option<Value> {
        let call = match part {
            CallPart::Started { index, id, name } => {
                json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}})
            }
            CallPart::Arguments { index, fragment } => {
                json!({"index": index, "function": {"arguments": fragment}})
            }
            CallPart::Finished { .. } | CallPart::Broken { .. } => return None,
        };
        Some(self.delta(choice, json!({"tool_calls": [call]}), Value::Null, None))
    }

    fn closing(&mut self, choice: u32, reason: FinishReason) -> Value {
        self.delta(choice, json!({}), Value::Null, Some(reason))
    }

    fn usage_chunk(&mut self, usage: Usage) -> Value {
        self.envelope.with_usage(CHUNK, Vec::new(), usage)
    }

    fn document(&mut self, choices: Vec<Choice>, usage: Usage) -> Value {
        let choices = choices.into_iter().enumerate().map(|(index, Choice { message, reason })| {
            json!({
                "index": index,
                "message": self.message(&message),
                "logprobs": self.logprobs(&message.piece.tokens),
                "finish_reason": reason_name(reason),
            })
        });
        self.envelope.with_usage("chat.completion", choices.collect(), usage)
    }
}

fn call(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// A token with its log-probability and alternatives.
pub(crate) fn scored_token(token: &ScoredToken) -> Value {
    let mut entry = alternative(&token.chosen);
    entry["top_logprobs"] = token.top.iter().map(alternative).collect();
    entry
}

fn alternative(token: &Alternative) -> Value {
    json!({"token": token.text(), "logprob": token.logprob, "bytes": token.bytes})
}
