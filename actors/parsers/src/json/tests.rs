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

#[test]
fn half_of_a_surrogate_pair_is_passed_on_as_a_replacement() {
    for (text, passed) in [
        (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
        (r#"{"a":"\uDE42"}"#, r#"{"a":"\ufffd"}"#),
        (r#"{"\ud83dx":1}"#, r#"{"\ufffdx":1}"#),
        (r#"{"a":"\ud83d\ude42"}"#, r#"{"a":"\ud83d\ude42"}"#),
        (r#"{"a":"\ud83d\uD83D\uDE42\ude42"}"#, r#"{"a":"\ufffd\uD83D\uDE42\ufffd"}"#),
        (r#"{"a":"\ud83d\n\ud83d\"\\ud83d"}"#, r#"{"a":"\ufffd\n\ufffd\"\\ud83d"}"#),
        (r#"{"a":"\ud83d\u00e9é"}"#, r#"{"a":"\ufffd\u00e9é"}"#),
        (r#"{"a":["\ud83d","\ude42"]}"#, r#"{"a":["\ufffd","\ufffd"]}"#),
    ] {
        let (mut object, mut out) = (RawObject::default(), String::new());
        for character in text.chars() {
            let before = out.len();
            object.feed(character, &mut out).unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok() == object.is_done(), "{out}");
            // At most the escapes of a first half and of what follows it come at once.
            assert!(out.len() - before <= 12, "{out}");
        }
        assert_eq!(out, passed);
    }
}

#[test]
fn a_value_is_written_as_strict_parsers_take_it() {
    for (text, written) in [
        ("1", Some("1")),
        ("-1e999", Some("-1e999")),
        ("\"a\nb\"", Some(r#""a\nb""#)),
        (r#""\ud83d""#, Some(r#""\ufffd""#)),
        ("{\"a\": [true, null]}", Some("{\"a\": [true, null]}")),
        ("", None),
        (" ", None),
        ("1, 2", None),
        ("1]", None),
        ("],[", None),
        ("nul", None),
        ("{\"a\": }", None),
    ] {
        assert_eq!(strict(text).as_deref(), written, "{text}");
    }
}
