//! The grammar that forces calls: what a format's syntax and the tools' schemas allow, as a tree and as Lark text in the
//! dialect of llguidance. Pure: nothing is compiled or sampled here.
//!
//! Arguments are those of the schema's `properties`, in their order; formats that write JSON leave the rest of the
//! schema to the compiler of `%json`.

mod lark;
mod values;

use serde_json::Value as Json;
use troupe_parsers::{
    CallBody, CallSyntax, HeadField, JsonName, JsonObject, List, NameForm, NamedJson, Parameters, Pythonic,
    Tool,
};

use crate::session::CallLimit;
use values::{Property, braced, in_schema, properties};

pub use lark::lark;

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
}

/// An answer of calls of these tools, one at least, and nothing else. None if there is no tool.
///
/// The prompt of a format of channels ends in the header of the message; its answer is one call, which the token that
/// ends generation ends.
pub fn calls(syntax: &CallSyntax, tools: &[Tool], limit: CallLimit) -> Option<Term> {
    if tools.is_empty() {
        return None;
    }
    let each = tools.iter().map(|tool| call(syntax, tool)).collect();
    if syntax.body == CallBody::Channels {
        return Some(Term::Any(each));
    }
    let call = all([text(syntax.call.begin), Term::Any(each), text(syntax.call.end)]);
    let calls = match limit {
        CallLimit::One => call,
        CallLimit::Any => Term::Many(Box::new(call), syntax.separator.to_owned()),
    };
    let in_list = matches!(
        syntax.body,
        CallBody::JsonObject(JsonObject { list: List::Brackets, .. })
            | CallBody::Pythonic(Pythonic { list: List::Brackets })
    );
    let calls = if in_list { all([text("["), calls, text("]")]) } else { calls };
    Some(match syntax.bare {
        Some(_) => calls,
        None => all([text(syntax.section.begin), calls, text(syntax.section.end)]),
    })
}

fn call(syntax: &CallSyntax, tool: &Tool) -> Term {
    match syntax.body {
        CallBody::JsonObject(body) => json_object(&body, tool),
        CallBody::NamedJson(body) => named(&body, tool),
        CallBody::Parameters(body) => parameters(&body, tool),
        CallBody::Pythonic(_) => {
            let argument = |property: &Property| {
                all([
                    text(&format!("{}=", property.name)),
                    Term::Json(in_schema(&tool.parameters, property.schema)),
                ])
            };
            let arguments = separated(&properties(&tool.parameters), ", ", argument);
            all([text(&format!("{}(", tool.name)), arguments, text(")")])
        }
        CallBody::Braced { quote } => {
            all([text(&format!("call:{}", tool.name)), braced(&tool.parameters, &tool.parameters, quote)])
        }
        CallBody::Channels => {
            let begin = syntax.call.begin;
            let begin = begin.find("<|channel|>").map_or(begin, |at| &begin[at..]);
            all([text(&format!("{begin}{} <|constrain|>json<|message|>", tool.name)), arguments(tool)])
        }
    }
}

fn json_object(body: &JsonObject, tool: &Tool) -> Term {
    let name = Json::from(tool.name.as_str());
    match body.name {
        JsonName::IsKey => all([text(&format!("{{{name}: ")), arguments(tool), text("}")]),
        JsonName::Under { name_key, arguments_key } => {
            let head = format!("{{\"{name_key}\": {name}, \"{arguments_key}\": ");
            all([text(&head), arguments(tool), text("}")])
        }
    }
}

fn named(body: &NamedJson, tool: &Tool) -> Term {
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
    terms.extend([text(body.arguments.begin), arguments(tool), text(body.arguments.end)]);
    all(terms)
}

fn parameters(body: &Parameters, tool: &Tool) -> Term {
    let head = format!(
        "{}{}{}{}",
        body.name.begin,
        tool.name,
        body.name.end,
        body.name_attributes.unwrap_or_default()
    );
    let elements = properties(&tool.parameters).into_iter().map(|property| {
        let element = element(body, tool, &property);
        if property.is_required { element } else { Term::Maybe(Box::new(element)) }
    });
    all([text(&head)].into_iter().chain(elements).chain([text(body.end)]))
}

/// One argument. What the schema calls a string, or says nothing of, is written as it stands.
fn element(body: &Parameters, tool: &Tool, property: &Property) -> Term {
    let is_text = values::is_text(&tool.parameters, property.schema);
    let key = format!("{}{}{}", body.key.begin, property.name, body.key.end);
    let attribute = body.type_attribute.map_or_else(String::new, |attribute| {
        let other = if attribute.string == "true" { "false" } else { "object" };
        format!("{}{}", if is_text { attribute.string } else { other }, attribute.end)
    });
    let (before, after) = body.padding.map_or(("", body.value.end), |padding| (padding.begin, padding.end));
    let head = text(&format!("{key}{attribute}{}{before}", body.value.begin));
    match values::words(&tool.parameters, property.schema) {
        Some(words) => all([head, Term::Any(words.into_iter().map(text).collect()), text(after)]),
        None if is_text => all([head, Term::Until(after.to_owned())]),
        None => all([head, Term::Json(in_schema(&tool.parameters, property.schema)), text(after)]),
    }
}

/// The arguments as a JSON object.
fn arguments(tool: &Tool) -> Term {
    Term::Json(match &tool.parameters {
        Json::Null => serde_json::json!({"type": "object"}),
        schema => schema.clone(),
    })
}

/// Properties in their order, the required ones first, with a separator between those that are there.
fn separated(properties: &[Property], separator: &str, term: impl Fn(&Property) -> Term) -> Term {
    let (required, optional): (Vec<&Property>, Vec<&Property>) =
        properties.iter().partition(|property| property.is_required);
    let after = |term: Term| all([text(separator), term]);
    let later = |rest: &[&Property]| {
        rest.iter().map(|property| Term::Maybe(Box::new(after(term(property))))).collect::<Vec<_>>()
    };
    if let Some((first, others)) = required.split_first() {
        let others = others.iter().map(|property| after(term(property)));
        return all([term(first)].into_iter().chain(others).chain(later(&optional)));
    }
    let begun_by =
        |index: usize| all([term(optional[index])].into_iter().chain(later(&optional[index + 1..])));
    match optional.len() {
        0 => text(""),
        count => Term::Maybe(Box::new(Term::Any((0..count).map(begun_by).collect()))),
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
