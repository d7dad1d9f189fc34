use super::*;

fn accepts(text: &str) -> bool {
    let mut scanner = Scanner::default();
    text.chars().all(|character| scanner.feed(character).is_ok()) && scanner.is_done()
}

#[test]
fn accepts_what_serde_accepts() {
    for text in [
        "{}",
        "[]",
        "{\"a\":1}",
        "[1,2]",
        "[0]",
        "[-0.5e+3]",
        "[1E9]",
        "[01]",
        "[-]",
        "[1.]",
        "[.5]",
        "[1e]",
        "{\"a\"}",
        "{a:1}",
        "[1,]",
        "{\"a\":1,}",
        "[true,false,null]",
        "[tru]",
        "[truex]",
        "\"\\u12G4\"",
        "\"\\u00e9\"",
        "\"\\x\"",
        "[\"a\\\"b\\\\\"]",
        "{\"a\":{\"b\":[{}]}}",
        "[1 2]",
        "[}",
        "{]",
        "{}}",
        "{\"a\":1 , \"b\" : [ ] }",
        "[1.5e-7]",
        "[--1]",
        "[1e+]",
        "nul",
        "[\"\u{1f642}\"]",
    ] {
        assert_eq!(accepts(text), serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
    }
}

#[test]
fn strings_are_decoded() {
    for text in
        ["\"a\\n\\u00e9\\ud83d\\ude42\\/\"", "\"\\ud83d\\ud83d\\ude42x\"", "\"\\ud83d\"", "\"\\udc00\""]
    {
        let (mut scanner, mut decoded) = (Scanner::default(), String::new());
        for character in text.chars() {
            scanner.feed(character).unwrap();
            decoded.push_str(scanner.decoded());
        }
        let whole = serde_json::from_str::<String>(text);
        match whole {
            Ok(whole) => assert_eq!(decoded, whole),
            Err(_) => assert!(decoded.contains(char::REPLACEMENT_CHARACTER)),
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(accepts(&nested(MAX_DEPTH as usize)));
    assert!(!accepts(&nested(MAX_DEPTH as usize + 1)));
}

#[test]
fn an_object_is_passed_on_as_it_stands() {
    let (mut object, mut out) = (RawObject::default(), String::new());
    let done: Vec<bool> =
        " {\"a\": \"x\ny\"}".chars().map(|character| object.feed(character, &mut out).unwrap()).collect();
    assert_eq!(out, "{\"a\": \"x\\ny\"}");
    assert_eq!(done.iter().filter(|done| **done).count(), 1);
    for text in ["[]", "1", "\"a\"", "null"] {
        let mut object = RawObject::default();
        assert!(text.chars().any(|character| object.feed(character, &mut String::new()).is_err()), "{text}");
    }
}
