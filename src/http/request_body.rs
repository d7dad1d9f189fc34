//! Reading a request's body: bounded in size and time, UTF-8, JSON.

use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, web};
use bytes::BytesMut;
use futures_util::StreamExt;
use serde_json::Value;

use super::error::ApiError;
use super::fields::Fields;

/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The most values of a body. A number of one digit takes two bytes of JSON and seventy of memory.
const MAX_VALUES: usize = 1 << 18;

/// Reads a body of at most `limit` bytes that holds one JSON object.
///
/// The media type is not looked at: JSON is what every endpoint takes.
///
/// # Errors
/// Compressed, too large (known at once if the client says the length), too slow, cut short, not UTF-8, not JSON, no object.
pub(super) async fn read_object(
    request: &HttpRequest,
    payload: web::Payload,
    limit: usize,
) -> Result<Fields, ApiError> {
    check_encoding(request)?;
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > limit as u64) {
        return Err(ApiError::BodyTooLarge { limit });
    }
    let bytes = tokio::time::timeout(BODY_TIMEOUT, collect(payload, limit))
        .await
        .map_err(|_| ApiError::BodyTimeout { timeout_s: BODY_TIMEOUT.as_secs() })??;
    parse_object(&bytes)
}

/// A body comes as it is: what one that is compressed takes in memory is known only once it is read.
fn check_encoding(request: &HttpRequest) -> Result<(), ApiError> {
    let encodings = request.headers().get_all(header::CONTENT_ENCODING);
    let encodings = encodings.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
    let mut encodings =
        encodings.filter(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity"));
    encodings.next().map_or(Ok(()), |encoding| Err(ApiError::BodyEncoded { encoding }))
}

async fn collect(mut payload: web::Payload, limit: usize) -> Result<BytesMut, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| ApiError::BodyCutShort)?;
        if bytes.len() + chunk.len() > limit {
            return Err(ApiError::BodyTooLarge { limit });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The object that `bytes` spell.
///
/// # Errors
/// If they are not UTF-8, not JSON, or no object.
pub(super) fn parse_object(bytes: &[u8]) -> Result<Fields, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ApiError::NotUtf8)?;
    if count_values(text) > MAX_VALUES {
        return Err(ApiError::Json(format!("it holds more than {MAX_VALUES} values")));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| ApiError::Json(error.to_string()))?;
    Fields::of(value, "body")
}

/// How many values a JSON text holds, at most: one more than the borders between them.
fn count_values(text: &str) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c013_c033_a_body_that_is_no_json_object_is_refused_with_the_reason() {
        let many = format!("{{\"prompt\":[{}1]}}", "1,".repeat(1 << 18));
        let deep = "[".repeat(100_000);
        for (bytes, message) in [
            (
                &b"{\"a\": "[..],
                "could not parse the body as JSON: EOF while parsing a value at line 1 column 6",
            ),
            (b"", "could not parse the body as JSON: EOF while parsing a value at line 1 column 0"),
            (
                b"{\"temperature\": NaN}",
                "could not parse the body as JSON: expected value at line 1 column 17",
            ),
            (b"{\"x\": \"\xc4\xe3\"}", "the body is not valid UTF-8"),
            (b"[]", "invalid type for 'body': expected an object, but got an array instead"),
            (
                b"{\"a\":\"\\ud800\"}",
                "could not parse the body as JSON: unexpected end of hex escape at line 1 column 13",
            ),
            (many.as_bytes(), "could not parse the body as JSON: it holds more than 262144 values"),
            (
                deep.as_bytes(),
                "could not parse the body as JSON: recursion limit exceeded at line 1 column 128",
            ),
        ] {
            assert_eq!(parse_object(bytes).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn text_does_not_count_as_values() {
        for (text, count) in [(r#"{"a": "x, [y], \"{z}\", \\"}"#, 2), (r#"[1, "a,b", {"c": []}]"#, 6)] {
            assert!(serde_json::from_str::<Value>(text).is_ok());
            assert_eq!(count_values(text), count, "{text}");
        }
    }
}
