use super::*;

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
