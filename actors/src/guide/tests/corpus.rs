//! The JSON Schema project's test suite for draft 2020-12, as constraints: no document that is invalid may be said, by any
//! schema that compiles.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::{END, Grammar, Guide, Vocabulary, accepts, vocabulary};

/// What is left over by the suite's files.
#[derive(Debug, Default)]
struct Count {
    schemas: usize,
    compiled: usize,
    valid: usize,
    /// Valid documents that may not be said nevertheless.
    over_strict: usize,
    invalid: usize,
    violations: Vec<String>,
}

impl Count {
    fn add_group(&mut self, vocabulary: &Arc<Vocabulary>, file: &str, group: &Value) {
        self.schemas += 1;
        let grammar = Grammar::json_schema(group["schema"].clone());
        let guide = grammar.and_then(|grammar| Guide::new(vocabulary, &grammar, &[END]));
        let guide = match guide {
            Ok(guide) => guide,
            Err(error) => return println!("{file}: {}: refused: {error}", group["description"]),
        };
        self.compiled += 1;
        for test in group["tests"].as_array().into_iter().flatten() {
            let data = &test["data"];
            let texts = [data.to_string(), serde_json::to_string_pretty(data).unwrap()];
            let said = texts.iter().any(|text| accepts(guide.clone(), text));
            let name = format!("{file}: {}: {}", group["description"], test["description"]);
            if test["valid"].as_bool().unwrap() {
                self.valid += 1;
                if !said {
                    self.over_strict += 1;
                    println!("{name}: over-strict");
                }
            } else {
                self.invalid += 1;
                if said {
                    self.violations.push(name);
                }
            }
        }
    }
}

#[test]
fn what_compiles_of_the_suite_never_yields_an_invalid_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/test/json-schema");
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("make test-deps").map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let (vocabulary, mut count) = (vocabulary(), Count::default());
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy();
        let groups: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        groups.as_array().unwrap().iter().for_each(|group| count.add_group(&vocabulary, &name, group));
    }
    let Count { schemas, compiled, valid, over_strict, invalid, ref violations } = count;
    println!("{compiled} of {schemas} schemas compile ({}%)", 100 * compiled / schemas);
    println!("{over_strict} of {valid} valid documents may not be said");
    println!("{} of {invalid} invalid documents may be said", violations.len());
    assert!(violations.is_empty(), "{violations:#?}");
    // The rest are keywords that are refused by name, and references to other documents.
    assert!(compiled * 5 >= schemas * 2 && over_strict * 10 < valid && invalid > 200, "{count:?}");
}
