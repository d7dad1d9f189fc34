//! Links of the pages lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::root;

/// The repository's pages: beside its manifest, and under docs/.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root(), root().join("docs"), root().join("docs/adr")];
    folders.retain(|folder| folder.is_dir());
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// What the links of a page lead to, without the part behind `#`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.split('#').next().unwrap_or_default());
    targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
}

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let mut found = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap_or(Path::new(""));
        for link in links(&text) {
            assert!(folder.join(link).exists(), "{}: {link} leads nowhere", page.display());
            found += 1;
        }
    }
    assert!(found > 20, "{found} links");
}
