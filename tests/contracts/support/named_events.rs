//! Streams of events with names, as the Responses and Messages APIs send them.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::client::Body;

/// Events as they come. Dropping it closes the socket.
pub struct NamedEvents {
    body: BufReader<Body>,
}

impl NamedEvents {
    pub fn new(body: Body) -> Self {
        Self { body: BufReader::new(body) }
    }

    /// The data of the events up to and including the first of this name.
    pub fn until(&mut self, name: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        for data in self.by_ref() {
            let is_last = data["type"] == name;
            seen.push(data);
            if is_last {
                return seen;
            }
        }
        panic!("no {name} in {seen:?}")
    }
}

impl Iterator for NamedEvents {
    type Item = Value;

    /// An event is a line of its name, one of its data, which repeat the name as `type`, and an empty one.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = || {
                let mut line = String::new();
                self.body.read_line(&mut line).unwrap();
                line
            };
            let first = line();
            if first.is_empty() {
                return None;
            }
            if first.starts_with(':') {
                assert_eq!(line(), "\n");
                continue;
            }
            let name =
                first.trim_end().strip_prefix("event: ").unwrap_or_else(|| panic!("{first:?}")).to_owned();
            let second = line();
            let data = second.strip_prefix("data: ").unwrap_or_else(|| panic!("{second:?}"));
            let data: Value = serde_json::from_str(data).expect(data);
            assert_eq!(line(), "\n", "after {data}");
            assert_eq!(data["type"], name.as_str());
            return Some(data);
        }
    }
}
