//! `tojson`: Python's `json.dumps` over template values, with the defaults that `transformers` sets.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// The deepest nesting that is written; deeper values are refused.
const MAX_DEPTH: usize = 200;
/// The widest indent that is written. A template that asks for more is hostile.
const MAX_INDENT: usize = 64;
/// Bytes of output that cost one unit of fuel, as in the engine's own filters.
const BYTES_PER_FUEL: usize = 64;

/// The filter. Positional arguments in the order of `transformers`: ensure_ascii, indent, separators.
pub(super) fn tojson(
    state: &State,
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let ensure_ascii = ensure_ascii.or(options.get("ensure_ascii")?).unwrap_or(false);
    let indent = indent_unit(indent.or(options.get("indent")?))?;
    let (item, key) = separators(options.get("separators")?, indent.is_some())?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut writer =
        Writer { out: String::new(), paid: 0, state, ensure_ascii, indent, item, key, sort_keys };
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

fn refuse(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn indent_unit(indent: Option<Value>) -> Result<Option<String>, Error> {
    let Some(indent) = indent.filter(|value| !value.is_none() && !value.is_undefined()) else {
        return Ok(None);
    };
    if let Some(text) = indent.as_str() {
        return match text.len() {
            0..=MAX_INDENT => Ok(Some(text.to_owned())),
            _ => Err(refuse("tojson indent is too wide")),
        };
    }
    match i128::try_from(indent).map_err(|_| refuse("tojson indent is not a number or a string"))? {
        width if width <= 0 => Ok(Some(String::new())),
        width => match usize::try_from(width) {
            Ok(width) if width <= MAX_INDENT => Ok(Some(" ".repeat(width))),
            _ => Err(refuse("tojson indent is too wide")),
        },
    }
}

fn separators(given: Option<Value>, indented: bool) -> Result<(String, String), Error> {
    let Some(given) = given.filter(|value| !value.is_none() && !value.is_undefined()) else {
        return Ok((if indented { "," } else { ", " }.to_owned(), ": ".to_owned()));
    };
    let parts: Vec<Value> = given.try_iter()?.collect();
    match parts.as_slice() {
        [item, key] => match (item.as_str(), key.as_str()) {
            (Some(item), Some(key)) => Ok((item.to_owned(), key.to_owned())),
            _ => Err(refuse("tojson separators are not strings")),
        },
        _ => Err(refuse("tojson separators are not a pair")),
    }
}

struct Writer<'a> {
    out: String,
    paid: usize,
    state: &'a State<'a, 'a>,
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(refuse("tojson value is nested too deeply"));
        }
        self.pay()?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Map => self.map(value, depth)?,
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            other => return Err(refuse(format!("value of kind {other} is not JSON serializable"))),
        }
        Ok(())
    }

    /// Charges the render for what was written since the last call.
    fn pay(&mut self) -> Result<(), Error> {
        let owed = (self.out.len() - self.paid) / BYTES_PER_FUEL;
        self.paid += owed * BYTES_PER_FUEL;
        self.state.consume_fuel(owed as u64 + 1)
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut empty = true;
        self.out.push('[');
        for item in value.try_iter()? {
            self.separate(empty, depth);
            empty = false;
            self.value(&item, depth + 1)?;
        }
        self.close(empty, depth, ']');
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        let mut empty = true;
        self.out.push('{');
        for key in keys {
            self.separate(empty, depth);
            empty = false;
            match key.kind() {
                ValueKind::String => self.string(key.as_str().unwrap_or_default()),
                ValueKind::None => self.out.push_str("\"null\""),
                ValueKind::Bool => self.out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" }),
                ValueKind::Number => self.string(&number(&key)),
                other => return Err(refuse(format!("a key of kind {other} is not JSON serializable"))),
            }
            let separator = self.key.clone();
            self.out.push_str(&separator);
            self.value(&value.get_item(&key)?, depth + 1)?;
        }
        self.close(empty, depth, '}');
        Ok(())
    }

    fn separate(&mut self, first: bool, depth: usize) {
        if !first {
            let separator = self.item.clone();
            self.out.push_str(&separator);
        }
        self.newline(depth + 1);
    }

    fn close(&mut self, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.newline(depth);
        }
        self.out.push(bracket);
    }

    fn newline(&mut self, depth: usize) {
        if let Some(unit) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(unit);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' '
                    || (self.ensure_ascii && !(' '..='\u{7e}').contains(&c) && !is_private_use(c)) =>
                {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// Characters that may stand for a control token's spelling (see `guard`) must reach the output as they are.
fn is_private_use(c: char) -> bool {
    matches!(c, '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}')
}

/// A number as Python's `json` writes it.
pub(super) fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) if float.is_nan() => "NaN".to_owned(),
        Ok(float) if float.is_infinite() => if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Ok(float) => python_float(float),
        Err(_) => value.to_string(),
    }
}

/// `repr(float)`: the shortest digits, in scientific notation below 1e-4 and from 1e16 on.
pub(super) fn python_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        0 if float == 0.0 => if float.is_sign_negative() { "-0.0" } else { "0.0" }.to_owned(),
        exponent if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => {
            let plain = float.to_string();
            if plain.contains('.') { plain } else { format!("{plain}.0") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::python_float;

    #[test]
    fn floats_print_as_in_python() {
        for (float, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (-2.5e300, "-2.5e+300"),
        ] {
            assert_eq!(python_float(float), expected);
        }
    }
}
