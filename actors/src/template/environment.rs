//! The engine's environment: Jinja as `transformers` sets it up.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use super::error::{Raised, TemplateError};
use super::{json, methods, print, source};

/// The work that one render may do, in the engine's fuel: about one unit for an instruction and one for each 64 bytes
/// made. Templates that build their text by concatenation take some million for two thousand messages; one that loops
/// for ever is ended in about a second.
pub const RENDER_FUEL: u64 = 20_000_000;

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
    env.add_test("sequence", is_sequence);
    env.add_test("iterable", is_iterable);
    env.add_test("integer", |value: &Value| value.is_integer() && value.kind() == ValueKind::Number);
    env.add_function("raise_exception", raise_exception);
    env.add_template_owned(TEMPLATE_NAME, source::replace_generation_tags(template))
        .map_err(|error| TemplateError::from_syntax(&error))?;
    Ok(env)
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(Raised(message)))
}

/// Python's `str.strip`, which also takes the information separators for white space.
fn trim(value: &Value, chars: Option<&str>) -> Value {
    let text = print::str(value);
    Value::from(match chars {
        Some(set) => text.trim_matches(|c| set.contains(c)),
        None => text.trim_matches(methods::is_space),
    })
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
