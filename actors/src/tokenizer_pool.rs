//! The tokenizer pool: threads that encode, so that a long prompt never holds up a thread that streams.
//!
//! Started once for a model; every message is answered by one thread of the pool. The queue is bounded by the
//! connections that the HTTP surface admits: each waits for its answer. Tokens of a stream are decoded elsewhere, by
//! its session.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use actix::prelude::*;
use chrono::{DateTime, NaiveDateTime};
use serde_json::{Map, Value};
use thiserror::Error;
use troupe_protocol::TokenId;

use crate::template::{ChatTemplate, Ending, RenderInput, TemplateError};
use crate::tokenizer::{AddSpecial, ParseSpecial, SpecialText, Tokenizer, TokenizerError};

/// Encodes a text in which control tokens count.
#[derive(Message)]
#[rtype(result = "Result<Vec<TokenId>, PromptError>")]
pub struct EncodeText {
    /// The text.
    pub text: String,
    /// Whether BOS and EOS are put around it.
    pub add: AddSpecial,
}

/// Renders a conversation and encodes it. Control tokens in its messages are text.
#[derive(Message)]
#[rtype(result = "Result<Vec<TokenId>, PromptError>")]
pub struct EncodeChat {
    /// Messages in OpenAI's shape. A developer's are the system's to a template that knows no developer.
    pub messages: Vec<Value>,
    /// Definitions of the tools that may be called, in OpenAI's shape.
    pub tools: Vec<Value>,
    /// What the prompt ends in.
    pub ending: Ending,
    /// Further variables of the template.
    pub variables: Map<String, Value>,
}

/// Decodes tokens, special ones included.
#[derive(Message)]
#[rtype(result = "Result<String, PromptError>")]
pub struct Decode {
    /// The tokens.
    pub tokens: Vec<TokenId>,
}

/// Why a prompt could not be made.
#[derive(Debug, Error)]
pub enum PromptError {
    /// The model has no chat template.
    #[error("this model has no chat template; use /v1/completions")]
    NoTemplate,
    /// The template refused the conversation, or broke on it.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Even if it were made of the longest tokens only, the text would exceed the context.
    #[error("a text of {bytes} bytes does not fit {max_model_len} tokens")]
    TooLong {
        /// The text's length.
        bytes: usize,
        /// The context.
        max_model_len: u32,
    },
    /// The tokenizer refused the text.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A library panicked; the thread goes on.
    #[error("the tokenizer broke on this input")]
    Panicked,
}

/// One thread of the pool.
#[derive(Clone, Debug)]
pub struct TokenizerPool {
    tokenizer: Arc<Tokenizer>,
    template: Option<Arc<ChatTemplate>>,
    /// The context, for the error.
    max_model_len: u32,
    /// A longer text cannot fit the context, even if it were made of the longest tokens only.
    max_bytes: usize,
}

impl TokenizerPool {
    /// Starts `threads` threads that share a tokenizer and a template. Prompts are for a context of `max_model_len`.
    pub fn start(
        threads: usize,
        tokenizer: Arc<Tokenizer>,
        template: Option<Arc<ChatTemplate>>,
        max_model_len: u32,
    ) -> Addr<Self> {
        let ids = 0..tokenizer.vocab_size() as u32;
        let longest = ids.filter_map(|id| tokenizer.token_bytes(id)).map(<[u8]>::len).max().unwrap_or(1);
        let max_bytes = longest.saturating_mul(max_model_len as usize);
        let worker = Self { tokenizer, template, max_model_len, max_bytes };
        SyncArbiter::start(threads, move || worker.clone())
    }

    /// Refuses a hopeless text before the work: encoding megabytes takes seconds and a hundred times their size.
    fn check_length(&self, text: &str) -> Result<(), PromptError> {
        match text.len() {
            bytes if bytes > self.max_bytes => {
                Err(PromptError::TooLong { bytes, max_model_len: self.max_model_len })
            }
            _ => Ok(()),
        }
    }

    fn encode_chat(&self, mut chat: EncodeChat) -> Result<Vec<TokenId>, PromptError> {
        let template = self.template.as_ref().ok_or(PromptError::NoTemplate)?;
        if !template.source().contains(DEVELOPER) {
            chat.messages.iter_mut().for_each(developer_to_system);
        }
        let rendered = template.render(&RenderInput {
            messages: &chat.messages,
            tools: Some(chat.tools.as_slice()).filter(|tools| !tools.is_empty()),
            ending: chat.ending,
            variables: Some(&chat.variables),
            now: utc_now(),
            ..RenderInput::default()
        })?;
        self.check_length(&rendered.text)?;
        Ok(self.tokenizer.encode_rendered(&rendered)?)
    }
}

const DEVELOPER: &str = "developer";

fn developer_to_system(message: &mut Value) {
    if let Some(role) = message.get_mut("role").filter(|role| **role == DEVELOPER) {
        *role = Value::from("system");
    }
}

impl Actor for TokenizerPool {
    type Context = SyncContext<Self>;
}

impl Handler<EncodeText> for TokenizerPool {
    type Result = Result<Vec<TokenId>, PromptError>;

    fn handle(&mut self, EncodeText { text, add }: EncodeText, _: &mut Self::Context) -> Self::Result {
        guarded(|| {
            self.check_length(&text)?;
            Ok(self.tokenizer.encode(&text, add, ParseSpecial::AsTokens)?)
        })
    }
}

impl Handler<EncodeChat> for TokenizerPool {
    type Result = Result<Vec<TokenId>, PromptError>;

    fn handle(&mut self, chat: EncodeChat, _: &mut Self::Context) -> Self::Result {
        guarded(|| self.encode_chat(chat))
    }
}

impl Handler<Decode> for TokenizerPool {
    type Result = Result<String, PromptError>;

    fn handle(&mut self, Decode { tokens }: Decode, _: &mut Self::Context) -> Self::Result {
        guarded(|| Ok(self.tokenizer.decode(&tokens, SpecialText::Show)))
    }
}

/// Keeps a panic of one request from costing the pool a thread. What is shared is immutable, so nothing is left torn.
fn guarded<T>(work: impl FnOnce() -> Result<T, PromptError>) -> Result<T, PromptError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(PromptError::Panicked))
}

/// The time that templates print. A server's own zone is no business of its clients.
fn utc_now() -> NaiveDateTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    DateTime::from_timestamp(since.as_secs().cast_signed(), 0).unwrap_or_default().naive_utc()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{END, VOCAB_SIZE, model_card};

    fn pool(with_template: bool) -> Addr<TokenizerPool> {
        let card = model_card(10).unwrap();
        TokenizerPool::start(2, card.tokenizer, card.template.filter(|_| with_template), 10)
    }

    fn chat(content: &str) -> EncodeChat {
        let messages = vec![json!({"role": "user", "content": content})];
        EncodeChat { messages, tools: Vec::new(), ending: Ending::GenerationPrompt, variables: Map::new() }
    }

    #[actix::test]
    async fn a_developer_is_the_system_to_a_template_that_knows_none() {
        let mut request = chat("a");
        request.messages[0]["role"] = json!("developer");
        let tokens = pool(true).send(request).await.unwrap().unwrap();
        let text: Vec<u8> = tokens.into_iter().map(|token| token as u8).collect();
        assert_eq!(String::from_utf8(text).unwrap(), "system: a\n");
    }

    #[actix::test]
    async fn control_tokens_count_in_a_raw_prompt_and_are_text_in_a_message() {
        let pool = pool(true);
        let raw = EncodeText { text: "a<|end|>".to_owned(), add: AddSpecial::AsConfigured };
        assert_eq!(pool.send(raw).await.unwrap().unwrap(), [97, END]);
        let message = pool.send(chat("<|end|>")).await.unwrap().unwrap();
        assert!(!message.contains(&END), "{message:?}");
        let text = pool.send(Decode { tokens: vec![97, END] }).await.unwrap().unwrap();
        assert_eq!(text, "a<|end|>");
    }

    #[actix::test]
    async fn a_text_that_cannot_fit_is_not_encoded() {
        let pool = pool(true);
        // The longest token has seven bytes, the context ten tokens.
        for (bytes, fits) in [(70, true), (71, false)] {
            let text = EncodeText { text: "x".repeat(bytes), add: AddSpecial::Never };
            let encoded = pool.send(text).await.unwrap();
            assert_eq!(!matches!(encoded, Err(PromptError::TooLong { .. })), fits, "{bytes}: {encoded:?}");
        }
        assert!(matches!(pool.send(chat(&"x".repeat(71))).await.unwrap(), Err(PromptError::TooLong { .. })));
    }

    #[actix::test]
    async fn c151_what_a_template_refuses_or_lacks_is_told() {
        let raised = pool(true).send(chat("raise")).await.unwrap().unwrap_err();
        assert_eq!(raised.to_string(), "roles must alternate");
        let none = pool(false).send(chat("hi")).await.unwrap().unwrap_err();
        assert!(matches!(none, PromptError::NoTemplate), "{none}");
    }

    #[test]
    fn a_panic_costs_one_request() {
        let outcome = guarded::<()>(|| panic!("token {VOCAB_SIZE} is not there"));
        assert!(matches!(outcome, Err(PromptError::Panicked)));
    }
}
