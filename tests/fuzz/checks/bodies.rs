//! What must hold for any bytes. `fuzz_targets` feeds these with libFuzzer, the contracts with mutated seeds.

use std::sync::LazyLock;

use serde_json::{Value, json};
use troupe::bench::SseParser;
use troupe::http::doors;
use troupe_actors::model_card::ModelCard;
use troupe_actors::template::{ChatTemplate, RenderInput, TemplateTokens};

static CARD: LazyLock<ModelCard> =
    LazyLock::new(|| troupe_actors::testing::model_card(2048).expect("the tests' own tokenizer is sound"));

/// The longest message of an error, in characters.
const MAX_MESSAGE: usize = 1001;

/// A chat request's body is taken or refused in the shape of errors, whatever it is.
pub fn chat(bytes: &[u8]) {
    check(doors::read_chat(bytes, &CARD));
}

/// A text completion request's body is taken or refused in the shape of errors, whatever it is.
pub fn completions(bytes: &[u8]) {
    check(doors::read_completion(bytes, &CARD));
}

fn check(read: Result<(), doors::Refusal>) {
    let Err((status, body)) = read else { return };
    assert!((400..500).contains(&status), "{status} {body}");
    let error = &body["error"];
    let message = error["message"].as_str().expect("a message");
    assert!((1..=MAX_MESSAGE).contains(&message.chars().count()), "{body}");
    assert!(error["type"].is_string(), "{body}");
    assert!(error["param"].is_null() || error["param"].is_string(), "{body}");
    // A code that speaks of a part names the part.
    let names_a_part = ["invalid_type", "invalid_value", "unsupported_parameter", "unknown_parameter"];
    if error["code"].as_str().is_some_and(|code| names_a_part.contains(&code)) {
        assert!(error["param"].is_string(), "{body}");
    }
}

/// A template ends, with a text or an error; what of the text is a client's own spelling of a control token lies
/// inside the text, at borders of characters, in order.
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

/// A stream of events is the same in one piece and byte by byte.
pub fn events(bytes: &[u8]) {
    let whole = SseParser::default().push(bytes);
    let mut parser = SseParser::default();
    let pieces: Result<Vec<_>, _> = bytes.chunks(1).map(|piece| parser.push(piece)).collect();
    assert_eq!(whole, pieces.map(|events| events.concat()));
}
