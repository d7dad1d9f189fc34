mod corpus;
mod nested_counts;

use std::sync::Arc;

use serde_json::{Value, json};
use troupe_protocol::{FinishReason, TokenId};

use super::*;
use crate::testing::{END, VOCAB_SIZE, byte_tokenizer};

fn vocabulary() -> Arc<Vocabulary> {
    Arc::new(Vocabulary::new(Arc::new(byte_tokenizer().unwrap()), VOCAB_SIZE))
}

fn guide(grammar: &Grammar) -> Guide {
    Guide::new(&vocabulary(), grammar, &[END]).unwrap()
}

/// Whether a text may be said byte by byte, and be the whole of it.
fn accepts(mut guide: Guide, text: &str) -> bool {
    for byte in text.bytes() {
        if guide.is_complete() || !guide.mask().unwrap().allows(TokenId::from(byte)) {
            return false;
        }
        if guide.advance(TokenId::from(byte)).unwrap() == Progress::Complete {
            assert!(guide.is_complete());
        }
    }
    guide.is_complete() || guide.mask().unwrap().allows(END)
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

#[test]
fn each_kind_of_grammar_accepts_its_texts_and_no_others() {
    let strings = |strings: &[&str]| strings.iter().map(|&string| string.to_owned()).collect::<Vec<_>>();
    let nested = "start: \"[\" [start (\",\" start)*] \"]\"";
    let call = "start: \"<call>\" %json {\"type\": \"object\", \"required\": [\"x\"], \
                \"properties\": {\"x\": {\"type\": \"integer\"}}, \"additionalProperties\": false} \"</call>\"";
    let quoted = "\"quo\\\"ted\"\n";
    let table: [(Grammar, &[&str], &[&str]); 8] = [
        (
            Grammar::json_object(),
            &["{}", r#"{"a": [1, "x", null]}"#, "{\n  \"a\": {}\n}"],
            &["", "[]", "1", "{} ", "{"],
        ),
        (
            Grammar::json_schema(schema()).unwrap(),
            &[r#"{"name":"Ada","age":36}"#, "{ \"name\": \"Ada\",\n\"age\": 36 }"],
            &["{}", r#"{"name":"Ada"}"#, r#"{"name":"Ada","age":-1}"#, r#"{"name":"Ada","age":1,"x":1}"#],
        ),
        (Grammar::json_schema(json!(true)).unwrap(), &["1", "null", "[true]"], &["", "tru", "x"]),
        (Grammar::regex(r"^[0-9]{3}-\w+$").unwrap(), &["123-ab"], &["12-ab", "123-", "^123-ab"]),
        (Grammar::regex(r"\$\d+\$").unwrap(), &["$12$"], &["$12", "12"]),
        (
            Grammar::choice(&strings(&["yes", "yes please", "no/\\", quoted])).unwrap(),
            &["yes", "yes please", "no/\\", quoted],
            &["", "ye", "yes ", "maybe"],
        ),
        (Grammar::lark(nested).unwrap(), &["[]", "[[],[[]]]"], &["", "[", "[[]", "[]]"]),
        (
            Grammar::lark(call).unwrap(),
            &[r#"<call>{"x":1}</call>"#],
            &["<call></call>", r#"<call>{"x":"1"}</call>"#],
        ),
    ];
    for (grammar, accepted, refused) in table {
        let guide = guide(&grammar);
        for text in accepted {
            assert!(accepts(guide.clone(), text), "{text:?} is not accepted by {grammar:?}");
        }
        for text in refused {
            assert!(!accepts(guide.clone(), text), "{text:?} is accepted by {grammar:?}");
        }
    }
}

#[test]
fn what_is_beyond_the_limits_is_refused_before_it_is_compiled() {
    let large = "x".repeat(MAX_GRAMMAR_BYTES + 1);
    let too_large = Err(GrammarError::TooLarge { bytes: large.len(), limit: MAX_GRAMMAR_BYTES });
    assert_eq!(Grammar::regex(&large), too_large);
    assert_eq!(Grammar::lark(&large), too_large);
    assert_eq!(Grammar::choice(std::slice::from_ref(&large)), too_large);
    let described = Grammar::json_schema(json!({"description": large}));
    assert!(matches!(described, Err(GrammarError::TooLarge { .. })));

    let count = 100_000;
    let many = Grammar::choice(&vec!["x".to_owned(); count]);
    assert_eq!(many, Err(GrammarError::TooManyChoices { count, limit: MAX_CHOICES }));
    assert_eq!(Grammar::choice(&[]), Err(GrammarError::Empty));
    assert_eq!(Grammar::choice(&[String::new()]), Err(GrammarError::EmptyChoice { index: 0 }));
    assert_eq!(
        (Grammar::regex("^$"), Grammar::lark(" \n")),
        (Err(GrammarError::Empty), Err(GrammarError::Empty))
    );
}

#[test]
fn a_schema_stays_within_itself_its_depth_and_its_references() {
    let nest = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!([inner]));
    let deep = |levels| Grammar::json_schema(json!({ "anyOf": nest(levels) }));
    assert!(deep(MAX_SCHEMA_DEPTH - 1).is_ok());
    assert_eq!(deep(MAX_SCHEMA_DEPTH), Err(GrammarError::TooDeep { limit: MAX_SCHEMA_DEPTH }));

    let refers = |count| Grammar::json_schema(json!({ "allOf": vec![json!({"$ref": "#/$defs/x"}); count] }));
    assert!(refers(MAX_SCHEMA_REFERENCES).is_ok());
    let too_many = Err(GrammarError::TooManyReferences { limit: MAX_SCHEMA_REFERENCES });
    assert_eq!(refers(MAX_SCHEMA_REFERENCES + 1), too_many);

    for reference in ["https://example.com/schema", "other.json#/x", "file:///etc/passwd", "/x", ""] {
        let refused = Grammar::json_schema(json!({"properties": {"a": {"$ref": reference}}}));
        assert_eq!(refused, Err(GrammarError::RemoteReference { reference: reference.to_owned() }));
    }
    // A property of that name, and data that looks like it, refer to nothing.
    let named = json!({"properties": {"$ref": {"const": {"$ref": "http://x"}}}});
    assert!(Grammar::json_schema(named).is_ok());
    let lenient = Grammar::json_schema(json!({"x-guidance": {"lenient": true}, "not": {}}));
    assert_eq!(lenient, Err(GrammarError::UnsupportedKeyword { keyword: "x-guidance" }));
    for schema in [json!(null), json!(1), json!("{}"), json!([])] {
        assert_eq!(Grammar::json_schema(schema), Err(GrammarError::NotASchema));
    }
}

#[test]
fn a_number_that_would_be_taken_for_another_is_refused_by_name() {
    let beyond = 9_007_199_254_740_993_u64;
    for (schema, number) in [
        (json!({"const": beyond}), "9007199254740993"),
        (json!({"enum": [1, [{"a": -9_007_199_254_740_993_i64}]]}), "-9007199254740993"),
        (serde_json::from_str(r#"{"enum": [12345678901234567890123]}"#).unwrap(), "1.2345678901234568e+22"),
        (json!({"multipleOf": beyond}), "9007199254740993"),
    ] {
        let refused = Grammar::json_schema(schema);
        assert_eq!(refused, Err(GrammarError::InexactNumber { number: number.to_owned() }));
    }
    // Bounds move inwards to what is exact.
    let between =
        |least: i64, greatest: i64| json!({"type": "integer", "minimum": least, "maximum": greatest});
    let held = |schema: Value| guide(&Grammar::json_schema(schema).unwrap());
    let wide = held(between(i64::MIN, i64::MAX));
    for (number, is_allowed) in [
        ("0", true),
        ("9223372036854774784", true),
        ("9223372036854775808", false),
        ("-9223372036854774784", true),
        ("-9223372036854775809", false),
    ] {
        assert_eq!(accepts(wide.clone(), number), is_allowed, "{number}");
    }
    let odd = held(between(9_007_199_254_740_993, 9_007_199_254_740_995));
    for (number, is_allowed) in
        [("9007199254740994", true), ("9007199254740992", false), ("9007199254740996", false)]
    {
        assert_eq!(accepts(odd.clone(), number), is_allowed, "{number}");
    }
    let huge = held(json!({"type": "number", "maximum": 1e300}));
    assert!(accepts(huge, "5"));
    let exact = json!({"type": "integer", "minimum": 9_007_199_254_740_992_u64, "maximum": 9_007_199_254_740_992_u64});
    let guide = guide(&Grammar::json_schema(exact).unwrap());
    assert!(accepts(guide.clone(), "9007199254740992") && !accepts(guide, "9007199254740993"));
    // A default is not compared with anything.
    assert!(Grammar::json_schema(json!({"default": beyond})).is_ok());
}

#[test]
fn no_more_properties_are_asked_for_than_keys_that_cannot_repeat() {
    let patterns = json!({"^a$": {"type": "boolean"}});
    for schema in [
        json!({"minProperties": 2, "patternProperties": patterns, "additionalProperties": false}),
        json!({"minProperties": 2}),
        json!({"minProperties": 3, "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}),
        json!({"anyOf": [{"minProperties": 2, "additionalProperties": {"type": "null"}}]}),
    ] {
        let refused = Grammar::json_schema(schema.clone());
        assert!(matches!(refused, Err(GrammarError::RepeatableKeys { .. })), "{schema}: {refused:?}");
        assert!(refused.unwrap_err().to_string().contains("minProperties"));
    }
    for schema in [
        json!({"minProperties": 1}),
        json!({"minProperties": 2, "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}),
        json!({"minProperties": 2, "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": false}),
    ] {
        assert!(Grammar::json_schema(schema.clone()).is_ok(), "{schema}");
    }
}

#[test]
fn a_schema_in_a_grammar_is_held_to_the_limits_of_one() {
    let lark = |schema: Value| Grammar::lark(&format!("start: \"<\" %json {schema} \">\""));
    let references = json!({ "allOf": vec![json!({"$ref": "#/$defs/x"}); MAX_SCHEMA_REFERENCES + 1] });
    assert_eq!(lark(references), Err(GrammarError::TooManyReferences { limit: MAX_SCHEMA_REFERENCES }));
    let lenient = json!({"x-guidance": {"lenient": true}, "type": "object"});
    assert_eq!(lark(lenient), Err(GrammarError::UnsupportedKeyword { keyword: "x-guidance" }));
    assert!(matches!(
        lark(json!({"$ref": "https://example.com/x"})),
        Err(GrammarError::RemoteReference { .. })
    ));
    assert!(matches!(lark(json!({"const": 1_u64 << 60})), Err(GrammarError::InexactNumber { .. })));
    assert!(lark(compact(&schema())).is_ok());
}

#[test]
fn what_cannot_be_compiled_is_refused_with_the_reason() {
    let schema = |schema| Grammar::json_schema(schema).unwrap();
    let alternatives: Vec<String> = (0..9000).map(|n| format!("\"x{n}\"")).collect();
    let table = [
        (schema(json!({"not": {"type": "string"}})), "not"),
        (schema(json!({"type": "array", "uniqueItems": true})), "uniqueItems"),
        (schema(json!({"if": {}, "then": {}})), "if"),
        (schema(json!({"type": "strin"})), "strin"),
        (schema(json!({"oneOf": [{"type": "integer"}, {"minimum": 2}]})), "exclude each other"),
        (schema(json!({"properties": 1})), "properties"),
        (schema(json!({"$ref": "#/$defs/nowhere"})), "nowhere"),
        (schema(json!({"type": "string", "format": "postal-code"})), "postal-code"),
        (schema(json!({"type": "string", "pattern": "(a"})), "unclosed"),
        (schema(json!(false)), "nsatisfiable"),
        (schema(json!({"$ref": "#"})), "no text can satisfy it"),
        (
            schema(
                json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            ),
            "no text can satisfy it",
        ),
        (Grammar::regex(r"[^\s\S]").unwrap(), "no text can satisfy it"),
        (Grammar::lark("start: a\na: b\nb: a").unwrap(), "no text can satisfy it"),
        (Grammar::lark(&format!("start: {}", alternatives.join(" | "))).unwrap(), "9001 items"),
        (Grammar::regex("(a").unwrap(), "unclosed"),
        (Grammar::regex("(?=a)b").unwrap(), "look-around"),
        (Grammar::regex(r"(a)\1").unwrap(), "backreference"),
        (Grammar::lark("start: nowhere").unwrap(), "nowhere"),
        (Grammar::lark("begin: \"a\"").unwrap(), "start"),
        (Grammar::lark("start: start").unwrap(), ""),
        (Grammar::lark("start: \"a").unwrap(), ""),
    ];
    for (grammar, words) in table {
        let error = Guide::new(&vocabulary(), &grammar, &[END]).expect_err(words).to_string();
        assert!(error.contains(words), "{error:?} does not say {words:?} of {grammar:?}");
        assert!(error.len() < 2000 && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_refusal_speaks_of_what_the_client_wrote() {
    let table = [
        (Grammar::json_schema(json!({"not": {}})), "Unimplemented keys: [\"not\"]"),
        (
            Grammar::made_lark("start: \"x\" %json {\"not\": {}}"),
            "failed to compile JSON schema: Unimplemented keys: [\"not\"]",
        ),
        (Grammar::regex("(a"), "invalid regex \"(a\" (in regex): regex parse error: unclosed group"),
        (
            Grammar::lark("start: \"a\" b\nb: /(/"),
            "line 2, column 4: invalid regex \"(\" (in regex): regex parse error: unclosed group",
        ),
        (Grammar::lark("start: \"a\nb: /x/"), "line 1, column 10: lexer error"),
        (
            Grammar::lark("start: \"a\" (\nb: /x/"),
            "line 1, column 13: Expected token ')', found '\\n' (at \"\\n\" ('\\n'))",
        ),
        (Grammar::lark("start: \"a\" nowhere"), "line 1, column 8: unknown name: \"nowhere\""),
    ];
    for (grammar, expected) in table {
        let error = Guide::new(&vocabulary(), &grammar.unwrap(), &[END]).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn an_end_may_come_where_the_text_is_complete_and_nowhere_else() {
    let other_end = TokenId::from(b'!');
    let mut guide =
        Guide::new(&vocabulary(), &Grammar::regex("[a-z!]{2,3}").unwrap(), &[END, other_end]).unwrap();
    for (said, may_end) in [("a", false), ("b", true)] {
        let mask = guide.mask().unwrap();
        assert!(!mask.allows(END) && !mask.allows(other_end) && mask.allows(TokenId::from(b'a')));
        assert_eq!(guide.advance(TokenId::from(said.as_bytes()[0])), Ok(Progress::Open));
        let mask = guide.clone().mask().unwrap();
        assert_eq!((mask.allows(END), mask.allows(other_end)), (may_end, may_end), "after {said}");
    }
    let mut ended = guide.clone();
    assert_eq!((ended.advance(END), ended.is_complete()), (Ok(Progress::Ended), true));
    assert_eq!(guide.advance(TokenId::from(b'c')), Ok(Progress::Complete));
    assert!(guide.mask().is_err());
}

#[test]
fn a_guide_that_waits_forbids_nothing_but_the_end() {
    let mut guide = guide(&Grammar::json_object()).waiting();
    for byte in b"thinking}" {
        let mask = guide.mask().unwrap();
        assert_eq!((mask.count(), mask.allows(END)), (VOCAB_SIZE - 1, false));
        assert_eq!(guide.advance(TokenId::from(*byte)), Ok(Progress::Open));
    }
    guide.begin();
    assert!(accepts(guide.clone(), "{}") && !accepts(guide, "x"));
}

#[test]
fn a_token_that_the_mask_did_not_allow_is_an_error_and_no_panic() {
    let mut guide = guide(&Grammar::json_object());
    assert!(guide.advance(TokenId::from(b'x')).is_err());
    assert!(guide.mask().is_err() && guide.advance(0).is_err());
}

#[test]
fn a_cut_document_is_told_as_cut_and_other_text_as_stopped() {
    for (grammar, reason) in [
        (Grammar::json_object(), FinishReason::Length),
        (Grammar::json_schema(schema()).unwrap(), FinishReason::Length),
        (Grammar::regex("a+").unwrap(), FinishReason::Stop),
    ] {
        assert_eq!(guide(&grammar).reason_of_cut(), reason);
    }
}

/// Grammars that would take for ever, were there no bound on the work.
#[test]
fn hostile_grammars_end_in_an_error_or_a_guide() {
    let many = (0..3000).map(|n| format!("p{n}")).collect::<Vec<_>>();
    let properties =
        many.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect::<serde_json::Map<_, _>>();
    let grammars = [
        Grammar::regex("(a+)+b").unwrap(),
        Grammar::regex("(((a{0,999}){0,999}){0,999}){0,999}").unwrap(),
        Grammar::regex("(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x").unwrap(),
        Grammar::regex("[a-z]*[^x]{5000}").unwrap(),
        Grammar::regex(&"(a|b)?".repeat(2000)).unwrap(),
        Grammar::lark("start: start start | \"a\" | ").unwrap(),
        Grammar::lark("start: a\na: b\nb: a | \"x\"").unwrap(),
        Grammar::lark("start: x{1,100000}\nx: \"a\" | \"b\" x").unwrap(),
        Grammar::json_schema(json!({"$ref": "#"})).unwrap(),
        Grammar::json_schema(
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        )
        .unwrap(),
        Grammar::json_schema(json!({"type": "object", "properties": properties, "required": many})).unwrap(),
        Grammar::json_schema(json!({"type": "string", "minLength": 1_000_000_000})).unwrap(),
        Grammar::json_schema(json!({"type": "array", "minItems": 1_000_000_000})).unwrap(),
        Grammar::json_schema(json!({"type": "number", "multipleOf": 1e-300, "maximum": 1e15})).unwrap(),
    ];
    for grammar in grammars {
        let Ok(mut guide) = Guide::new(&vocabulary(), &grammar, &[END]) else { continue };
        for _ in 0..50 {
            let Ok(mask) = guide.mask() else { break };
            let token = (0..VOCAB_SIZE).find(|&token| mask.allows(token)).unwrap();
            if guide.advance(token) != Ok(Progress::Open) {
                break;
            }
        }
    }
}
