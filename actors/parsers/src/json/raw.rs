//! Checked JSON passed on as it stands, but for what strict parsers refuse in strings.

use super::{Mark, NotJson, Part, Scanner, append_escaped};

/// What stands for half of a surrogate pair that lacks the other half.
const REPLACEMENT: &str = "\\ufffd";

/// Writes the characters of checked JSON. Raw control characters in strings are escaped, and the escape of half a
/// surrogate pair becomes that of U+FFFD. Holds back the escape that is being read and a first half ahead of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawText {
    /// The escape of a first half, whose second may follow.
    high: String,
    /// The escape that is being read, of at most six characters.
    escape: String,
}

impl RawText {
    /// Takes a character, which was that to the scanner, and appends what is certain by now.
    pub(crate) fn feed(&mut self, character: char, mark: Mark, out: &mut String) {
        let is_inside = matches!(mark, Mark::Key(Part::Inside) | Mark::Text(Part::Inside));
        if self.escape.is_empty() && !(is_inside && character == '\\') {
            self.end_high(out);
            match is_inside && character.is_ascii_control() {
                true => append_escaped(character, out),
                false => out.push(character),
            }
            return;
        }
        self.escape.push(character);
        let unit = self.escape.strip_prefix("\\u");
        match (self.escape.len(), unit) {
            (1, _) | (2..6, Some(_)) => {}
            (_, Some(digits)) => {
                // The scanner has checked the digits.
                let unit = u16::from_str_radix(digits, 16).unwrap_or_default();
                self.end_unit(unit, out);
            }
            (_, None) => {
                self.end_high(out);
                out.push_str(&std::mem::take(&mut self.escape));
            }
        }
    }

    fn end_unit(&mut self, unit: u16, out: &mut String) {
        let escape = std::mem::take(&mut self.escape);
        match unit {
            0xDC00..=0xDFFF if self.high.is_empty() => out.push_str(REPLACEMENT),
            0xDC00..=0xDFFF => {
                out.push_str(&std::mem::take(&mut self.high));
                out.push_str(&escape);
            }
            _ => {
                self.end_high(out);
                match unit {
                    0xD800..=0xDBFF => self.high = escape,
                    _ => out.push_str(&escape),
                }
            }
        }
    }

    /// No second half follows the first.
    fn end_high(&mut self, out: &mut String) {
        if !self.high.is_empty() {
            self.high.clear();
            out.push_str(REPLACEMENT);
        }
    }
}

/// The text of one JSON object, passed on as strict parsers take it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawObject {
    scanner: Scanner,
    text: RawText,
}

impl RawObject {
    /// Takes a character and appends what is of the object; true once it is whole. Leading whitespace is dropped.
    pub(crate) fn feed(&mut self, character: char, out: &mut String) -> Result<bool, NotJson> {
        let mark = self.scanner.feed(character)?;
        match (self.scanner.depth(), mark) {
            (0, Mark::Between) => return Ok(false),
            (1, Mark::Open) if character != '{' => return Err(NotJson),
            (0, Mark::Close) | (1.., _) => self.text.feed(character, mark, out),
            (0, _) => return Err(NotJson),
        }
        Ok(self.is_done())
    }

    /// Is the object whole?
    pub(crate) fn is_done(&self) -> bool {
        self.scanner.is_done()
    }
}

/// The text of one JSON value as strict parsers take it; none if it is no JSON.
pub(crate) fn strict(text: &str) -> Option<String> {
    let (mut scanner, mut raw, mut out) = (Scanner::default(), RawText::default(), String::new());
    let mut has_value = false;
    // The bracket after it ends a number; a list around it makes that well-formed.
    for character in "[".chars().chain(text.chars()).chain("]".chars()) {
        let at_top = scanner.depth() == 1;
        let mark = scanner.feed(character).ok()?;
        if at_top && mark == Mark::Between && character == ',' {
            return None;
        }
        has_value |= at_top && !matches!(mark, Mark::Between | Mark::Close);
        raw.feed(character, mark, &mut out);
    }
    let is_one = has_value && scanner.is_done();
    is_one.then(|| out[1..out.len() - 1].to_owned())
}
