//! A stream of events is the same in one piece and byte by byte.

use troupe::bench::SseParser;

/// Reads the bytes as a stream.
pub fn events(bytes: &[u8]) {
    let whole = SseParser::default().push(bytes);
    let mut parser = SseParser::default();
    let pieces: Result<Vec<_>, _> = bytes.chunks(1).map(|piece| parser.push(piece)).collect();
    assert_eq!(whole, pieces.map(|events| events.concat()));
}
