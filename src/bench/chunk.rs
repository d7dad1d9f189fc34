//! One event of an OpenAI stream, reduced to what a benchmark counts.

use serde::Serialize;
use serde_json::Value;

/// What an event carries. One event may carry several of these.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Chunk {
    /// Characters of text, reasoning included.
    pub(super) text_chars: usize,
    /// Present in the last chunk of a choice.
    pub(super) finish_reason: Option<String>,
    /// Present at the end, if the server honours `stream_options`.
    pub(super) usage: Option<TokenCounts>,
}

/// Tokens of one request, as the server counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenCounts {
    /// Of the prompt, with what a chat template adds.
    pub prompt: u64,
    /// Of these, found in the server's cache.
    pub cached: u64,
    /// Generated.
    pub output: u64,
}

impl Chunk {
    /// Reads the data of an event. The error is what the server said, or what is wrong with it.
    pub(super) fn parse(data: &str) -> Result<Self, String> {
        let event: Value = serde_json::from_str(data).map_err(|e| format!("an event is not JSON: {e}"))?;
        if let Some(message) = error_message(&event) {
            return Err(message);
        }
        let choice = &event["choices"][0];
        let texts = [&choice["text"], &choice["delta"]["content"], &choice["delta"]["reasoning_content"]];
        Ok(Self {
            text_chars: texts.iter().filter_map(|t| t.as_str()).map(|t| t.chars().count()).sum(),
            finish_reason: choice["finish_reason"].as_str().map(str::to_owned),
            usage: usage(&event["usage"]),
        })
    }
}

/// The message of an OpenAI error object, if this is one.
pub(super) fn error_message(body: &Value) -> Option<String> {
    match body.get("error")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        error => Some(error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned)),
    }
}

fn usage(usage: &Value) -> Option<TokenCounts> {
    Some(TokenCounts {
        prompt: usage["prompt_tokens"].as_u64()?,
        cached: usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0),
        output: usage["completion_tokens"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_both_endpoints_are_read() {
        let counts = TokenCounts { prompt: 9, cached: 4, output: 2 };
        let chunk = |text_chars, reason: Option<&str>, usage| Chunk {
            text_chars,
            finish_reason: reason.map(str::to_owned),
            usage,
        };
        let table = [
            (
                r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
                chunk(0, None, None),
            ),
            (r#"{"choices":[{"delta":{"content":"né"}}]}"#, chunk(2, None, None)),
            (r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#, chunk(2, None, None)),
            (r#"{"choices":[{"text":"abc","finish_reason":"length"}]}"#, chunk(3, Some("length"), None)),
            (
                r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#,
                chunk(0, None, Some(counts)),
            ),
            (r#"{"choices":[{"delta":{}}],"usage":null,"error":null}"#, chunk(0, None, None)),
        ];
        for (data, expected) in table {
            assert_eq!(Chunk::parse(data), Ok(expected), "{data}");
        }
    }

    #[test]
    fn errors_in_a_stream_keep_their_message() {
        for data in [r#"{"error":{"message":"out of blocks","code":500}}"#, r#"{"error":"out of blocks"}"#] {
            assert_eq!(Chunk::parse(data), Err("out of blocks".to_owned()));
        }
        assert!(Chunk::parse("{").unwrap_err().starts_with("an event is not JSON"));
    }
}
