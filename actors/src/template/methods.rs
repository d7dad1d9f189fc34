//! Python's methods on template values, where the engine's own compatibility layer lacks them or differs.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// Called by the engine for a method that it does not know.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let ours = match value.kind() {
        ValueKind::String => string_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Map => map_method(value, method, args)?,
        ValueKind::Seq | ValueKind::Iterable => sequence_method(value, method, args)?,
        _ => None,
    };
    match ours {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// `str.isspace` of Python: Unicode white space and the four information separators.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn value_error(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Value::from(strip(text, method, chars))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            partition(text, separator, method == "rpartition")?
        }
        "split" | "rsplit" => {
            let (separator, limit, options): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
            let separator = separator.or(options.get("sep")?).filter(|value| !value.is_none());
            let limit = limit.or(options.get("maxsplit")?).unwrap_or(-1);
            options.assert_all_used()?;
            split(text, separator, limit, method == "rsplit")?
        }
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            split_lines(text, keep.unwrap_or(false))
        }
        "index" | "rindex" => {
            let (needle,): (&str,) = from_args(args)?;
            let found = if method == "index" { text.find(needle) } else { text.rfind(needle) };
            let at = found.ok_or_else(|| value_error("substring not found"))?;
            Value::from(text[..at].chars().count())
        }
        "casefold" => Value::from(text.to_lowercase()),
        "swapcase" => Value::from(text.chars().flat_map(swap_case).collect::<String>()),
        "isdecimal" => Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())),
        "ljust" | "rjust" | "center" | "zfill" => pad(text, method, args)?,
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn strip<'a>(text: &'a str, method: &str, chars: Option<&str>) -> &'a str {
    let strips = |c: char| chars.map_or_else(|| is_space(c), |set| set.contains(c));
    match method {
        "lstrip" => text.trim_start_matches(strips),
        "rstrip" => text.trim_end_matches(strips),
        _ => text.trim_matches(strips),
    }
}

fn partition(text: &str, separator: &str, from_end: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(value_error("empty separator"));
    }
    let found = if from_end { text.rsplit_once(separator) } else { text.split_once(separator) };
    Ok(match (found, from_end) {
        (Some((before, after)), _) => Value::from((before, separator, after)),
        (None, false) => Value::from((text, "", "")),
        (None, true) => Value::from(("", "", text)),
    })
}

fn split(text: &str, separator: Option<Value>, limit: i64, from_end: bool) -> Result<Value, Error> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX - 1);
    let Some(separator) = separator else {
        return Ok(split_space(text, limit, from_end));
    };
    let separator = separator.as_str().ok_or_else(|| value_error("separator is not a string"))?;
    if separator.is_empty() {
        return Err(value_error("empty separator"));
    }
    Ok(if from_end {
        let mut parts: Vec<&str> = text.rsplitn(limit + 1, separator).collect();
        parts.reverse();
        Value::from_iter(parts)
    } else {
        Value::from_iter(text.splitn(limit + 1, separator))
    })
}

/// `split()` without a separator: runs of white space, none at the ends.
fn split_space(text: &str, limit: usize, from_end: bool) -> Value {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    while !rest.is_empty() {
        let cut = if from_end { rest.rfind(is_space) } else { rest.find(is_space) };
        match cut.filter(|_| parts.len() < limit) {
            None => {
                parts.push(rest);
                break;
            }
            Some(at) if from_end => {
                parts.push(rest[at..].trim_start_matches(is_space));
                rest = rest[..at].trim_end_matches(is_space);
            }
            Some(at) => {
                parts.push(&rest[..at]);
                rest = rest[at..].trim_start_matches(is_space);
            }
        }
    }
    if from_end {
        parts.reverse();
    }
    Value::from_iter(parts)
}

fn split_lines(text: &str, keep_ends: bool) -> Value {
    let is_break = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_break) {
        let length = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(0, char::len_utf8)
        };
        lines.push(&rest[..if keep_ends { at + length } else { at }]);
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    Value::from_iter(lines)
}

fn swap_case(c: char) -> Vec<char> {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

/// The widest field that a template may pad to.
const MAX_WIDTH: usize = 4096;

fn pad(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (usize, Option<char>) = from_args(args)?;
    if width > MAX_WIDTH {
        return Err(value_error("field is too wide"));
    }
    let missing = width.saturating_sub(text.chars().count());
    let fill_text = |count: usize| fill.unwrap_or(' ').to_string().repeat(count);
    Ok(Value::from(match method {
        "ljust" => format!("{text}{}", fill_text(missing)),
        "rjust" => format!("{}{text}", fill_text(missing)),
        "center" => {
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", fill_text(left), fill_text(missing - left))
        }
        _ => {
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            format!("{sign}{}{digits}", "0".repeat(missing))
        }
    }))
}

fn map_method(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" => {
            let () = from_args(args)?;
            Ok(Some(value.clone()))
        }
        _ => Ok(None),
    }
}

fn sequence_method(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" => {
            let () = from_args(args)?;
            Ok(Some(value.clone()))
        }
        "index" => {
            let (wanted,): (&Value,) = from_args(args)?;
            let at = value.try_iter()?.position(|item| item == *wanted);
            at.map(|at| Some(Value::from(at))).ok_or_else(|| value_error("value is not in list"))
        }
        _ => Ok(None),
    }
}
