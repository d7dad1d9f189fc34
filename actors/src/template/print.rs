//! Python's `str()` and `repr()` of template values, where the engine's own printing differs: floats in scientific
//! notation, undefined values inside containers, and characters that Python escapes.

use std::fmt::Write;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value};

use super::convert::Arguments;
use super::json;

/// The deepest nesting that is printed; deeper values print as the engine prints them.
const MAX_DEPTH: usize = 100;

/// Bytes of a printed value that cost one unit of fuel, as where the engine itself prints one.
const BYTES_PER_FUEL: usize = 4;
/// Fuel that each value in it costs beside.
const FUEL_PER_VALUE: u64 = 32;

/// The environment's formatter: what `{{ value }}` prints.
pub(super) fn format(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Number => {
            let text = str(state, value)?;
            out.write_str(&text).map_err(|_| Error::new(ErrorKind::WriteFailure, "write failed"))
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// The `string` filter.
pub(super) fn string(state: &State, value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.clone()),
        _ => str(state, value).map(Value::from),
    }
}

/// `str(value)`, paid for as it grows: a list that holds the same list twice, and so on, is short itself and long in
/// print.
pub(super) fn str(state: &State, value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Number => {
            let mut printer = Printer { out: String::new(), paid: 0, state };
            printer.repr(value, 0)?;
            Ok(printer.out)
        }
        _ => Ok(value.to_string()),
    }
}

struct Printer<'a> {
    out: String,
    paid: usize,
    state: &'a State<'a, 'a>,
}

impl Printer<'_> {
    fn repr(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let owed = (self.out.len() - self.paid) / BYTES_PER_FUEL;
        self.paid += owed * BYTES_PER_FUEL;
        self.state.consume_fuel(owed as u64 + FUEL_PER_VALUE)?;
        if let Some(arguments) = value.downcast_object_ref::<Arguments>() {
            self.out.push_str(arguments.text());
            return Ok(());
        }
        match value.kind() {
            ValueKind::Undefined => self.out.push_str("Undefined"),
            ValueKind::Number if !value.is_integer() => self.out.push_str(&float(value)),
            ValueKind::String => string_repr(&mut self.out, value.as_str().unwrap_or_default()),
            ValueKind::Seq if depth < MAX_DEPTH => self.sequence(value, depth)?,
            ValueKind::Map if depth < MAX_DEPTH => self.map(value, depth)?,
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(self.out, "{value:?}");
            }
        }
        Ok(())
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let is_tuple = value.downcast_object_ref::<Tuple>().is_some();
        self.out.push(if is_tuple { '(' } else { '[' });
        let mut count = 0;
        for item in value.try_iter().into_iter().flatten() {
            if count > 0 {
                self.out.push_str(", ");
            }
            self.repr(&item, depth + 1)?;
            count += 1;
        }
        self.out.push_str(match (is_tuple, count) {
            (true, 1) => ",)",
            (true, _) => ")",
            (false, _) => "]",
        });
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('{');
        for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.repr(&key, depth + 1)?;
            self.out.push_str(": ");
            self.repr(&value.get_item(&key).unwrap_or_default(), depth + 1)?;
        }
        self.out.push('}');
        Ok(())
    }
}

fn float(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if float.is_nan() => "nan".to_owned(),
        Ok(float) if float.is_infinite() => if float > 0.0 { "inf" } else { "-inf" }.to_owned(),
        Ok(float) => json::python_float(float),
        Err(_) => value.to_string(),
    }
}

/// `repr(str)`. Private-use characters, which Python would escape, stay: they may stand for a control token's
/// spelling (see `guard`).
fn string_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_unprintable(c) => {
                let code = u32::from(c);
                let escaped = match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                };
                out.push_str(&escaped);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Controls, format characters in common use and separators other than the space.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
