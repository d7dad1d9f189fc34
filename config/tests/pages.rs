//! The pages in the tree are the ones that the table makes.

use std::path::Path;

use troupe_config::{Config, OPTIONS, Sources, TENANT_FIELDS, docs};

const REMEDY: &str = "is out of date: run `cargo run -p troupe-config --example pages`";

fn in_tree(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_documentation_is_up_to_date() {
    assert!(in_tree("../docs/configuration.md") == docs::markdown(), "docs/configuration.md {REMEDY}");
}

#[test]
fn the_example_is_up_to_date() {
    assert!(in_tree("troupe.example.toml") == docs::example(), "config/troupe.example.toml {REMEDY}");
}

fn load(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::load(Sources { file: Some(file.path().into()), ..Sources::default() }).unwrap()
}

#[test]
fn the_example_changes_nothing_as_it_comes_and_sets_every_key_uncommented() {
    assert_eq!(load(&docs::example()), Config::load(Sources::default()).unwrap());
    let keys = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    let uncommented: Vec<&str> =
        docs::example().leak().lines().map(|l| if keys(l) { &l[1..] } else { l }).collect();
    assert_eq!(uncommented.iter().filter(|l| l.contains(" = ")).count(), OPTIONS.len() + TENANT_FIELDS.len());
    let config = load(&uncommented.join("\n"));
    assert_eq!(config.engine.kv_cache_memory, Some(512 << 20));
    assert_eq!(config.model.path.as_deref(), Some(Path::new("models/my-model")));
    assert_eq!(config.tenants[0].requests_per_minute, Some(60));
}
