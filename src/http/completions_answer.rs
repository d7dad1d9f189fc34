//! The shape of a text completion.

use serde_json::{Map, Value, json};
use troupe_actors::session::{Alternative, FinishReason, Piece, ScoredToken, reason_name};
use troupe_protocol::Usage;

use super::answer::{Choice, Envelope, Shape};

const OBJECT: &str = "text_completion";

/// Makes text completions.
#[derive(Debug)]
pub(super) struct TextAnswer {
    /// What all chunks share.
    pub(super) envelope: Envelope,
    /// Whether tokens are reported.
    pub(super) logprobs: bool,
    /// For each prompt, the text that its choices begin with; empty unless `echo` was asked for.
    pub(super) echo: Vec<String>,
    /// Choices for each prompt.
    pub(super) choices_per_prompt: u32,
}

impl TextAnswer {
    fn echo(&self, choice: u32) -> &str {
        self.echo.get((choice / self.choices_per_prompt) as usize).map_or("", String::as_str)
    }

    fn choice(&self, index: u32, text: &str, logprobs: Value, reason: Option<FinishReason>) -> Value {
        json!({
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": reason.map(reason_name),
        })
    }

    fn logprobs(&self, choice: u32, tokens: &[ScoredToken]) -> Value {
        if !self.logprobs {
            return Value::Null;
        }
        let echoed = self.echo(choice).chars().count();
        json!({
            "tokens": tokens.iter().map(|token| spelling(&token.chosen)).collect::<Vec<_>>(),
            "token_logprobs": tokens.iter().map(|token| token.chosen.logprob).collect::<Vec<_>>(),
            "top_logprobs": tokens.iter().map(|token| ranked(&token.top)).collect::<Vec<_>>(),
            "text_offset": tokens.iter().map(|token| echoed + token.offset).collect::<Vec<_>>(),
        })
    }
}

impl Shape for TextAnswer {
    fn opening(&mut self, choice: u32) -> Option<Value> {
        match self.echo(choice) {
            "" => None,
            text => Some(self.envelope.chunk(OBJECT, self.choice(choice, text, Value::Null, None))),
        }
    }

    fn chunk(&mut self, choice: u32, piece: Piece) -> Value {
        let logprobs = self.logprobs(choice, &piece.tokens);
        self.envelope.chunk(OBJECT, self.choice(choice, &piece.text, logprobs, None))
    }

    fn closing(&mut self, choice: u32, reason: FinishReason) -> Value {
        self.envelope.chunk(OBJECT, self.choice(choice, "", Value::Null, Some(reason)))
    }

    fn usage_chunk(&mut self, usage: Usage) -> Value {
        self.envelope.with_usage(OBJECT, Vec::new(), usage)
    }

    fn document(&mut self, choices: Vec<Choice>, usage: Usage) -> Value {
        let choices = (0..).zip(choices).map(|(index, Choice { message, reason })| {
            let piece = message.piece;
            let text = format!("{}{}", self.echo(index), piece.text);
            self.choice(index, &text, self.logprobs(index, &piece.tokens), Some(reason))
        });
        self.envelope.with_usage(OBJECT, choices.collect(), usage)
    }
}

fn ranked(top: &[Alternative]) -> Value {
    Value::Object(top.iter().map(|token| (spelling(token), json!(token.logprob))).collect::<Map<_, _>>())
}

/// A token as a key: as OpenAI does, part of a character is spelled byte by byte, so that keys differ.
fn spelling(token: &Alternative) -> String {
    match std::str::from_utf8(&token.bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => token.bytes.iter().fold("bytes:".to_owned(), |text, byte| format!("{text}\\x{byte:02x}")),
    }
}
