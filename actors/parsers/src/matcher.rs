//! Markers in a stream of symbols.

/// What parsers read: a character, or a control token that is a marker of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    Char(char),
    Control(&'static str),
}

impl Symbol {
    pub(crate) fn is_whitespace(self) -> bool {
        matches!(self, Self::Char(character) if is_space(character))
    }

    pub(crate) fn append_to(self, text: &mut String) {
        match self {
            Self::Char(character) => text.push(character),
            Self::Control(spelling) => text.push_str(spelling),
        }
    }
}

/// Whitespace as models put it around their markers. Other kinds are text: some languages begin paragraphs with them.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// The markers that are control tokens of the model's vocabulary: these are read from the token alone, and the same
/// characters in ordinary text are text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strict(pub(crate) Vec<&'static str>);

impl Strict {
    pub(crate) fn find(&self, spelling: &str) -> Option<&'static str> {
        self.0.iter().copied().find(|marker| *marker == spelling)
    }

    pub(crate) fn contains(&self, marker: &str) -> bool {
        self.0.contains(&marker)
    }
}

/// Finds markers in a stream. Holds back less than the longest marker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    held: String,
}

impl Matcher {
    /// Takes a symbol; returns the marker that ends with it. What turned out to be no marker is appended to `released`.
    ///
    /// No marker may be the beginning of another; empty ones are ignored.
    pub(crate) fn feed(
        &mut self,
        symbol: Symbol,
        markers: &[&'static str],
        strict: &Strict,
        released: &mut String,
    ) -> Option<&'static str> {
        let character = match symbol {
            Symbol::Char(character) => character,
            Symbol::Control(spelling) => {
                self.release(released);
                if markers.contains(&spelling) {
                    return Some(spelling);
                }
                released.push_str(spelling);
                return None;
            }
        };
        self.held.push(character);
        let read_from_text = |marker: &&&'static str| !marker.is_empty() && !strict.contains(marker);
        while !self.held.is_empty() {
            let begun =
                markers.iter().filter(read_from_text).find(|marker| marker.starts_with(self.held.as_str()));
            match begun {
                Some(marker) if marker.len() == self.held.len() => {
                    self.held.clear();
                    return Some(marker);
                }
                Some(_) => return None,
                None => released.push(self.held.remove(0)),
            }
        }
        None
    }

    /// Gives up what is held.
    pub(crate) fn release(&mut self, released: &mut String) {
        released.push_str(&self.held);
        self.held.clear();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }
}

/// Expects one of several markers after any whitespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expect {
    matcher: Matcher,
}

/// How an expectation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    More,
    Found(&'static str),
    Mismatch,
}

impl Expect {
    pub(crate) fn feed(&mut self, symbol: Symbol, markers: &[&'static str], strict: &Strict) -> Expected {
        let mut released = String::new();
        let found = self.matcher.feed(symbol, markers, strict, &mut released);
        if released.contains(|character| !is_space(character)) {
            return Expected::Mismatch;
        }
        found.map_or(Expected::More, Expected::Found)
    }

    /// Is no marker half read?
    pub(crate) fn is_idle(&self) -> bool {
        self.matcher.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(markers: &[&'static str], strict: &Strict, text: &str) -> (String, Vec<&'static str>) {
        let (mut matcher, mut released, mut found) = (Matcher::default(), String::new(), Vec::new());
        for character in text.chars() {
            found.extend(matcher.feed(Symbol::Char(character), markers, strict, &mut released));
        }
        matcher.release(&mut released);
        (released, found)
    }

    #[test]
    fn markers_are_found_and_the_rest_is_released() {
        let none = Strict::default();
        let markers = ["<call>", "</call>"];
        assert_eq!(
            run(&markers, &none, "a<<call>b</calx></call>"),
            ("a<b</calx>".to_owned(), vec!["<call>", "</call>"])
        );
        assert_eq!(run(&["aab"], &none, "aaab"), ("a".to_owned(), vec!["aab"]));
        assert_eq!(run(&markers, &none, "<cal"), ("<cal".to_owned(), vec![]));
    }

    #[test]
    fn a_strict_marker_is_read_from_its_token_alone() {
        let strict = Strict(vec!["<call>"]);
        assert_eq!(run(&["<call>"], &strict, "<call>"), ("<call>".to_owned(), vec![]));
        let (mut matcher, mut released) = (Matcher::default(), String::new());
        assert_eq!(
            matcher.feed(Symbol::Control("<call>"), &["<call>"], &strict, &mut released),
            Some("<call>")
        );
        assert_eq!(matcher.feed(Symbol::Control("<call>"), &["<other>"], &strict, &mut released), None);
        assert_eq!(released, "<call>");
    }
}
