//! The engine's environment: Jinja as `transformers` sets it up.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};

use super::error::{Raised, TemplateError};
use super::{json, methods, operands, print, source};

/// The work that one render may do, in the engine's fuel: about one unit for an instruction and one for each 64 bytes
/// made, so that all texts that are made take 512 MB at most. Templates that build their text by concatenation take some
/// million for two thousand messages; one that loops for ever is ended in less than a second.
pub const RENDER_FUEL: u64 = 8_000_000;

/// The name under which the environment holds its one template.
pub(super) const TEMPLATE_NAME: &str = "chat_template";

/// Compiles `template` into an environment that holds nothing else.
pub(super) fn compile(template: &str) -> Result<Environment<'static>, TemplateError> {
    let mut env = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    env.set_syntax(syntax.build().map_err(|error| TemplateError::from_syntax(&error))?);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_fuel(Some(RENDER_FUEL));
    env.set_unknown_method_callback(methods::call);
    env.set_formatter(print::format);
    env.add_filter("tojson", json::tojson);
    env.add_filter("string", print::string);
    env.add_filter("trim", trim);
    env.add_filter("sum", sum);
    env.add_filter(operands::FILTER, operand);
    // Adds lists as `+` does. Jinja has none.
    env.remove_filter("chain");
    env.add_test("sequence", is_sequence);
    env.add_test("iterable", is_iterable);
    env.add_test("integer", |value: &Value| value.is_integer() && value.kind() == ValueKind::Number);
    env.add_function("raise_exception", raise_exception);
    env.add_template_owned(TEMPLATE_NAME, source::prepare(template))
        .map_err(|error| TemplateError::from_syntax(&error))?;
    Ok(env)
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(Raised(message)))
}

/// A list that is added to another stays lazy up to this length. The engine writes sums out once thirty-two of them
/// hang together, and asks for the fuel only then.
const MAX_LAZY: usize = 16_384;

/// An operand of `+`: what is no list is given back as it is, and so is one that is written out; a lazy one that is
/// long, or of unknown length, is written out and paid for.
fn operand(state: &State, value: &Value) -> Result<Value, Error> {
    match (value.kind(), value.len()) {
        (ValueKind::Iterable, Some(0)) => Ok(Value::from(Vec::<Value>::new())),
        (ValueKind::Iterable, length) if length.is_none_or(|length| length > MAX_LAZY) => {
            write_out(state, value)
        }
        _ => Ok(value.clone()),
    }
}

fn write_out(state: &State, list: &Value) -> Result<Value, Error> {
    let mut entries = Vec::new();
    for entry in list.try_iter()? {
        state.consume_fuel(1)?;
        entries.push(entry);
    }
    Ok(Value::from(entries))
}

/// The engine's own `sum` where it adds numbers. Lists are written out and paid for, as operands of `+` are.
fn sum(
    state: &State,
    values: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let attribute = attribute.or(options.get("attribute")?);
    let start = start.or(options.get("start")?);
    options.assert_all_used()?;
    let is_list = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    let Some(list) = start.as_ref().filter(|start| is_list(start)) else {
        return minijinja::filters::sum(
            state,
            values,
            attribute,
            start,
            Kwargs::from_iter([] as [(&str, Value); 0]),
        );
    };
    let mut lists = vec![write_out(state, list)?];
    for value in values.try_iter()? {
        let list = attribute.map_or_else(|| Ok(value.clone()), |name| value.get_attr(name))?;
        if !is_list(&list) {
            return Err(Error::new(ErrorKind::InvalidOperation, "sum adds lists to lists alone"));
        }
        lists.push(write_out(state, &list)?);
    }
    Ok(lists.iter().flat_map(Value::try_iter).flatten().collect())
}

/// Python's `str.strip`, which also takes the information separators for white space.
fn trim(state: &State, value: &Value, chars: Option<&str>) -> Result<Value, Error> {
    let text = print::str(state, value)?;
    Ok(Value::from(match chars {
        Some(set) => text.trim_matches(|c| set.contains(c)),
        None => text.trim_matches(methods::is_space),
    }))
}

/// Jinja asks for `__len__` and `__getitem__`, which strings, mappings and undefined values have.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::String | ValueKind::Undefined
    )
}

/// Jinja asks for `__iter__`, which `None` lacks.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}
