//! What is done to messages before a template sees them.

use serde_json::{Map, Value as Json, json};

/// Which forms of a message's content a template prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentForm {
    /// Strings only: lists of text parts are joined.
    Text,
    /// Lists of parts only: strings become a list of one part.
    Parts,
    /// Both: content is passed as it came.
    Either,
}

/// Names that a message's reasoning goes by; the first that is set fills the others that templates read.
pub const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Brings client messages into the shape that templates expect.
///
/// - `content: null` and a missing content become `""` on assistant messages;
/// - other fields that are null, and an empty `tool_calls`, are dropped;
/// - reasoning is copied to the names under which templates look for it;
/// - content takes a form that the template prints. Text parts are joined by a line feed; parts of another type are
///   kept in lists and refused earlier, by the HTTP surface, where lists are not printed.
///
/// Arguments of tool calls stay strings here; a render parses them.
pub fn normalise_messages(messages: &[Json], form: ContentForm) -> Vec<Json> {
    messages.iter().map(|message| normalise_message(message, form)).collect()
}

fn normalise_message(message: &Json, form: ContentForm) -> Json {
    let Json::Object(fields) = message else {
        return message.clone();
    };
    let is_assistant = fields.get("role").and_then(Json::as_str) == Some("assistant");
    let mut out = Map::new();
    let reasoning =
        REASONING_FIELDS.iter().find_map(|name| fields.get(*name).filter(|value| !value.is_null()));
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("content", Json::Null) if is_assistant => {
                out.insert(key.clone(), content_in_form(&json!(""), form));
            }
            ("content", content) if !content.is_null() => {
                out.insert(key.clone(), content_in_form(content, form));
            }
            ("tool_calls", Json::Array(calls)) if calls.is_empty() => {}
            (_, Json::Null) => {}
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    if is_assistant && !out.contains_key("content") {
        out.insert("content".to_owned(), content_in_form(&json!(""), form));
    }
    if let Some(reasoning) = reasoning {
        out.entry("thinking").or_insert_with(|| reasoning.clone());
        out.insert("reasoning_content".to_owned(), reasoning.clone());
    }
    Json::Object(out)
}

fn content_in_form(content: &Json, form: ContentForm) -> Json {
    match (form, content) {
        (ContentForm::Text, Json::Array(parts)) => {
            let texts: Option<Vec<&str>> = parts.iter().map(part_text).collect();
            texts.map_or_else(|| content.clone(), |texts| Json::String(texts.join("\n")))
        }
        (ContentForm::Parts, Json::String(text)) => json!([{"type": "text", "text": text}]),
        _ => content.clone(),
    }
}

/// The text of a part, if it is a text part.
fn part_text(part: &Json) -> Option<&str> {
    match part {
        Json::String(text) => Some(text),
        Json::Object(fields) => fields.get("text").and_then(Json::as_str),
        _ => None,
    }
}

/// Sets `text` after the last text of `message`'s content; false if there is none.
pub(super) fn append_to_content(message: &mut Json, text: &str) -> bool {
    match message.get_mut("content") {
        Some(Json::String(content)) => {
            content.push_str(text);
            true
        }
        Some(Json::Array(parts)) => match parts.iter_mut().rev().find_map(|part| part.get_mut("text")) {
            Some(Json::String(content)) => {
                content.push_str(text);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(message: Json, form: ContentForm) -> Json {
        normalise_messages(&[message], form).remove(0)
    }

    #[test]
    fn c145u_null_content_beside_tool_calls_is_empty_text() {
        let calls = json!([{"type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let given = json!({"role": "assistant", "content": null, "tool_calls": calls});
        assert_eq!(
            normalised(given, ContentForm::Text),
            json!({"role": "assistant", "content": "", "tool_calls": calls})
        );
    }

    #[test]
    fn c148u_empty_tool_calls_are_absent() {
        let given = json!({"role": "assistant", "content": "hi", "tool_calls": [], "name": null});
        assert_eq!(normalised(given, ContentForm::Either), json!({"role": "assistant", "content": "hi"}));
    }

    #[test]
    fn reasoning_is_found_under_each_name() {
        for name in REASONING_FIELDS {
            let message =
                normalised(json!({"role": "assistant", "content": "a", name: "why"}), ContentForm::Text);
            assert_eq!((&message["thinking"], &message["reasoning_content"]), (&json!("why"), &json!("why")));
        }
    }

    #[test]
    fn content_takes_the_form_that_the_template_prints() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        let message = |content: &Json| json!({"role": "user", "content": content});
        assert_eq!(normalised(message(&parts), ContentForm::Text), message(&json!("a\nb")));
        assert_eq!(normalised(message(&parts), ContentForm::Either), message(&parts));
        assert_eq!(
            normalised(message(&json!("a")), ContentForm::Parts),
            message(&json!([{"type": "text", "text": "a"}]))
        );
    }
}
