//! The body of a request is taken or refused in the shape of errors, whatever it is.

use std::sync::LazyLock;

use troupe::http::doors;
use troupe_actors::model_card::ModelCard;

static CARD: LazyLock<ModelCard> =
    LazyLock::new(|| troupe_actors::testing::calling_card(2048).expect("the tests' own tokenizer is sound"));

/// The longest message of an error, in characters.
const MAX_MESSAGE: usize = 1001;

/// `/v1/chat/completions`.
pub fn chat(bytes: &[u8]) {
    check(doors::read_chat(bytes, &CARD));
}

/// `/v1/completions`.
pub fn completions(bytes: &[u8]) {
    check(doors::read_completion(bytes, &CARD));
}

/// `/v1/messages`.
pub fn messages(bytes: &[u8]) {
    check(doors::read_message(bytes, &CARD));
}

/// `/v1/responses`.
pub fn responses(bytes: &[u8]) {
    check(doors::read_response(bytes, &CARD));
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
