//! A grammar as Lark text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use troupe_protocol::TokenId;

use super::Term;
use crate::guide::compact;

/// The grammar's text, whose first rule is `start`. `control` are the control tokens with their spellings; where one is
/// spelled, the token is meant, since text is never read as one.
pub fn lark(grammar: &Term, control: &[(String, TokenId)]) -> String {
    let mut writer = Writer { control, rules: String::new(), names: BTreeMap::new() };
    let start = writer.term(grammar);
    format!("start: {start}\n{}", writer.rules)
}

struct Writer<'a> {
    control: &'a [(String, TokenId)],
    /// All rules but the first.
    rules: String,
    /// Their names, by what stands behind the name.
    names: BTreeMap<String, String>,
}

impl Writer<'_> {
    fn term(&mut self, term: &Term) -> String {
        match term {
            Term::Text(text) => self.text(text),
            Term::Json(schema) => self.rule(&format!("%json {}", compact(schema))),
            Term::Until(end) => self.until(end),
            Term::Id => "/[a-zA-Z0-9]{9}/".to_owned(),
            Term::Number => "/[0-9]{1,4}/".to_owned(),
            Term::All(terms) => self.join(terms, " "),
            Term::Any(terms) => format!("({})", self.join(terms, " | ")),
            Term::Maybe(term) => format!("({})?", self.term(term)),
            Term::Many(term, separator) => self.many(term, separator),
            Term::Free(begun) => self.free(begun),
        }
    }

    /// The separator and the text that an item begins with are one lexeme: alone, the separator would be taken for the
    /// beginning of what may follow the last item, and the lexer does not go back.
    fn many(&mut self, term: &Term, separator: &str) -> String {
        let (head, rest) = match term {
            Term::All(terms) => match terms.split_first() {
                Some((Term::Text(head), rest)) => (head.as_str(), Term::All(rest.to_vec())),
                _ => ("", term.clone()),
            },
            other => ("", other.clone()),
        };
        let rest = self.term(&rest);
        let rest = self.rule(&rest);
        let first = if head.is_empty() { String::new() } else { format!("{} ", self.text(head)) };
        format!("{first}{rest} ({} {rest})*", self.text(&format!("{separator}{head}")))
    }

    /// Control tokens that no marker holds may stand in the text as well.
    fn free(&mut self, begun: &[(String, Term)]) -> String {
        let is_of_a_marker = |spelling: &str| begun.iter().any(|(marker, _)| marker.contains(spelling));
        let passing = self.control.iter().filter(|(spelling, _)| !is_of_a_marker(spelling));
        let passing: Vec<String> = passing.map(|(_, token)| format!("<[{token}]>")).collect();
        let some = self.rule("/(?s:.*)/");
        let before = match passing.is_empty() {
            true => String::new(),
            false => format!("({some} ({}))* ", passing.join(" | ")),
        };
        let calls: Vec<String> = begun
            .iter()
            .map(|(marker, term)| format!("{before}{} {}", self.until(marker), self.term(term)))
            .collect();
        format!("({})* {before}{some}", calls.join(" | "))
    }

    fn join(&mut self, terms: &[Term], separator: &str) -> String {
        let terms: Vec<String> = terms.iter().map(|term| self.term(term)).collect();
        terms.join(separator)
    }

    fn rule(&mut self, body: &str) -> String {
        self.define(format!(": {body}"))
    }

    /// The name of the rule that reads so behind its name.
    fn define(&mut self, rest: String) -> String {
        let count = self.names.len();
        let rules = &mut self.rules;
        let name = self.names.entry(rest).or_insert_with_key(|rest| {
            let name = format!("r{count}");
            // Writing to a string does not fail.
            let _ = writeln!(rules, "{name}{rest}");
            name
        });
        name.clone()
    }

    /// Text up to an end. What begins with a control token ends any text, since no text holds one.
    fn until(&mut self, end: &str) -> String {
        if self.control.iter().any(|(spelling, _)| end.starts_with(spelling)) {
            return format!("/(?s:.*)/ {}", self.text(end));
        }
        self.define(format!("[suffix={}]: /(?s:.*)/", quoted(end)))
    }

    fn text(&self, text: &str) -> String {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((at, spelling, token)) = self.first_control(rest) {
            if at > 0 {
                parts.push(quoted(&rest[..at]));
            }
            parts.push(format!("<[{token}]>"));
            rest = &rest[at + spelling..];
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(quoted(rest));
        }
        parts.join(" ")
    }

    /// The first control token that a text spells, the longest of several: where, its length, and the token.
    fn first_control(&self, text: &str) -> Option<(usize, usize, TokenId)> {
        let found = self.control.iter().filter(|(spelling, _)| !spelling.is_empty());
        let found =
            found.filter_map(|(spelling, token)| Some((text.find(spelling)?, spelling.len(), *token)));
        found.min_by_key(|&(at, length, _)| (at, usize::MAX - length))
    }
}

/// A string as Lark writes it, which is as JSON does.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
