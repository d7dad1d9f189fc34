//! docs/cases.md names no test that is not there, and each that is named after a case.

use std::fs;
use std::path::Path;

use crate::support::root;

/// Folders that hold our code.
const FOLDERS: [&str; 6] = ["actors", "config", "gpu", "mlx-sys", "src", "tests"];

/// The text of every Rust file under `folder`.
fn read(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Whether this is how tests are named, and no field of a request.
fn is_test(word: &str) -> bool {
    word.matches('_').count() > 2
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[test]
fn every_test_that_the_page_of_cases_names_is_there() {
    let mut code = String::new();
    FOLDERS.iter().for_each(|folder| read(&root().join(folder), &mut code));
    let page = fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let mut found = 0;
    for row in page.lines().filter(|line| line.starts_with("| C")) {
        let (_, status) = row.trim_end_matches(" |").rsplit_once(" | ").expect(row);
        let tests: Vec<&str> = status.split('`').filter(|word| is_test(word)).collect();
        assert!(
            !tests.is_empty() || status.contains("waits for ") || status.contains("not applicable: "),
            "{row}"
        );
        for test in tests {
            assert!(code.contains(&format!("fn {test}()")), "{row}: there is no {test}");
            found += 1;
        }
    }
    assert!(found > 100, "{found} tests on the page");
}

/// The numbers of the cases that a test is named after; none if it is named after something else.
fn cases(test: &str) -> impl Iterator<Item = &str> {
    test.split('_').map_while(|word| {
        let number = word.strip_prefix('c')?;
        let number = number.strip_suffix('u').unwrap_or(number);
        (number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit())).then_some(number)
    })
}

#[test]
fn every_test_that_is_named_after_a_case_stands_in_its_row() {
    let mut code = String::new();
    FOLDERS.iter().for_each(|folder| read(&root().join(folder), &mut code));
    let page = fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let mut found = 0;
    for function in code.split("fn ").skip(1) {
        let Some((test, _)) = function.split_once("()").filter(|(name, _)| is_test(name)) else { continue };
        for case in cases(test) {
            let is_row =
                |line: &&str| [" ", "u "].iter().any(|end| line.starts_with(&format!("| C{case}{end}")));
            let row = page.lines().find(is_row).unwrap_or_else(|| panic!("{test}: there is no case {case}"));
            assert!(row.contains(&format!("`{test}`")), "{row} lacks {test}");
            found += 1;
        }
    }
    assert!(found > 150, "{found} tests by case");
}
