//! The shape of a chat completion.

use serde_json::{Value, json};
use troupe_actors::session::{Alternative, Piece, ScoredToken, reason_name};
use troupe_protocol::{FinishReason, Usage};

use super::answer::{Choice, Envelope, Shape};

const CHUNK: &str = "chat.completion.chunk";

/// Makes chat completions.
#[derive(Debug)]
pub(super) struct ChatAnswer {
    /// What all chunks share.
    pub(super) envelope: Envelope,
    /// Whether tokens are reported.
    pub(super) logprobs: bool,
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
}

impl Shape for ChatAnswer {
    fn opening(&mut self, choice: u32) -> Option<Value> {
        Some(self.delta(choice, json!({"role": "assistant", "content": ""}), Value::Null, None))
    }

    fn chunk(&mut self, choice: u32, piece: Piece) -> Value {
        let logprobs = self.logprobs(&piece.tokens);
        self.delta(choice, json!({"content": piece.text}), logprobs, None)
    }

    fn closing(&mut self, choice: u32, reason: FinishReason) -> Value {
        self.delta(choice, json!({}), Value::Null, Some(reason))
    }

    fn usage_chunk(&mut self, usage: Usage) -> Value {
        self.envelope.with_usage(CHUNK, Vec::new(), usage)
    }

    fn document(&mut self, choices: Vec<Choice>, usage: Usage) -> Value {
        let choices = choices.into_iter().enumerate().map(|(index, Choice { piece, reason })| {
            json!({
                "index": index,
                "message": {"role": "assistant", "content": piece.text, "refusal": null},
                "logprobs": self.logprobs(&piece.tokens),
                "finish_reason": reason_name(reason),
            })
        });
        self.envelope.with_usage("chat.completion", choices.collect(), usage)
    }
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
