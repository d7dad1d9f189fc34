use super::*;
use crate::reasoning::Reasoning;

/// What is looked for at the same time. The matcher cannot tell a marker from another that begins with it.
fn sets(format: Format) -> Vec<Vec<&'static str>> {
    let syntax = format.call_syntax();
    let mut sets = vec![vec![syntax.call.begin, syntax.section.end]];
    for tags in Reasoning::known() {
        sets.push(syntax.begins().chain(format.silent().iter().copied()).chain([tags.begin]).collect());
        sets.push(syntax.begins().chain([tags.end]).collect());
    }
    match syntax.body {
        CallBody::Parameters(body) => {
            sets.push(vec![body.key.begin, body.end, syntax.call.end]);
            sets.push(vec![body.value.end.trim(), body.padding.map_or("", |padding| padding.end)]);
        }
        CallBody::NamedJson(body) => sets.push(body.head.iter().map(|(_, terminator)| *terminator).collect()),
        _ => {}
    }
    sets
}

#[test]
fn no_marker_begins_another_that_is_looked_for_with_it() {
    for format in Format::ALL {
        for set in sets(*format) {
            let set: Vec<&str> = set.into_iter().filter(|marker| !marker.is_empty()).collect();
            for (at, marker) in set.iter().enumerate() {
                let others = set.iter().enumerate().filter(|(other, _)| *other != at);
                for (_, other) in others {
                    assert!(!other.starts_with(marker), "{}: {marker:?} begins {other:?}", format.name());
                }
            }
        }
    }
}
