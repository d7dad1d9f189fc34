//! The tools of a chat request: `tools`, `tool_choice` and `parallel_tool_calls`.

use serde_json::{Value, json};
use troupe_actors::output_syntax::OutputSyntax;
use troupe_actors::parsers::{CallPlace, Tool};
use troupe_actors::session::CallLimit;

use super::error::{ApiError, echo};
use super::fields::{Fields, to_list, to_string, wrong_type};
use super::response_format::Format;

mod held;

/// The most tools of one request.
pub(super) const MAX_TOOLS: usize = 128;
/// The most characters of a tool's name.
pub(super) const MAX_NAME: usize = 64;
/// The most bytes of the schema of a tool's parameters, as compact JSON.
pub(super) const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// What templates read of a function beside what OpenAI defines: what it gives back, under the names of two families.
const OF_RESULTS: [&str; 2] = ["return", "response"];

/// What a request offers to the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Toolbox {
    /// Definitions for the template, in OpenAI's shape; none if nothing may be called.
    pub(super) definitions: Vec<Value>,
    /// What may be called.
    pub(super) callable: Vec<Tool>,
    /// Where in the answer calls are looked for.
    pub(super) place: CallPlace,
    /// How many calls the answer may hold.
    pub(super) calls: CallLimit,
    /// What the answer is held to.
    pub(super) format: Option<Format>,
}

/// Which calls the client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// None.
    None,
    /// As the model sees fit, of these tools; of all if there is no list.
    Auto(Option<Vec<String>>),
    /// At least one, of these tools; of all if there is no list.
    Required(Option<Vec<String>>),
    /// One, of this tool.
    Named(String),
}

/// A tool that is defined.
#[derive(Clone, Debug, PartialEq)]
struct Definition {
    /// Where it stands in the request.
    param: String,
    /// As the template gets it.
    value: Value,
    tool: Tool,
    /// Whether the client counts on its schema.
    is_strict: bool,
}

/// Takes the fields. `asked` is the format that the request asks for.
///
/// # Errors
/// The first field that is wrong, by name; tools for a model that cannot call any; a format that contradicts a choice.
pub(super) fn read(
    fields: &mut Fields,
    output: &OutputSyntax,
    asked: Option<Format>,
) -> Result<Toolbox, ApiError> {
    let tools = read_definitions(fields)?;
    let names: Vec<&str> = tools.iter().map(|tool| tool.tool.name.as_str()).collect();
    let choice = read_choice(fields, &names)?;
    let calls = match fields.bool("parallel_tool_calls")? {
        Some(false) => CallLimit::One,
        Some(true) | None => CallLimit::Any,
    };
    let (allowed, calls, has_to_call) = match choice {
        Choice::None => return Ok(Toolbox { format: asked, ..Toolbox::default() }),
        _ if output.format.is_none() => {
            return Err(unsupported(
                "tools",
                "this model's chat template writes no tool calls; send tool_choice \"none\", or none at all",
            ));
        }
        Choice::Auto(allowed) => (allowed, calls, false),
        Choice::Required(allowed) => (allowed, calls, true),
        Choice::Named(name) => (Some(vec![name]), CallLimit::One, true),
    };
    let is_allowed = |name: &String| allowed.as_ref().is_none_or(|names| names.contains(name));
    let callable: Vec<&Definition> =
        tools.iter().filter(|definition| is_allowed(&definition.tool.name)).collect();
    let (format, place) = match asked {
        asked if has_to_call => {
            (Some(held::answer(output, &callable, calls, asked.as_ref())?), Some(CallPlace::Anywhere))
        }
        Some(asked) => {
            let (format, place) = held::calls_or(output, &callable, calls, asked)?;
            (Some(format), place)
        }
        None => (held::calls(output, &callable, calls)?, Some(CallPlace::Anywhere)),
    };
    // What looks like a call in an answer that may hold none is none.
    let callable = callable.into_iter().filter(|_| place.is_some());
    Ok(Toolbox {
        definitions: tools.iter().map(|definition| definition.value.clone()).collect(),
        callable: callable.map(|definition| definition.tool.clone()).collect(),
        place: place.unwrap_or_default(),
        calls,
        format,
    })
}

/// Takes `tools`, for their definitions alone.
///
/// # Errors
/// The first that is wrong, by name.
pub(super) fn definitions(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    Ok(read_definitions(fields)?.into_iter().map(|definition| definition.value).collect())
}

fn read_definitions(fields: &mut Fields) -> Result<Vec<Definition>, ApiError> {
    let Some(tools) = fields.take("tools") else { return Ok(Vec::new()) };
    let tools = to_list("tools", tools)?;
    if tools.len() > MAX_TOOLS {
        return Err(ApiError::invalid("tools", format!("{} are more than {MAX_TOOLS}", tools.len())));
    }
    let mut read: Vec<Definition> = Vec::with_capacity(tools.len());
    for (index, tool) in tools.into_iter().enumerate() {
        let param = format!("tools[{index}]");
        let definition = read_definition(&param, tool)?;
        let name = &definition.tool.name;
        if read.iter().any(|other| other.tool.name == *name) {
            let reason = format!("a tool of the name {name:?} is there already");
            return Err(ApiError::invalid(format!("{param}.function.name"), reason));
        }
        read.push(definition);
    }
    Ok(read)
}

/// A definition: the function of a tool.
fn read_definition(param: &str, tool: Value) -> Result<Definition, ApiError> {
    let mut fields = Fields::of(tool, param)?;
    let function = take_function(&mut fields).map_err(|error| error.within(param))?;
    let definition = read_function(format!("{param}.function"), function)?;
    fields.finish(&[]).map_err(|error| error.within(param))?;
    Ok(definition)
}

fn take_function(fields: &mut Fields) -> Result<Value, ApiError> {
    match to_string("type", fields.required("type")?)?.as_str() {
        "function" => {}
        other => {
            let reason = format!("tools of type \"function\" are served, not {:?}", echo(other));
            return Err(unsupported("type", reason));
        }
    }
    if fields.bool("strict")?.unwrap_or(false) {
        return Err(ApiError::invalid("strict", "it belongs into function"));
    }
    fields.required("function")
}

/// A function, which always has parameters and does not say `strict`, which is nothing to a template.
fn read_function(param: String, function: Value) -> Result<Definition, ApiError> {
    let Value::Object(mut function) = function else {
        return Err(wrong_type(&param, "an object", &function));
    };
    let within = |error: ApiError| error.within(&param);
    let mut fields = Fields::of(Value::Object(function.clone()), &param)?;
    let name = to_string("name", fields.required("name").map_err(within)?).map_err(within)?;
    check_name(&format!("{param}.name"), &name)?;
    fields.string("description").map_err(within)?;
    let is_strict = fields.bool("strict").map_err(within)?.unwrap_or(false);
    let parameters = fields.object("parameters").map_err(within)?;
    for name in OF_RESULTS {
        fields.take(name);
    }
    fields.finish(&[]).map_err(within)?;
    // What leaves them out takes none.
    let parameters = parameters.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object);
    check_schema(&format!("{param}.parameters"), &parameters)?;
    function.shift_remove("strict");
    function.insert("parameters".to_owned(), parameters.clone());
    let value = json!({"type": "function", "function": function});
    Ok(Definition { param, value, tool: Tool { name, parameters }, is_strict })
}

fn check_name(param: &str, name: &str) -> Result<(), ApiError> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_fine) {
        return Ok(());
    }
    let reason = format!("{:?} is not of 1 to {MAX_NAME} letters, digits, _ and -", echo(name));
    Err(ApiError::invalid(param, reason))
}

fn check_schema(param: &str, schema: &Value) -> Result<(), ApiError> {
    if let Some(kind) = schema.get("type").filter(|kind| *kind != "object") {
        let reason = format!("the schema is of type {}, not \"object\"", echo(&kind.to_string()));
        return Err(ApiError::invalid(format!("{param}.type"), reason));
    }
    match schema.to_string().len() {
        bytes if bytes > MAX_SCHEMA_BYTES => {
            Err(ApiError::invalid(param, format!("{bytes} bytes are more than {MAX_SCHEMA_BYTES}")))
        }
        _ => Ok(()),
    }
}

fn read_choice(fields: &mut Fields, names: &[&str]) -> Result<Choice, ApiError> {
    let choice = match fields.take("tool_choice") {
        None => Choice::Auto(None),
        Some(Value::String(word)) => match word.as_str() {
            "none" => Choice::None,
            "auto" => Choice::Auto(None),
            "required" => Choice::Required(None),
            other => {
                let reason = format!("{:?} is not one of none, auto, required", echo(other));
                return Err(ApiError::invalid("tool_choice", reason));
            }
        },
        Some(object @ Value::Object(_)) => read_choice_object(object, names)?,
        Some(other) => return Err(wrong_type("tool_choice", "a string or an object", &other)),
    };
    match choice {
        Choice::Required(_) | Choice::Named(_) if names.is_empty() => {
            Err(ApiError::invalid("tool_choice", "it is allowed only with tools"))
        }
        _ if names.is_empty() => Ok(Choice::None),
        choice => Ok(choice),
    }
}

/// `{"type": "function", …}` or `{"type": "allowed_tools", …}`.
fn read_choice_object(value: Value, names: &[&str]) -> Result<Choice, ApiError> {
    let within = |error: ApiError| error.within("tool_choice");
    let mut fields = Fields::of(value, "tool_choice")?;
    let kind = to_string("type", fields.required("type").map_err(within)?).map_err(within)?;
    let choice = match kind.as_str() {
        "function" => Choice::Named(named(&mut fields, names).map_err(within)?),
        "allowed_tools" => {
            let param = "tool_choice.allowed_tools";
            let allowed = fields.required("allowed_tools").map_err(within)?;
            allowed_tools(Fields::of(allowed, param)?, names).map_err(|error| error.within(param))?
        }
        other => {
            let reason = format!(
                "choices of type \"function\" and \"allowed_tools\" are served, not {:?}",
                echo(other)
            );
            return Err(unsupported("tool_choice.type", reason));
        }
    };
    fields.finish(&[]).map_err(within)?;
    Ok(choice)
}

fn allowed_tools(mut fields: Fields, names: &[&str]) -> Result<Choice, ApiError> {
    let mode = to_string("mode", fields.required("mode")?)?;
    let tools = to_list("tools", fields.required("tools")?)?;
    if tools.is_empty() {
        return Err(ApiError::invalid("tools", "it is an empty array"));
    }
    let read = |(index, tool): (usize, Value)| {
        let param = format!("tools[{index}]");
        allowed_tool(Fields::of(tool, &param)?, names).map_err(|error| error.within(&param))
    };
    let allowed = tools.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    fields.finish(&[])?;
    match mode.as_str() {
        "auto" => Ok(Choice::Auto(Some(allowed))),
        "required" => Ok(Choice::Required(Some(allowed))),
        other => Err(ApiError::invalid("mode", format!("{:?} is not one of auto, required", echo(other)))),
    }
}

/// `{"type": "function", "function": {"name": …}}`.
fn allowed_tool(mut fields: Fields, names: &[&str]) -> Result<String, ApiError> {
    match fields.string("type")?.as_deref() {
        None | Some("function") => {}
        Some(other) => {
            let reason = format!("tools of type \"function\" are served, not {:?}", echo(other));
            return Err(unsupported("type", reason));
        }
    }
    let name = named(&mut fields, names)?;
    fields.finish(&[])?;
    Ok(name)
}

/// The name in `"function": {"name": …}`, which has to be one of `names`.
fn named(fields: &mut Fields, names: &[&str]) -> Result<String, ApiError> {
    let within = |error: ApiError| error.within("function");
    let mut function = Fields::of(fields.required("function")?, "function")?;
    let name = to_string("name", function.required("name").map_err(within)?).map_err(within)?;
    if names.contains(&name.as_str()) {
        return function.finish(&[]).map_err(within).map(|()| name);
    }
    Err(ApiError::invalid("function.name", format!("{:?} is the name of no tool in tools", echo(&name))))
}

fn unsupported(param: impl Into<String>, reason: impl Into<String>) -> ApiError {
    ApiError::Unsupported { param: param.into(), reason: reason.into() }
}

#[cfg(test)]
mod tests;
