//! Operands of `+`, as the pass over a template's source finds them.
//!
//! The engine adds lists lazily, and charges nothing for it: thirty-three times `l = l + l` is a list of 2^33 entries,
//! which it then writes out without asking for fuel. So each operand of a `+` goes through a filter of ours
//! ([`FILTER`]), which sees lists before they are added.

use std::ops::Range;

/// The filter that operands go through. It gives texts and numbers back as they are.
pub(super) const FILTER: &str = "operand_of_plus";

/// Words that end an operand, outside attributes.
const WORDS: [&str; 8] = ["and", "or", "not", "in", "if", "else", "elif", "recursive"];

/// `tag` (`{{ … }}` or `{% … %}`, whole) with the operands of its `+` passed through [`FILTER`]. Where the first or the
/// second operand is the literal of a text or a number, the sum is none of lists, and stays as it is.
pub(super) fn guard(tag: &str) -> String {
    let inner = inside(tag);
    let mut scan = Scan { levels: vec![Level::default()], ..Scan::default() };
    let mut at = inner.start;
    while at < inner.end {
        let token = Token::read(&tag[at..inner.end]);
        scan.token(token.kind, &tag[at..at + token.length], at);
        at += token.length;
    }
    while !scan.levels.is_empty() {
        scan.close();
    }
    let mut insertions = scan.insertions;
    insertions.sort_by_key(|(at, order, _)| (*at, *order));
    let mut out = String::with_capacity(tag.len() + insertions.len() * 8);
    let mut done = 0;
    for (at, _, text) in insertions {
        out.push_str(&tag[done..at]);
        out.push_str(&text);
        done = at;
    }
    out.push_str(&tag[done..]);
    out
}

/// Where the expressions of a tag are: behind its marks and, in a statement, its name.
fn inside(tag: &str) -> Range<usize> {
    let bytes = tag.as_bytes();
    let sign = |at: usize| bytes.get(at).is_some_and(|byte| matches!(byte, b'-' | b'+'));
    let mut start = 2 + usize::from(sign(2));
    let is_closed = tag.len() >= start + 2 && (tag.ends_with("}}") || tag.ends_with("%}"));
    let mut end = tag.len() - if is_closed { 2 } else { 0 };
    end -= usize::from(end > start && sign(end - 1));
    if tag.starts_with("{%") {
        let rest = tag[start..end].trim_start();
        start = end - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    }
    start.min(end)..end
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Space,
    Literal,
    Word,
    Open,
    Close,
    /// `+` or `-`.
    Sign,
    /// What binds tighter than a sum.
    Tight,
    /// What binds less than a sum.
    Loose,
}

struct Token {
    kind: Kind,
    /// Bytes, one at least.
    length: usize,
}

impl Token {
    fn read(text: &str) -> Self {
        let first = text.chars().next().unwrap_or(' ');
        let (kind, length) = match first {
            c if c.is_whitespace() => (Kind::Space, c.len_utf8()),
            '\'' | '"' => (Kind::Literal, string_length(text)),
            '0'..='9' => (Kind::Literal, number_length(text)),
            c if c.is_alphabetic() || c == '_' => {
                (Kind::Word, text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()))
            }
            '(' | '[' | '{' => (Kind::Open, 1),
            ')' | ']' | '}' => (Kind::Close, 1),
            '+' | '-' => (Kind::Sign, 1),
            '*' | '/' | '%' | '~' | '.' | '|' => (Kind::Tight, 1),
            c => (Kind::Loose, c.len_utf8()),
        };
        Self { kind, length }
    }
}

fn string_length(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// A number with its fraction and exponent; a point that no digit follows is an attribute's.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let is_hex = matches!(bytes.get(1), Some(b'x' | b'X'));
        at += match byte {
            b'e' | b'E' if !is_hex && is_digit(at + 1 + sign) => 1 + sign,
            b'.' if is_digit(at + 1) => 1,
            byte if byte.is_ascii_alphanumeric() || *byte == b'_' => 1,
            _ => return at,
        };
    }
    at
}

#[derive(Default)]
struct Scan {
    levels: Vec<Level>,
    /// Where to insert (bytes), which of several at one place goes first, and what.
    insertions: Vec<(usize, usize, String)>,
}

/// What stands between two brackets, so far.
#[derive(Default)]
struct Level {
    /// The operands of the sum that is being read, each with whether it is a literal and nothing else.
    sum: Vec<(Range<usize>, bool)>,
    has_plus: bool,
    operand: Option<(Range<usize>, bool)>,
    /// Whether the last token ended a value, so that a sign behind it is one between two.
    after_value: bool,
    /// Whether the word to come is an attribute, a filter or a test.
    after_name_mark: bool,
    /// Whether `is` stands in the operand: an argument may follow its test without any mark.
    in_test: bool,
}

impl Scan {
    fn token(&mut self, kind: Kind, text: &str, at: usize) {
        let end = at + text.len();
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        match kind {
            Kind::Space => {}
            Kind::Sign if level.after_value => level.next_operand(text == "+"),
            Kind::Sign | Kind::Tight => {
                level.extend(at..end);
                level.after_value = false;
                level.after_name_mark = matches!(text, "." | "|");
            }
            Kind::Loose => self.end_sum(),
            Kind::Word if !level.after_name_mark && text == "is" => {
                level.extend(at..end);
                level.after_value = false;
                level.after_name_mark = true;
                level.in_test = true;
            }
            Kind::Word if level.after_name_mark && level.in_test && text == "not" => level.extend(at..end),
            Kind::Word if !level.after_name_mark && WORDS.contains(&text) => self.end_sum(),
            Kind::Word | Kind::Literal => {
                if level.after_value && !level.in_test {
                    self.end_sum();
                }
                self.value(at..end, kind == Kind::Literal);
            }
            Kind::Open => {
                level.extend(at..end);
                self.levels.push(Level::default());
            }
            Kind::Close => {
                self.close();
                self.value(at..end, false);
            }
        }
    }

    fn value(&mut self, range: Range<usize>, is_literal: bool) {
        if let Some(level) = self.levels.last_mut() {
            let is_whole = level.operand.is_none();
            level.extend(range);
            if let Some((_, literal)) = &mut level.operand {
                *literal = is_literal && is_whole;
            }
            level.after_value = true;
            level.after_name_mark = false;
        }
    }

    fn end_sum(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            let level = std::mem::take(level);
            self.wrap(level);
        }
    }

    fn close(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.wrap(level);
        }
    }

    fn wrap(&mut self, mut level: Level) {
        level.sum.extend(level.operand.take());
        if !level.has_plus || level.sum.iter().take(2).any(|(_, is_literal)| *is_literal) {
            return;
        }
        for (range, _) in level.sum {
            // An operand inside this one was wrapped before: its marks stand inside these.
            let order = self.insertions.len();
            self.insertions.push((range.start, usize::MAX - order, "(".to_owned()));
            self.insertions.push((range.end, order, format!(")|{FILTER}")));
        }
    }
}

impl Level {
    fn extend(&mut self, range: Range<usize>) {
        match &mut self.operand {
            Some((operand, is_literal)) => {
                operand.end = range.end;
                *is_literal = false;
            }
            None => self.operand = Some((range, false)),
        }
    }

    fn next_operand(&mut self, is_plus: bool) {
        self.sum.extend(self.operand.take());
        self.has_plus |= is_plus;
        self.after_value = false;
        self.in_test = false;
    }
}

#[cfg(test)]
mod tests {
    use super::guard;

    #[test]
    fn operands_of_plus_and_nothing_else_go_through_the_filter() {
        for (tag, expected) in [
            ("{{ a + b }}", "{{ (a)|F + (b)|F }}"),
            ("{%- set ns.l = ns.l + [x] -%}", "{%- set ns.l = (ns.l)|F + ([x])|F -%}"),
            ("{{ a * 2 + b ~ c }}", "{{ (a * 2)|F + (b ~ c)|F }}"),
            ("{{ a + -b - c + d }}", "{{ (a)|F + (-b)|F - (c)|F + (d)|F }}"),
            ("{{ a - b }}", "{{ a - b }}"),
            ("{{ 'x' + a + b }}", "{{ 'x' + a + b }}"),
            ("{{ a + 'x' + b }}", "{{ a + 'x' + b }}"),
            ("{{ a + b + 'x' }}", "{{ (a)|F + (b)|F + ('x')|F }}"),
            ("{{ loop.index0 + 1 }}", "{{ loop.index0 + 1 }}"),
            ("{{ 1e+5 + a }}", "{{ 1e+5 + a }}"),
            ("{{ 'it\\'s + a' }}", "{{ 'it\\'s + a' }}"),
            ("{{ 'a'.split() + b }}", "{{ ('a'.split())|F + (b)|F }}"),
            ("{{ f(a + b, c=d + e)[g + h:] }}", "{{ f((a)|F + (b)|F, c=(d)|F + (e)|F)[(g)|F + (h)|F:] }}"),
            ("{{ ((a + b) + c) }}", "{{ ((((a)|F + (b)|F))|F + (c)|F) }}"),
            ("{{ [a + b, {'k': c + d}] }}", "{{ [(a)|F + (b)|F, {'k': (c)|F + (d)|F}] }}"),
            (
                "{% if a + b == c + d and not e + f %}",
                "{% if (a)|F + (b)|F == (c)|F + (d)|F and not (e)|F + (f)|F %}",
            ),
            ("{% for x in a + b recursive %}", "{% for x in (a)|F + (b)|F recursive %}"),
            ("{% for x in a + b if c %}", "{% for x in (a)|F + (b)|F if c %}"),
            (
                "{{ a if b else c + d if e else f + g }}",
                "{{ a if b else (c)|F + (d)|F if e else (f)|F + (g)|F }}",
            ),
            ("{{ a is not divisibleby 3 + b }}", "{{ (a is not divisibleby 3)|F + (b)|F }}"),
            ("{{ x.in + y|if + z }}", "{{ (x.in)|F + (y|if)|F + (z)|F }}"),
            ("{% if(a) + b %}", "{% if((a))|F + (b)|F %}"),
            ("{%+ do a + b +%}", "{%+ do (a)|F + (b)|F +%}"),
            ("{{ é + ü }}", "{{ (é)|F + (ü)|F }}"),
            ("{{ a +", "{{ a +"),
            ("{%", "{%"),
            ("{{+", "{{+"),
        ] {
            assert_eq!(guard(tag).replace(super::FILTER, "F"), expected, "{tag}");
        }
    }
}
