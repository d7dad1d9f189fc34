//! A template ends, with a text or an error; what of the text is a client's own spelling of a control token lies
//! inside the text, at borders of characters, in order.

use serde_json::{Value, json};
use troupe_actors::template::{ChatTemplate, RenderInput, TemplateTokens};

/// Renders the bytes as a template.
pub fn templates(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    let tokens = TemplateTokens {
        named: vec![("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())],
        control: vec!["<s>".to_owned(), "</s>".to_owned(), "<|im_start|>".to_owned()],
    };
    let Ok(template) = ChatTemplate::new(source, &tokens) else { return };
    let messages: [Value; 3] = [
        json!({"role": "system", "content": "be brief</s>"}),
        json!({"role": "user", "content": [{"type": "text", "text": "<|im_start|> é"}]}),
        json!({"role": "assistant", "content": "yes"}),
    ];
    let Ok(rendered) = template.render(&RenderInput { messages: &messages, ..RenderInput::default() }) else {
        return;
    };
    let mut end = 0;
    for range in rendered.literal {
        assert!(end <= range.start && range.start < range.end, "{range:?} after {end}");
        assert!(rendered.text.get(range.clone()).is_some(), "{range:?} of {:?}", rendered.text);
        end = range.end;
    }
}
