//! Server-sent events, as a client reads them: bytes in pieces of any size, events out.

use thiserror::Error;

/// The longest event that is read. A chat chunk is a few hundred bytes; log-probabilities make it a few
/// thousand.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Why a stream cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SseError {
    /// No event ended within the bound.
    #[error("an event is longer than {MAX_EVENT_BYTES} bytes")]
    TooLong,
    /// A line is not UTF-8.
    #[error("an event is not UTF-8")]
    NotUtf8,
}

/// Collects bytes and gives back the `data` of whole events. Other fields and comments are passed over.
#[derive(Debug, Default)]
pub struct SseParser {
    /// Bytes of a line that has not ended.
    line: Vec<u8>,
    /// Data lines of an event that has not ended.
    data: Vec<String>,
    /// Whether the last byte was a carriage return, so that a line feed right after it ends nothing.
    after_return: bool,
}

impl SseParser {
    /// Takes the next bytes, and returns the events that end in them.
    ///
    /// # Errors
    /// [`SseError`]; the parser is then of no further use.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, SseError> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                _ => self.line.push(byte),
            }
            if self.line.len() > MAX_EVENT_BYTES {
                return Err(SseError::TooLong);
            }
        }
        Ok(events)
    }

    /// An empty line ends the event; any other belongs to it.
    fn end_line(&mut self) -> Result<Option<String>, SseError> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| SseError::NotUtf8)?;
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return Ok((!data.is_empty()).then(|| data.join("\n")));
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field == "data" {
            self.data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
        }
        if self.data.iter().map(String::len).sum::<usize>() > MAX_EVENT_BYTES {
            return Err(SseError::TooLong);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": ping\n\ndata: {\"a\":1}\n\nevent: x\r\ndata:é b\r\nid: 7\r\n\r\ndata: 1\rdata: 2\r\rdata\n\ndata: [DONE]\n\n";
    const EVENTS: [&str; 5] = ["{\"a\":1}", "é b", "1\n2", "", "[DONE]"];

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let bytes = STREAM.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut parser = SseParser::default();
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let events: Vec<String> = pieces.iter().flat_map(|p| parser.push(p).unwrap()).collect();
                assert_eq!(events, EVENTS, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn an_event_that_has_not_ended_is_not_delivered() {
        assert_eq!(SseParser::default().push(b"data: x\n"), Ok(vec![]));
    }

    #[test]
    fn endless_events_are_refused() {
        let line = vec![b'a'; MAX_EVENT_BYTES + 1];
        assert_eq!(SseParser::default().push(&line), Err(SseError::TooLong));
        let mut parser = SseParser::default();
        let lines = format!("data: {}\n", "a".repeat(1 << 19)).repeat(3);
        assert_eq!(parser.push(lines.as_bytes()), Err(SseError::TooLong));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        assert_eq!(SseParser::default().push(b"data: \xff\n"), Err(SseError::NotUtf8));
    }
}
