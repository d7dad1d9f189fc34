//! Finds out, by rendering, which forms of content a template prints.

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
