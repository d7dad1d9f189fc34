use serde_json::json;
use troupe_actors::tokenizer_pool::PromptError;

use super::*;
use crate::http::generate::prompt_error;

#[test]
fn parameters_are_renamed_with_what_lies_inside_them() {
    for (param, from, to, expected) in [
        ("stop", "stop", "stops", Some("stops")),
        ("stop[1]", "stop", "stops", Some("stops[1]")),
        ("stop_token_ids", "stop", "stops", None),
        ("tools[3].function.name", "tools[].function", "tools[]", Some("tools[3].name")),
        ("tools[3].type", "tools[].function", "tools[]", None),
        ("a.b.c", "a.b", "x", Some("x.c")),
    ] {
        assert_eq!(rename(param, from, to).as_deref(), expected, "{param}");
    }
    let unknown = ApiError::Unrecognized { param: "b".to_owned() };
    let renamed = unknown.clone().renamed(&[("b", "a.b")]);
    assert!(matches!(renamed, ApiError::Unsupported { param, .. } if param == "a.b"));
    assert_eq!(unknown.clone().renamed(&[("c", "d")]), unknown);
}

#[test]
fn a_system_message_that_is_dropped_is_named_by_its_place_in_chat_alone() {
    let dropped = PromptError::SystemDropped { index: 3, text: "Be brief.".to_owned() };
    let error = prompt_error("messages", dropped);
    let said = "the model's chat template drops what the system says after the beginning of a conversation: \"Be brief.\"";
    for (error, param) in [
        (error.clone(), "messages[3]"),
        (error.clone().renamed(&[("messages", "input")]), "input"),
        (error.renamed(&[("stop", "stop_sequences")]), "messages"),
    ] {
        assert_eq!(error.status_code(), StatusCode::BAD_REQUEST);
        let body = error.to_json()["error"].take();
        assert_eq!((&body["param"], &body["code"]), (&json!(param), &json!("template_error")));
        assert_eq!(body["message"], format!("invalid value for '{param}': {said}"));
    }
}
