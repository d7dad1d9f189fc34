//! The shape of a text completion.

use serde::Serialize;
use serde_json::{Map, Value, json};
use troupe_actors::session::{Alternative, FinishReason, Piece, PromptToken, ScoredToken, reason_name};
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
    /// For each prompt, what its choices begin with; empty unless `echo` was asked for.
    pub(super) echo: Vec<Echo>,
    /// Choices for each prompt.
    pub(super) choices_per_prompt: u32,
    /// In a stream, how far each choice's prompt was told; by choices.
    pub(super) places: Vec<Place>,
}

/// What a choice begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct Echo {
    /// The prompt's text.
    pub(super) text: String,
    /// Tokens before those of the text.
    pub(super) frame: usize,
}

/// A place in a prompt's tokens and text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    token: usize,
    character: usize,
}

/// What is known of tokens, in their order.
#[derive(Debug, Default, Serialize)]
struct Logprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Map<String, Value>>>,
    text_offset: Vec<usize>,
}

impl TextAnswer {
    fn echo(&self, choice: u32) -> Option<&Echo> {
        self.echo.get((choice / self.choices_per_prompt) as usize)
    }

    fn echoed(&self, choice: u32) -> &str {
        self.echo(choice).map_or("", |echo| &echo.text)
    }

    fn choice(
        &self,
        index: u32,
        text: &str,
        logprobs: Option<Logprobs>,
        reason: Option<FinishReason>,
    ) -> Value {
        json!({
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": reason.map(reason_name),
        })
    }

    fn logprobs(&self, choice: u32, tokens: &[ScoredToken]) -> Option<Logprobs> {
        self.logprobs.then(|| {
            let mut logprobs = Logprobs::default();
            logprobs.add(tokens, self.echoed(choice).chars().count());
            logprobs
        })
    }
}

impl Place {
    /// Goes on by a token; answers where that begins in the text.
    fn pass(&mut self, token: &PromptToken, frame: usize) -> usize {
        let goes_on = |byte: &u8| byte & 0xc0 == 0x80;
        let is_within = token.bytes.first().is_some_and(goes_on);
        let begins_at = self.character.saturating_sub(usize::from(is_within));
        let characters = token.bytes.iter().filter(|byte| !goes_on(byte)).count();
        self.character += if self.token < frame { 0 } else { characters };
        self.token += 1;
        begins_at
    }
}

impl Logprobs {
    /// Tokens of a text that begins after `echoed` characters.
    fn add(&mut self, tokens: &[ScoredToken], echoed: usize) {
        for token in tokens {
            self.push(&token.chosen.bytes, Some(token.chosen.logprob), &token.top, echoed + token.offset);
        }
    }

    /// Tokens of a prompt, from a place on in it that has `frame` tokens before its text.
    fn add_prompt(&mut self, tokens: &[PromptToken], place: &mut Place, frame: usize) {
        for token in tokens {
            let offset = place.pass(token, frame);
            self.push(&token.bytes, token.logprob, &token.top, offset);
        }
    }

    fn push(&mut self, bytes: &[u8], logprob: Option<f32>, top: &[Alternative], offset: usize) {
        self.tokens.push(spelling(bytes));
        self.token_logprobs.push(logprob);
        // Where nothing comes before, nothing is more likely than anything else.
        self.top_logprobs.push(logprob.map(|_| ranked(top)));
        self.text_offset.push(offset);
    }
}

impl Shape for TextAnswer {
    fn opening(&mut self, choice: u32) -> Option<Value> {
        match self.echoed(choice) {
            "" => None,
            text => Some(self.envelope.chunk(OBJECT, self.choice(choice, text, None, None))),
        }
    }

    fn prompt_chunk(&mut self, choice: u32, tokens: Vec<PromptToken>) -> Option<Value> {
        let frame = self.echo(choice)?.frame;
        self.places.resize(self.places.len().max(choice as usize + 1), Place::default());
        let mut logprobs = Logprobs::default();
        logprobs.add_prompt(&tokens, &mut self.places[choice as usize], frame);
        Some(self.envelope.chunk(OBJECT, self.choice(choice, "", Some(logprobs), None)))
    }

    fn chunk(&mut self, choice: u32, piece: Piece) -> Value {
        let logprobs = self.logprobs(choice, &piece.tokens);
        self.envelope.chunk(OBJECT, self.choice(choice, &piece.text, logprobs, None))
    }

    fn closing(&mut self, choice: u32, reason: FinishReason) -> Value {
        self.envelope.chunk(OBJECT, self.choice(choice, "", None, Some(reason)))
    }

    fn usage_chunk(&mut self, usage: Usage) -> Value {
        self.envelope.with_usage(OBJECT, Vec::new(), usage)
    }

    fn document(&mut self, choices: Vec<Choice>, usage: Usage) -> Value {
        let choices = (0..).zip(choices).map(|(index, Choice { message, reason })| {
            let echo = self.echo(index).cloned().unwrap_or_default();
            let logprobs = self.logprobs.then(|| {
                let mut logprobs = Logprobs::default();
                logprobs.add_prompt(&message.prompt, &mut Place::default(), echo.frame);
                logprobs.add(&message.piece.tokens, echo.text.chars().count());
                logprobs
            });
            self.choice(index, &format!("{}{}", echo.text, message.piece.text), logprobs, Some(reason))
        });
        self.envelope.with_usage(OBJECT, choices.collect(), usage)
    }
}

fn ranked(top: &[Alternative]) -> Map<String, Value> {
    top.iter().map(|token| (spelling(&token.bytes), json!(token.logprob))).collect()
}

/// A token as a key: as OpenAI does, part of a character is spelled byte by byte, so that keys differ.
fn spelling(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |text, byte| format!("{text}\\x{byte:02x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text_and_not_of_what_stands_before_it() {
        let tokens = ["<s>", "h\u{e9}", "y"].map(|text| text.as_bytes().to_vec());
        let halves = [b"\xe2\x82".to_vec(), b"\xac!".to_vec(), b"x".to_vec()];
        let token = |bytes| PromptToken { bytes, logprob: Some(-1.0), top: Vec::new() };
        let tokens: Vec<_> = tokens.into_iter().chain(halves).map(token).collect();
        for (frame, offsets) in [(1, [0, 0, 2, 3, 3, 5]), (0, [0, 3, 5, 6, 6, 8])] {
            let mut logprobs = Logprobs::default();
            logprobs.add_prompt(&tokens, &mut Place::default(), frame);
            assert_eq!(logprobs.text_offset, offsets, "{frame} before the text");
        }
    }
}
