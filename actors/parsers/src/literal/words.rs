//! Words, numbers and whole literals.

use super::{Literal, Progress, Style};
use crate::json::{NotJson, Scanner, append_escaped};
use crate::matcher::{Strict, Symbol};

/// A string of JSON.
pub(crate) fn append_text(text: &str, out: &mut String) {
    out.push('"');
    text.chars().for_each(|character| append_escaped(character, out));
    out.push('"');
}

pub(super) fn append_word(word: &str, style: Style, out: &mut String) -> Result<(), NotJson> {
    match word {
        "True" | "true" => out.push_str("true"),
        "False" | "false" => out.push_str("false"),
        "None" | "null" => out.push_str("null"),
        _ if is_number(word) => out.push_str(word),
        _ => match (python_number(word), style) {
            (Some(number), _) => out.push_str(&number),
            (None, Style::Braced { .. }) => append_text(word, out),
            (None, Style::Python) => return Err(NotJson),
        },
    }
    Ok(())
}

/// Is this a number of JSON?
fn is_number(word: &str) -> bool {
    let mut scanner = Scanner::default();
    let digits = word.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    // The bracket after it ends the number; a list around it makes that well-formed.
    digits
        && "[".chars().chain(word.chars()).chain("]".chars()).all(|c| scanner.feed(c).is_ok())
        && scanner.is_done()
}

/// A number that Python writes otherwise than JSON: `1_000`, `.5`, `5.`, `+1`.
fn python_number(word: &str) -> Option<String> {
    let plain = word.replace('_', "");
    let starts = plain
        .trim_start_matches(['+', '-'])
        .starts_with(|first: char| first == '.' || first.is_ascii_digit());
    if !starts {
        return None;
    }
    if is_number(plain.trim_start_matches('+')) {
        return Some(plain.trim_start_matches('+').to_owned());
    }
    let number = serde_json::Number::from_f64(plain.parse().ok()?)?;
    Some(number.to_string())
}

/// The JSON of a whole literal of Python, if the text is one.
pub(crate) fn python_to_json(text: &str) -> Option<String> {
    let (mut literal, mut out, strict) = (Literal::new(Style::Python), String::new(), Strict::default());
    let mut progress = Progress::More;
    for character in text.trim().chars() {
        if progress != Progress::More {
            return None;
        }
        progress = literal.feed(Symbol::Char(character), &strict, &mut out).ok()?;
    }
    // A word ends with what follows it.
    match progress {
        Progress::More => match literal.feed(Symbol::Char('\n'), &strict, &mut out).ok()? {
            Progress::DoneBefore => Some(out),
            Progress::More | Progress::Done => None,
        },
        Progress::Done => Some(out),
        Progress::DoneBefore => None,
    }
}
