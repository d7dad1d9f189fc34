//! Structured output over the vocabulary of the default model: what a schema or an expression lets through, and what not.

mod support;

use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};
use troupe_actors::guide::{Grammar, GrammarError, Guide, Vocabulary};
use troupe_actors::tokenizer::{AddSpecial, ParseSpecial, Tokenizer};

struct Model {
    tokenizer: Arc<Tokenizer>,
    vocabulary: Arc<Vocabulary>,
    ends: Vec<u32>,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let files = support::default_model();
    let source = files.tokenizer().expect("a tokenizer");
    let tokenizer = Tokenizer::load(&source, files.special_tokens()).expect("a known tokenizer");
    let size = u32::try_from(tokenizer.vocab_size()).expect("a vocabulary");
    let tokenizer = Arc::new(tokenizer);
    let vocabulary = Arc::new(Vocabulary::new(Arc::clone(&tokenizer), size));
    Model { tokenizer, vocabulary, ends: files.generation_defaults().eos_token_ids.clone() }
});

fn guide(grammar: &Grammar) -> Result<Guide, GrammarError> {
    Guide::new(&MODEL.vocabulary, grammar, &MODEL.ends)
}

/// Whether a text may be said token by token, and be the whole answer.
fn accepts(mut guide: Guide, text: &str) -> bool {
    let tokens = MODEL.tokenizer.encode(text, AddSpecial::Never, ParseSpecial::AsText);
    for token in tokens.expect("text encodes") {
        if guide.is_complete() || !guide.mask().expect("a mask").allows(token) {
            return false;
        }
        guide.advance(token).expect("the mask allowed it");
    }
    guide.is_complete() || MODEL.ends.iter().all(|&end| guide.mask().expect("a mask").allows(end))
}

/// A schema, what it lets through, and what it does not.
type Case<'a> = (Json, &'a [&'a str], &'a [&'a str]);

fn check(cases: &[Case]) {
    for (schema, accepted, refused) in cases {
        let grammar = Grammar::json_schema(schema.clone()).expect("within the limits");
        let guide = guide(&grammar).unwrap_or_else(|error| panic!("{schema}: {error}"));
        for text in *accepted {
            assert!(accepts(guide.clone(), text), "{schema} does not let {text} through");
        }
        for text in *refused {
            assert!(!accepts(guide.clone(), text), "{schema} lets {text} through");
        }
    }
}

#[test]
fn c223u_c225u_c226u_numbers_keep_to_multiples_bounds_and_signs() {
    check(&[
        (json!({"type": "integer", "multipleOf": 2}), &["2", "-14", "0"], &["3", "2.5"]),
        (json!({"type": "number", "multipleOf": 0.5}), &["2", "0.5"], &["0.3"]),
        (json!({"type": "number", "minimum": 0, "maximum": 0.5}), &["0.5", "0.25"], &["0,5", "0.6", "0x5"]),
        (json!({"type": "number", "minimum": -1, "maximum": 1}), &["-0.123", "0.5", "-1"], &["-1.5", "2"]),
        (json!({"type": "number"}), &["-0.123", "1e-7"], &["-.5", "01", "+1"]),
    ]);
}

#[test]
fn c228u_c238u_patterns_of_keys_apply_beside_properties_and_neither_has_to_be_there() {
    let beside = json!({
        "type": "object", "properties": {"ab": {"type": "integer"}}, "required": ["ab"],
        "patternProperties": {"^a": {"type": "number", "minimum": 5}}, "additionalProperties": false,
    });
    let objects: &[&str] = &["{}", r#"{"a": [1, {"b": null}]}"#];
    check(&[
        (
            beside,
            &[r#"{"ab": 7}"#, r#"{"ab": 7, "ac": 5.5}"#],
            &["{}", r#"{"ab": 3}"#, r#"{"ab": 7.5}"#, r#"{"ab": 7, "ac": 1}"#, r#"{"ab": 7, "b": 9}"#],
        ),
        (json!({"type": "object"}), objects, &["[]", "1"]),
        (json!({"type": "object", "properties": {}}), objects, &["[]", "1"]),
        (json!({"type": "object", "additionalProperties": false}), &["{}"], &[r#"{"a": 1}"#]),
    ]);
}

#[test]
fn c230u_c240u_characters_of_keys_constants_and_enums_are_written_as_json_writes_them() {
    check(&[
        (
            json!({"type": "object", "properties": {"a\u{1}é": {"const": "x/y"}}, "required": ["a\u{1}é"]}),
            &[r#"{"a\u0001é": "x/y"}"#],
            &["{\"a\u{1}é\": \"x/y\"}", r#"{"aé": "x/y"}"#],
        ),
        (json!({"enum": ["ä", "日本", "😀"]}), &[r#""ä""#, r#""日本""#, r#""😀""#], &[r#""a""#, r#""\ä""#]),
        (json!({"type": "string"}), &[r#""é 日本 😀""#], &[r#""\é""#]),
    ]);
}

#[test]
fn c231u_c241u_classes_of_characters_are_those_of_the_specification() {
    let pattern = |pattern: &str| json!({"type": "string", "pattern": pattern});
    check(&[
        (pattern(r"^\S+$"), &[r#""[""#, r#""a[b""#], &[r#""a b""#, r#""""#]),
        (pattern(""), &[r#""""#, r#""anything""#], &["1"]),
        (pattern("^[а-я]+$"), &[r#""да""#], &[r#""da""#]),
        (pattern(r"^\d$"), &[r#""3""#], &[r#""a""#, r#""٣""#]),
        (pattern(r"^\w+$"), &[r#""a_1""#], &[r#""é""#]),
        // What needs no escape is said without.
        (json!({"type": "string"}), &[r#""é""#, r#""\u0001\n""#], &[r#""\u00g9""#]),
    ]);
}

#[test]
fn c233u_references_reach_into_lists_and_to_enums() {
    let into = json!({
        "type": "object", "required": ["a", "b", "c"], "additionalProperties": false,
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "b": {"$ref": "#/properties/a/anyOf/0"},
            "c": {"$ref": "#/$defs/e"},
        },
        "$defs": {"e": {"enum": ["x", "y"]}},
    });
    check(&[(
        into,
        &[r#"{"a": null, "b": 1, "c": "x"}"#],
        &[
            r#"{"a": null, "b": null, "c": "x"}"#,
            r#"{"a": 1, "b": 1, "c": "z"}"#,
            r#"{"a": 1, "b": 1, "c": {}}"#,
        ],
    )]);
}

#[test]
fn c235u_a_description_changes_nothing() {
    let schema = |description: &str| {
        json!({"type": "object", "description": description, "required": ["a"], "additionalProperties": false,
            "properties": {"a": {"type": "integer", "description": description}}})
    };
    for description in ["", "one", "Other: \"words\" {} [x] ::= \\ é\n"] {
        check(&[(schema(description), &[r#"{"a": 1}"#], &["{}", r#"{"a": "1"}"#])]);
    }
}

#[test]
fn c236u_strings_hold_no_control_characters_and_no_other_escapes() {
    check(&[(
        json!({"type": "string"}),
        &[r#""\n\t\"\\""#],
        &["\"\n\"", "\"\t\"", "\"\u{0}\"", r#""\x41""#, r#""\u12""#, r#""\""#],
    )]);
}

#[test]
fn c106_c111_what_is_no_expression_is_refused_whole() {
    let compiles = |grammar: Grammar| guide(&grammar).map(|_| ());
    for pattern in ["[", "(a", "a{2,1}", r"\p{Nothing}"] {
        let refused = |result| matches!(result, Err(GrammarError::Compile { .. }));
        assert!(refused(compiles(Grammar::regex(pattern).expect("short"))), "{pattern}");
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
        assert!(refused(compiles(Grammar::json_schema(schema).expect("small"))), "{pattern}");
    }
    // The same as `foo*`.
    let stars = guide(&Grammar::regex("foo**").expect("short")).expect("it compiles");
    assert!(accepts(stars.clone(), "fooo") && !accepts(stars, "foo*"));
}
