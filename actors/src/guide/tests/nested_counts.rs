//! Counts within counts: what a text may be read as grows with their product.

use super::*;

#[test]
fn counts_within_counts_that_take_too_much_are_refused_before_anything_is_said() {
    let refused = |grammar: Result<Grammar, GrammarError>| {
        let error = Guide::new(&vocabulary(), &grammar.unwrap(), &[END]).unwrap_err();
        assert!(error.to_string().contains("counts stand within counts"), "{error}");
    };
    for pattern in [
        "(a{1,1000}){1,1000}",
        "(a{1,100}){1,100}",
        "([ab]{1,1000}){1,10}",
        "(.{1,200} ?){1,50}",
        "(a{1,1000}b?){1,1000}",
        "((a{1,20}){1,20}){1,20}",
    ] {
        refused(Grammar::regex(pattern));
        refused(Grammar::lark(&format!("start: TEXT\nTEXT: /{pattern}/\n")));
    }
    let pattern = json!({"type": "string", "pattern": "^(a{1,1000}){1,1000}$"});
    refused(Grammar::json_schema(json!({"type": "object", "properties": {"x": pattern}, "required": ["x"]})));
    for pattern in [
        "[a-z]{1,2000}",
        "([0-9]{1,3}\\.){3}[0-9]{1,3}",
        "([a-z0-9]{1,63}\\.){1,10}[a-z]{2,63}",
        "([0-9a-f]{4}-){3}[0-9a-f]{12}",
        "(a{1,200}){1,10}",
        "([a-z]{1,20} ?){1,50}",
        "(ab?){1,1000}",
    ] {
        Guide::new(&vocabulary(), &Grammar::regex(pattern).unwrap(), &[END])
            .unwrap_or_else(|error| panic!("{pattern}: {error}"));
    }
}

#[test]
fn counts_within_counts_are_told_from_others() {
    let table = [
        ("(a{1,9}){1,9}", true),
        ("((a{,9}|b)c)+", true),
        ("(?:a{1,}b)*", true),
        ("(a{1,9}){2}", true),
        ("a{1,9}b{1,9}(c){3,5}", false),
        ("(a{9}){1,9}", false),
        ("(a{1,9})", false),
        ("\\(a{1,9}\\){1,9}", false),
        ("(a\\{1,9}){1,9}", false),
        (")){1,9}(", false),
    ];
    for (pattern, nests) in table {
        assert_eq!(Grammar::regex(pattern).unwrap().nests_counts(), nests, "{pattern}");
    }
}
