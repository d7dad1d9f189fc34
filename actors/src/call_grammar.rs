//! The grammar that forces calls: what a format's syntax and the tools' schemas allow, as a tree and as Lark text in the
//! dialect of llguidance. Pure: nothing is compiled or sampled here.
//!
//! Arguments are those of the schema's `properties`, in their order; formats that write JSON leave the rest of the
//! schema to the compiler of `%json`.

mod either;
mod lark;
mod likeness;
mod room;
mod values;

use serde_json::Value as Json;
use thiserror::Error;
use troupe_parsers::{
    CallBody, CallSyntax, HeadField, JsonName, JsonObject, List, NameForm, NamedJson, Parameters, Pythonic,
    Tool,
};

use crate::guide::MAX_GRAMMAR_BYTES;
use crate::session::CallLimit;
use room::Room;
use values::{Property, braced, closed, properties};

pub use either::{beside_json, calls_or_json};
pub use lark::lark;
pub use values::relaxed;

/// Why there is no grammar of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CallGrammarError {
    /// Nothing may be called.
    #[error("there is no tool to call")]
    NoTools,
    /// A format that writes arguments one by one takes a schema apart, so that a short one may become long.
    #[error("the calls of these tools take a grammar of more than {limit} bytes")]
    TooLarge {
        /// The most that there may be.
        limit: usize,
    },
}

/// A part of a grammar.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// This text. Spellings of control tokens in it are these tokens.
    Text(String),
    /// JSON that a schema allows.
    Json(Json),
    /// Any text that ends in this one, and holds it nowhere else.
    Until(String),
    /// Nine letters and digits: the id of a call.
    Id,
    /// A whole number: which call of the answer it is.
    Number,
    /// One after the other.
    All(Vec<Term>),
    /// One of these.
    Any(Vec<Term>),
    /// This or nothing.
    Maybe(Box<Term>),
    /// One or more, with a text between them.
    Many(Box<Term>, String),
    /// Any text. Where it holds one of these markers, the term beside it has to follow, and then text again.
    Free(Vec<(String, Term)>),
}

/// An answer of calls of these tools, one at least, and nothing else.
///
/// The prompt of a format of channels ends in the header of the message; its answer is one call, which the token that
/// ends generation ends.
///
/// # Errors
/// No tools, or more than a grammar may hold.
pub fn calls(syntax: &CallSyntax, tools: &[Tool], limit: CallLimit) -> Result<Term, CallGrammarError> {
    if tools.is_empty() {
        return Err(CallGrammarError::NoTools);
    }
    let each = each(syntax, tools)?;
    if syntax.body == CallBody::Channels {
        return Ok(each);
    }
    let calls = several(syntax, each, limit);
    Ok(match syntax.bare {
        Some(_) => calls,
        None => all([text(syntax.section.begin), calls, text(syntax.section.end)]),
    })
}

/// Any answer, in which calls are whole and of these tools from their marker on. None for formats whose calls may
/// begin without a marker, or in which all is messages.
///
/// # Errors
/// No tools, or more than a grammar may hold.
pub fn free(syntax: &CallSyntax, tools: &[Tool], limit: CallLimit) -> Result<Option<Term>, CallGrammarError> {
    if tools.is_empty() {
        return Err(CallGrammarError::NoTools);
    }
    if syntax.bare.is_some() || syntax.body == CallBody::Channels {
        return Ok(None);
    }
    let each = each(syntax, tools)?;
    let one = all([each.clone(), text(syntax.call.end)]);
    let calls = all([several(syntax, each, limit), text(syntax.section.end)]);
    // What is trimmed at the beginning of a marker is text before it.
    let behind = |begin: &str, term: Term| {
        let begin = begin.trim_start();
        let marker = begin.trim_end();
        (marker.to_owned(), all([text(&begin[marker.len()..]), term]))
    };
    let begun = [behind(syntax.section.begin, calls), behind(syntax.call.begin, one)];
    Ok(Some(Term::Free(begun.into_iter().filter(|(marker, _)| !marker.is_empty()).collect())))
}

/// A call of one of the tools, without what stands around each.
fn each(syntax: &CallSyntax, tools: &[Tool]) -> Result<Term, CallGrammarError> {
    let room = Room::new(MAX_GRAMMAR_BYTES);
    let each = tools.iter().map(|tool| call(&room, syntax, tool)).collect::<Option<Vec<_>>>();
    Ok(Term::Any(each.ok_or(CallGrammarError::TooLarge { limit: MAX_GRAMMAR_BYTES })?))
}

/// All calls of an answer, without what stands around all.
fn several(syntax: &CallSyntax, each: Term, limit: CallLimit) -> Term {
    let call = all([text(syntax.call.begin), each, text(syntax.call.end)]);
    let calls = match limit {
        CallLimit::One => call,
        CallLimit::Any => Term::Many(Box::new(call), syntax.separator.to_owned()),
    };
    let in_list = matches!(
        syntax.body,
        CallBody::JsonObject(JsonObject { list: List::Brackets, .. })
            | CallBody::Pythonic(Pythonic { list: List::Brackets })
    );
    if in_list { all([text("["), calls, text("]")]) } else { calls }
}

/// None if there is no room for it.
fn call(room: &Room, syntax: &CallSyntax, tool: &Tool) -> Option<Term> {
    room.take(tool.name.len())?;
    match syntax.body {
        CallBody::JsonObject(body) => json_object(room, &body, tool),
        CallBody::NamedJson(body) => named(room, &body, tool),
        CallBody::Parameters(body) => parameters(room, &body, tool),
        CallBody::Pythonic(_) => {
            let argument = |property: &Property| {
                let value = room.json(&tool.parameters, property.schema)?;
                Some(all([text(&format!("{}=", property.name)), value]))
            };
            let arguments = separated(&properties(&tool.parameters), ", ", argument)?;
            Some(all([text(&format!("{}(", tool.name)), arguments, text(")")]))
        }
        CallBody::Braced { quote } => {
            let arguments = braced(room, &tool.parameters, quote)?;
            Some(all([text(&format!("call:{}", tool.name)), arguments]))
        }
        CallBody::Channels => {
            let begin = syntax.call.begin;
            let begin = begin.find("<|channel|>").map_or(begin, |at| &begin[at..]);
            let head = format!("{begin}{} <|constrain|>json<|message|>", tool.name);
            Some(all([text(&head), arguments(room, tool)?]))
        }
    }
}

fn json_object(room: &Room, body: &JsonObject, tool: &Tool) -> Option<Term> {
    let name = Json::from(tool.name.as_str());
    let head = match body.name {
        JsonName::IsKey => format!("{{{name}: "),
        JsonName::Under { name_key, arguments_key } => {
            format!("{{\"{name_key}\": {name}, \"{arguments_key}\": ")
        }
    };
    Some(all([text(&head), arguments(room, tool)?, text("}")]))
}

fn named(room: &Room, body: &NamedJson, tool: &Tool) -> Option<Term> {
    let mut terms = Vec::new();
    for (field, end) in body.head {
        match (field, body.name) {
            (HeadField::Name, NameForm::Plain) => terms.push(text(&tool.name)),
            (HeadField::Name, NameForm::Numbered) => {
                terms.extend([text(&format!("functions.{}:", tool.name)), Term::Number]);
            }
            (HeadField::Id, _) => terms.push(Term::Id),
            (HeadField::Constant(word), _) => terms.push(text(word)),
        }
        terms.push(text(end));
    }
    terms.extend([text(body.arguments.begin), arguments(room, tool)?, text(body.arguments.end)]);
    Some(all(terms))
}

fn parameters(room: &Room, body: &Parameters, tool: &Tool) -> Option<Term> {
    let head = format!(
        "{}{}{}{}",
        body.name.begin,
        tool.name,
        body.name.end,
        body.name_attributes.unwrap_or_default()
    );
    let properties = properties(&tool.parameters);
    let elements = properties.iter().map(|property| {
        let element = element(room, body, tool, property)?;
        Some(if property.is_required { element } else { Term::Maybe(Box::new(element)) })
    });
    let elements = elements.collect::<Option<Vec<_>>>()?;
    Some(all([text(&head)].into_iter().chain(elements).chain([text(body.end)])))
}

/// One argument. What the schema calls a string, or says nothing of, is written as it stands.
fn element(room: &Room, body: &Parameters, tool: &Tool, property: &Property) -> Option<Term> {
    room.take(property.name.len())?;
    let is_text = values::is_text(&tool.parameters, property.schema);
    let key = format!("{}{}{}", body.key.begin, property.name, body.key.end);
    let attribute = body.type_attribute.map_or_else(String::new, |attribute| {
        let other = if attribute.string == "true" { "false" } else { "object" };
        format!("{}{}", if is_text { attribute.string } else { other }, attribute.end)
    });
    let (before, after) = body.padding.map_or(("", body.value.end), |padding| (padding.begin, padding.end));
    let head = text(&format!("{key}{attribute}{}{before}", body.value.begin));
    Some(match values::words(&tool.parameters, property.schema) {
        Some(words) => {
            room.take(words.iter().map(|word| word.len()).sum())?;
            all([head, Term::Any(words.into_iter().map(text).collect()), text(after)])
        }
        None if is_text => all([head, Term::Until(after.to_owned())]),
        None => all([head, room.json(&tool.parameters, property.schema)?, text(after)]),
    })
}

/// The arguments as a JSON object.
fn arguments(room: &Room, tool: &Tool) -> Option<Term> {
    let schema = closed(&tool.parameters);
    room.take(schema.to_string().len())?;
    Some(Term::Json(schema))
}

/// Properties in their order, the required ones first, with a separator between those that are there.
fn separated(
    properties: &[Property],
    separator: &str,
    term: impl Fn(&Property) -> Option<Term>,
) -> Option<Term> {
    let (required, optional): (Vec<&Property>, Vec<&Property>) =
        properties.iter().partition(|property| property.is_required);
    let after = |property: &Property| Some(all([text(separator), term(property)?]));
    let later = |rest: &[&Property]| {
        let rest = rest.iter().map(|property| Some(Term::Maybe(Box::new(after(property)?))));
        rest.collect::<Option<Vec<_>>>()
    };
    if let Some((first, others)) = required.split_first() {
        let others = others.iter().map(|property| after(property)).collect::<Option<Vec<_>>>()?;
        return Some(all([term(first)?].into_iter().chain(others).chain(later(&optional)?)));
    }
    let begun_by =
        |index: usize| Some(all([term(optional[index])?].into_iter().chain(later(&optional[index + 1..])?)));
    match optional.len() {
        0 => Some(text("")),
        count => {
            let any = (0..count).map(begun_by).collect::<Option<Vec<_>>>()?;
            Some(Term::Maybe(Box::new(Term::Any(any))))
        }
    }
}

fn text(text: &str) -> Term {
    Term::Text(text.to_owned())
}

/// One after the other; neighbouring texts are one.
fn all(terms: impl IntoIterator<Item = Term>) -> Term {
    let mut out: Vec<Term> = Vec::new();
    for term in terms {
        match (out.last_mut(), term) {
            (_, Term::Text(more)) if more.is_empty() => {}
            (Some(Term::Text(text)), Term::Text(more)) => text.push_str(&more),
            (_, term) => out.push(term),
        }
    }
    Term::All(out)
}

#[cfg(test)]
mod tests;
