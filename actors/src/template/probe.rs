//! Finds out, by rendering, what a template prints: which forms of content, and which messages of the system.

use serde_json::{Value as Json, json};

use super::messages::ContentForm;
use super::render::{ChatTemplate, RenderInput};

const NEEDLE: &str = "TroupeProbe";

/// Renders one user message with each form and looks for its text.
pub(super) fn content_form(template: &ChatTemplate) -> ContentForm {
    let text = prints(template, json!(NEEDLE));
    let parts = prints(template, json!([{"type": "text", "text": NEEDLE}]));
    match (text, parts) {
        (true, true) => ContentForm::Either,
        (false, true) => ContentForm::Parts,
        (_, false) => ContentForm::Text,
    }
}

/// Whether the text reaches the output, and not as the printed form of the list around it.
fn prints(template: &ChatTemplate, content: Json) -> bool {
    let messages = [json!({"role": "user", "content": content})];
    let input = RenderInput { messages: &messages, ..RenderInput::default() };
    template.render_as_given(&input).is_ok_and(|text| {
        text.contains(NEEDLE) && !text.contains("'type': 'text'") && !text.contains("\"type\": \"text\"")
    })
}

/// The first message of the system's of which nothing is in `rendered`, the text of `input`.
///
/// A template may change what it prints, so a text that is not found says little: those messages are rendered once more
/// with a word in their place, which one that drops them does not print either.
pub(super) fn dropped_system_message(
    template: &ChatTemplate,
    input: &RenderInput,
    rendered: &str,
) -> Option<usize> {
    let is_missing = |message: &Json| {
        let is_of_system = matches!(message["role"].as_str(), Some("system" | "developer"));
        is_of_system && texts(&message["content"]).any(|text| !rendered.contains(text.trim()))
    };
    let missing: Vec<usize> = input
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| is_missing(message))
        .map(|(at, _)| at)
        .collect();
    if missing.is_empty() {
        return None;
    }
    // Digits, which have no case.
    let word = |at: usize| format!("93518407{at:06}");
    let mut messages = input.messages.to_vec();
    for &at in &missing {
        messages[at]["content"] = word(at).into();
    }
    // What fails on the word says nothing of the text.
    let probed = template.render(&RenderInput { messages: &messages, ..*input }).ok()?;
    missing.into_iter().find(|&at| !probed.text.contains(&word(at)))
}

/// The texts of a message's content.
fn texts(content: &Json) -> impl Iterator<Item = &str> {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts)
}
