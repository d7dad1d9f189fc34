//! Keeps control tokens that a client spells apart from those that the template writes.
//!
//! Before a render, each control token inside a client's string is spelled with placeholders, one private-use
//! character for each character, so that lengths, slices and trims inside the template stay true. After it they are
//! spelled back, and their places are known. A placeholder is a character that occurs nowhere in the input, so that no
//! input can forge one.
//!
//! Halves are guarded too: the end of a string that could begin a control token, the start of one that could end it,
//! and a name that could be the middle of one. Those are ordinary text (`<`), which a template may look at; the caller
//! renders with and without [`Depth::Edges`] and keeps the finer answer only if both texts are equal.
//!
//! Limits: a template that compares a client's text with a control token sees no match; one that changes the case of
//! it, or escapes it, does not change its spelling.

use std::borrow::Cow;
use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value as Json;

use super::TemplateError;

/// How much of a client's text is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Whole spellings of control tokens.
    Whole,
    /// Those, and halves at the edges of strings.
    Edges,
}

/// What a client's string is to the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Text that is printed.
    Text,
    /// A function's name: printed, and possibly between two halves of a control token.
    Name,
    /// A word that the template compares or builds a control token from: a message's role, a mapping's key.
    Word,
}

/// The spellings to guard, prepared once for a template.
#[derive(Debug)]
pub(super) struct ControlTokens {
    spellings: Vec<String>,
    matcher: Option<AhoCorasick>,
    heads: HashSet<String>,
    tails: HashSet<String>,
    longest: usize,
}

impl ControlTokens {
    pub(super) fn new(spellings: &[String]) -> Self {
        let spellings: Vec<String> =
            spellings.iter().filter(|text| !text.trim().is_empty()).cloned().collect();
        let (mut heads, mut tails, mut longest) = (HashSet::new(), HashSet::new(), 0);
        for spelling in &spellings {
            longest = longest.max(spelling.len());
            for (at, _) in spelling.char_indices().skip(1) {
                heads.insert(spelling[..at].to_owned());
                tails.insert(spelling[at..].to_owned());
            }
        }
        let matcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&spellings).ok();
        Self { spellings, matcher, heads, tails, longest }
    }

    fn spelled_in(&self, text: &str) -> bool {
        self.matcher.as_ref().is_some_and(|matcher| matcher.is_match(text))
    }

    /// The longest end of `text` that starts a control token, trailing white space aside.
    fn open_end(&self, text: &str) -> Option<Range<usize>> {
        let text = text.trim_end();
        let mut starts = text.char_indices().map(|(at, _)| at).filter(|at| text.len() - at < self.longest);
        starts.find(|at| self.heads.contains(&text[*at..])).map(|at| at..text.len())
    }

    /// The longest start of `text` that ends a control token, leading white space aside.
    fn open_start(&self, text: &str) -> Option<Range<usize>> {
        let trimmed = text.trim_start();
        let offset = text.len() - trimmed.len();
        let ends =
            trimmed.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end < self.longest);
        ends.filter(|end| self.tails.contains(&trimmed[..*end])).last().map(|end| offset..offset + end)
    }

    fn is_middle(&self, text: &str) -> bool {
        !text.is_empty() && self.spellings.iter().any(|spelling| spelling.contains(text))
    }

    /// The spans of `text` to guard, in order, without overlap.
    fn spans(&self, text: &str, role: Role, depth: Depth) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = match &self.matcher {
            Some(matcher) => matcher.find_iter(text).map(|found| found.range()).collect(),
            None => Vec::new(),
        };
        if depth == Depth::Edges && role != Role::Word {
            if role == Role::Name && self.is_middle(text) {
                return Vec::from([Range { start: 0, end: text.len() }]);
            }
            if let Some(span) =
                self.open_end(text).filter(|span| !spans.iter().any(|other| overlap(span, other)))
            {
                spans.push(span);
            }
            if let Some(span) =
                self.open_start(text).filter(|span| !spans.iter().any(|other| overlap(span, other)))
            {
                spans.insert(0, span);
            }
        }
        spans
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The guard of one render.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    tokens: &'a ControlTokens,
    depth: Depth,
    placeholders: HashMap<char, char>,
    originals: HashMap<char, char>,
}

impl<'a> Guard<'a> {
    /// A guard for `inputs`, with placeholders that occur neither there nor in `template`.
    pub(super) fn new(
        tokens: &'a ControlTokens,
        depth: Depth,
        inputs: &[&Json],
        template: &str,
    ) -> Result<Self, TemplateError> {
        let mut guard = Self { tokens, depth, placeholders: HashMap::new(), originals: HashMap::new() };
        if !guard.is_needed(inputs) {
            return Ok(guard);
        }
        let mut taken: HashSet<char> = private_use_in(template).collect();
        let mut collect = |text: &str, _| taken.extend(private_use_in(text));
        inputs.iter().for_each(|input| walk(input, Role::Text, &mut collect));
        let mut free =
            ('\u{f0000}'..='\u{ffffd}').chain('\u{100000}'..='\u{10fffd}').filter(|c| !taken.contains(c));
        for original in tokens.spellings.iter().flat_map(|spelling| spelling.chars()) {
            if let Entry::Vacant(entry) = guard.placeholders.entry(original) {
                let placeholder = free.next().ok_or(TemplateError::PrivateUseExhausted)?;
                entry.insert(placeholder);
                guard.originals.insert(placeholder, original);
            }
        }
        Ok(guard)
    }

    /// Whether this depth hides something in `inputs` that a lesser one does not.
    fn is_needed(&self, inputs: &[&Json]) -> bool {
        let mut needed = false;
        let mut look = |text: &str, role| {
            needed |= match self.depth {
                Depth::Whole => self.tokens.spelled_in(text),
                Depth::Edges => {
                    self.tokens.spans(text, role, Depth::Edges) != self.tokens.spans(text, role, Depth::Whole)
                }
            };
        };
        inputs.iter().for_each(|input| walk(input, Role::Text, &mut look));
        needed
    }

    /// Whether this guard hides more than a lesser one would.
    pub(super) fn is_active(&self) -> bool {
        !self.placeholders.is_empty()
    }

    /// `text` with its guarded spans spelled in placeholders.
    pub(super) fn hide<'t>(&self, text: &'t str, role: Role) -> Cow<'t, str> {
        if !self.is_active() {
            return Cow::Borrowed(text);
        }
        let spans = self.tokens.spans(text, role, self.depth);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len() * 2);
        let mut done = 0;
        for span in spans {
            out.push_str(&text[done..span.start]);
            out.extend(text[span.clone()].chars().map(|c| *self.placeholders.get(&c).unwrap_or(&c)));
            done = span.end;
        }
        out.push_str(&text[done..]);
        Cow::Owned(out)
    }

    /// The rendered text in its true spelling, and the byte ranges that placeholders stood for.
    pub(super) fn reveal(&self, rendered: String) -> (String, Vec<Range<usize>>) {
        if !self.is_active() {
            return (rendered, Vec::new());
        }
        let mut text = String::with_capacity(rendered.len());
        let mut literal: Vec<Range<usize>> = Vec::new();
        for c in rendered.chars() {
            let start = text.len();
            match self.originals.get(&c) {
                None => text.push(c),
                Some(original) => {
                    text.push(*original);
                    match literal.last_mut() {
                        Some(last) if last.end == start => last.end = text.len(),
                        _ => literal.push(start..text.len()),
                    }
                }
            }
        }
        (text, literal)
    }
}

fn private_use_in(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter(|c| *c >= '\u{f0000}')
}

/// The role of the value under `key`.
pub(super) fn role_of(key: &str) -> Role {
    match key {
        "role" | "type" => Role::Word,
        "name" => Role::Name,
        _ => Role::Text,
    }
}

/// Calls `visit` with every string of `json`, keys too.
fn walk(json: &Json, role: Role, visit: &mut impl FnMut(&str, Role)) {
    match json {
        Json::String(text) => visit(text, role),
        Json::Array(items) => items.iter().for_each(|item| walk(item, role, visit)),
        Json::Object(fields) => {
            for (key, value) in fields {
                visit(key, Role::Word);
                walk(value, role_of(key), visit);
            }
        }
        _ => {}
    }
}
