use super::*;

#[test]
fn python_becomes_json() {
    for (python, json) in [
        ("'a\"b'", Some(r#""a\"b""#)),
        (r#""it's \x41\u00e9\n\q""#, Some(r#""it's Aé\n\\q""#)),
        ("[True, None, 1.5, (1, 2,), {}]", Some("[true,null,1.5,[1,2],{}]")),
        ("{'a': {'b': []}, \"c\": -3}", Some(r#"{"a":{"b":[]},"c":-3}"#)),
        ("1_000", Some("1000")),
        ("+5", Some("5")),
        (".5", Some("0.5")),
        ("True", Some("true")),
        ("1e5", Some("1e5")),
        ("maybe", None),
        ("[1", None),
        ("{1: 2}", None),
        ("[1] x", None),
        ("", None),
        ("--1", None),
        ("inf", None),
        ("(1]", None),
    ] {
        assert_eq!(python_to_json(python).as_deref(), json, "{python}");
    }
}

#[test]
fn braces_become_json() {
    let style = Style::Braced { quote: "<|\"|>" };
    let text = "{a:<|\"|>x\\ \"<y<|\"|>, b c :[1,true,None,{}],d:word,e:{f:<|\"|><|\"|>}}";
    let (mut literal, mut out) = (Literal::new(style), String::new());
    let mut progress = Progress::More;
    for character in text.chars() {
        progress = literal.feed(Symbol::Char(character), &Strict::default(), &mut out).unwrap();
    }
    assert_eq!(progress, Progress::Done);
    assert_eq!(out, r#"{"a":"x\\ \"<y","b c":[1,true,null,{}],"d":"word","e":{"f":""}}"#);
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(python_to_json(&nested(MAX_DEPTH as usize)).is_some());
    assert!(python_to_json(&nested(MAX_DEPTH as usize + 1)).is_none());
}
