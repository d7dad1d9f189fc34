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
    /// The template prints nothing of what the system says in a message.
    #[error("{}", dropped(.index, .text))]
    SystemDropped {
        /// The message's place in the conversation.
        index: usize,
        /// What it says.
        text: String,
    },
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
        let now = utc_now();
        let mut merged = 0;
        let rendered = loop {
            let input = RenderInput {
                messages: &chat.messages,
                tools: Some(chat.tools.as_slice()).filter(|tools| !tools.is_empty()),
                ending: chat.ending,
                variables: Some(&chat.variables),
                now,
                ..RenderInput::default()
            };
            let rendered = template.render(&input)?;
            let Some(index) = template.dropped_system_message(&input, &rendered) else { break rendered };
            let opening = chat.messages.iter().take_while(|message| is_of_system(message)).count();
            if index >= opening || opening < 2 {
                let text = system_text(&chat.messages[index]);
                let index = if index == 0 { 0 } else { index + merged };
                return Err(PromptError::SystemDropped { index, text });
            }
            merged = opening - 1;
            merge_opening(&mut chat.messages, opening);
        };
        self.check_length(&rendered.text)?;
        Ok(self.tokenizer.encode_rendered(&rendered)?)
    }
}

/// Why a conversation is refused of which a message of the system's would be lost.
fn dropped(index: &usize, text: &str) -> String {
    /// The most characters of the message that are told.
    const MAX_TOLD: usize = 64;
    let told: String = text.chars().take(MAX_TOLD).collect();
    let which = if *index == 0 { "" } else { " after the beginning of a conversation" };
    format!("the model's chat template drops what the system says{which}: {told:?}")
}

fn is_of_system(message: &Value) -> bool {
    message["role"] == "system" || message["role"] == DEVELOPER
}

/// What a message of the system's says, as one text.
fn system_text(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}

/// Makes the first message of the `opening` ones, which are all the system's: many a template knows one alone.
fn merge_opening(messages: &mut Vec<Value>, opening: usize) {
    let texts: Vec<String> = messages[..opening].iter().map(system_text).collect();
    messages[0]["content"] = texts.join("\n\n").into();
    messages.drain(1..opening);
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

    /// Encodes a conversation of these roles and texts by a template.
    async fn prompt_by(template: &str, messages: &[(&str, &str)]) -> Result<String, PromptError> {
        let card = model_card(200).unwrap();
        let template = ChatTemplate::new(template, &crate::template::TemplateTokens::default()).unwrap();
        let pool = TokenizerPool::start(1, card.tokenizer, Some(Arc::new(template)), 200);
        let message = |(role, content): &(&str, &str)| json!({"role": role, "content": content});
        let messages = messages.iter().map(message).collect();
        let tokens = pool.send(EncodeChat { messages, ..chat("") }).await.unwrap()?;
        Ok(String::from_utf8(tokens.into_iter().map(|token| token as u8).collect()).unwrap())
    }

    #[actix::test]
    async fn a_system_message_that_the_template_drops_is_refused() {
        /// Looks for the system at the beginning alone.
        const FIRST: &str = "{% if messages[0].role == 'system' %}S {{ messages[0].content }}\n{% endif %}\
            {% for m in messages %}{% if m.role != 'system' %}{{ m.role }} {{ m.content }}\n{% endif %}{% endfor %}";
        const NEVER: &str =
            "{% for m in messages if m.role != 'system' %}{{ m.role }} {{ m.content }}\n{% endfor %}";
        /// Prints all of them, but not as they are.
        const CHANGED: &str =
            "{% for m in messages %}{{ m.role }} {{ m.content | trim | upper }}\n{% endfor %}";
        let middle = [("system", "a b"), ("user", "c"), ("system", "be brief"), ("user", "d")];
        let opening = [("system", "a b"), ("developer", "x"), ("user", "c")];
        let late = [opening.as_slice(), &middle[2..]].concat();
        for (template, messages, expected) in [
            (FIRST, &middle[..2], Ok("S a b\nuser c\n")),
            (FIRST, &middle[1..2], Ok("user c\n")),
            (FIRST, &middle, Err((2, "be brief", "drops what the system says after the beginning"))),
            // Several in the beginning are one to it.
            (FIRST, &opening, Ok("S a b\n\nx\nuser c\n")),
            (FIRST, &late, Err((3, "be brief", "after the beginning of a conversation: \"be brief\""))),
            (NEVER, &middle[..2], Err((0, "a b", "drops what the system says: \"a b\""))),
            (NEVER, &opening, Err((0, "a b\n\nx", "drops what the system says: "))),
            (CHANGED, &middle, Ok("system A B\nuser C\nsystem BE BRIEF\nuser D\n")),
            (NEVER, &[("system", " \n"), ("user", "c")], Ok("user c\n")),
        ] {
            match (prompt_by(template, messages).await, expected) {
                (Ok(text), Ok(expected)) => assert_eq!(text, expected),
                (Err(error), Err((place, said, reason))) => {
                    assert!(error.to_string().contains(reason), "{error}");
                    let PromptError::SystemDropped { index, text } = error else { panic!("{error}") };
                    assert_eq!((index, text.as_str()), (place, said));
                }
                (prompt, expected) => panic!("{messages:?}: {prompt:?}, not {expected:?}"),
            }
        }
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
