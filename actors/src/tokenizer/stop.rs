/// What came of pushing text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopOutcome {
    /// Text that is free to go out.
    pub emit: String,
    /// The stop string that was met, by its index; the stream is over and nothing after it counts.
    pub stopped: Option<usize>,
}

/// Looks for stop strings in a stream of text, across the borders of its pieces.
///
/// It holds back the longest end of the text that could still become a stop string, and nothing else. The stop string
/// that is complete first wins; of several that are complete at the same byte, the longest. The text before it goes
/// out, its own text never does. Time is linear in the text for each stop string.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    patterns: Vec<Pattern>,
    held: String,
    is_stopped: bool,
}

/// One stop string, with Knuth, Morris and Pratt's table.
#[derive(Clone, Debug)]
struct Pattern {
    bytes: Vec<u8>,
    /// For each matched length, the length of its longest proper end that is also a start.
    fallback: Vec<usize>,
    matched: usize,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let bytes = text.as_bytes().to_vec();
        let mut fallback = vec![0; bytes.len() + 1];
        let mut length = 0;
        for at in 1..bytes.len() {
            while length > 0 && bytes[at] != bytes[length] {
                length = fallback[length];
            }
            length += usize::from(bytes[at] == bytes[length]);
            fallback[at + 1] = length;
        }
        Self { bytes, fallback, matched: 0 }
    }

    /// Reads one byte; true if the whole string now ends here. An empty string never does.
    fn advance(&mut self, byte: u8) -> bool {
        if self.matched == self.bytes.len() {
            self.matched = self.fallback[self.matched];
        }
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.fallback[self.matched];
        }
        if self.bytes.get(self.matched) == Some(&byte) {
            self.matched += 1;
        }
        !self.bytes.is_empty() && self.matched == self.bytes.len()
    }
}

impl StopMatcher {
    /// A matcher for these strings. An empty one is never met.
    pub fn new<'a>(stops: impl IntoIterator<Item = &'a str>) -> Self {
        let patterns = stops.into_iter().map(Pattern::new).collect();
        Self { patterns, held: String::new(), is_stopped: false }
    }

    /// Reads the next piece of text. After a stop string was met, everything is swallowed.
    pub fn push(&mut self, text: &str) -> StopOutcome {
        if self.is_stopped {
            return StopOutcome::default();
        }
        let before = self.held.len();
        self.held.push_str(text);
        for (at, byte) in text.bytes().enumerate() {
            if let Some(index) = self.advance(byte) {
                let end = before + at + 1;
                let start = end - self.patterns[index].bytes.len();
                self.is_stopped = true;
                let mut emit = std::mem::take(&mut self.held);
                emit.truncate(start);
                return StopOutcome { emit, stopped: Some(index) };
            }
        }
        let open = self.patterns.iter().map(|pattern| pattern.matched).max().unwrap_or(0);
        let tail = self.held.split_off(self.held.len() - open);
        StopOutcome { emit: std::mem::replace(&mut self.held, tail), stopped: None }
    }

    /// Feeds a byte to all patterns; the index of the longest that is complete.
    fn advance(&mut self, byte: u8) -> Option<usize> {
        let mut met: Option<(usize, usize)> = None;
        for (index, pattern) in self.patterns.iter_mut().enumerate() {
            let length = pattern.bytes.len();
            if pattern.advance(byte) && met.is_none_or(|(_, longest)| length > longest) {
                met = Some((index, length));
            }
        }
        met.map(|(index, _)| index)
    }

    /// The text that is still held where the stream ends, or is broken off, without a stop string. What is pushed after
    /// it does not continue it.
    pub fn release(&mut self) -> String {
        self.patterns.iter_mut().for_each(|pattern| pattern.matched = 0);
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::StopMatcher;

    /// The emitted pieces with the held tail last, and the stop string met.
    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Option<usize>) {
        let mut matcher = StopMatcher::new(stops.iter().copied());
        let mut out = Vec::new();
        let mut stopped = None;
        for piece in pieces {
            let outcome = matcher.push(piece);
            out.push(outcome.emit);
            stopped = stopped.or(outcome.stopped);
        }
        out.push(matcher.release());
        (out, stopped)
    }

    fn strings(pieces: &[&str]) -> Vec<String> {
        pieces.iter().map(|piece| (*piece).to_owned()).collect()
    }

    #[test]
    fn c038_a_stop_string_built_of_several_tokens_never_leaks() {
        let (out, stopped) = run(&["DEFGHIJ"], &["ABC", "DEF", "GH", "IJK", "L"]);
        assert_eq!((out, stopped), (strings(&["ABC", "", "", "", "", ""]), Some(0)));
    }

    #[test]
    fn c040_a_stop_string_with_a_space_inside() {
        let (out, stopped) = run(&["own fox"], &["the br", "own", " f", "ox jumps"]);
        assert_eq!((out.concat(), stopped), ("the br".to_owned(), Some(0)));
    }

    #[test]
    fn c041_a_stop_string_far_into_the_text() {
        let (out, stopped) = run(&["O P Q"], &["A B C D E F G H I J K", " L M N", " O", " P", " Q R"]);
        assert_eq!((out.concat(), stopped), ("A B C D E F G H I J K L M N ".to_owned(), Some(0)));
    }

    #[test]
    fn c043_a_failed_match_is_released_once() {
        let (out, stopped) = run(&["aab"], &["a", "a", "a", "c"]);
        assert_eq!((out, stopped), (strings(&["", "", "a", "aac", ""]), None));
    }

    #[test]
    fn c046_what_precedes_the_stop_string_is_flushed() {
        let (out, stopped) = run(&["</tool>"], &["{\"a\":1}<", "/to", "ol>"]);
        assert_eq!((out.concat(), stopped), ("{\"a\":1}".to_owned(), Some(0)));
    }

    #[test]
    fn no_stop_string_reaches_over_a_break() {
        let mut matcher = StopMatcher::new(["abc"]);
        assert_eq!((matcher.push("xab").emit, matcher.release()), ("x".to_owned(), "ab".to_owned()));
        assert_eq!(matcher.push("cab").stopped, None);
        assert_eq!(matcher.push("c").stopped, Some(0));
    }

    #[test]
    fn the_first_complete_string_wins_then_the_longest() {
        assert_eq!(run(&["abcd", "bc"], &["abcd"]), (strings(&["a", ""]), Some(1)));
        assert_eq!(run(&["c", "abc"], &["xabc"]), (strings(&["x", ""]), Some(1)));
        assert_eq!(run(&[""], &["x"]), (strings(&["x", ""]), None));
    }

    /// The first end in the whole text, then the longest string there.
    fn naive(stops: &[String], text: &str) -> (String, Option<usize>) {
        for end in 1..=text.len() {
            let met = stops
                .iter()
                .enumerate()
                .filter(|(_, stop)| text.as_bytes()[..end].ends_with(stop.as_bytes()));
            let longest = met.max_by(|(a, x), (b, y)| x.len().cmp(&y.len()).then(b.cmp(a)));
            if let Some((index, stop)) = longest {
                return (text[..end - stop.len()].to_owned(), Some(index));
            }
        }
        (text.to_owned(), None)
    }

    proptest! {
        #[test]
        fn agrees_with_a_search_of_the_whole_text(
            stops in prop::collection::vec("[abé😀]{1,5}", 0..4),
            pieces in prop::collection::vec("[abé😀]{0,4}", 0..24),
        ) {
            let stop_refs: Vec<&str> = stops.iter().map(String::as_str).collect();
            let piece_refs: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (out, stopped) = run(&stop_refs, &piece_refs);
            prop_assert_eq!((out.concat(), stopped), naive(&stops, &pieces.concat()));
        }

        #[test]
        fn holds_nothing_that_cannot_become_a_stop_string(pieces in prop::collection::vec("[ab]{0,3}", 1..16)) {
            let mut matcher = StopMatcher::new(["abab", "bb"]);
            for piece in &pieces {
                if matcher.push(piece).stopped.is_some() {
                    break;
                }
                let held = &matcher.held;
                prop_assert!("abab".starts_with(held.as_str()) || "bb".starts_with(held.as_str()));
            }
        }
    }
}
