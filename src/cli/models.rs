//! Which models lie in a folder. Nothing is opened here.

use std::io;
use std::path::{Path, PathBuf};

/// Where models are looked for.
pub(super) const DEFAULT_DIR: &str = "models";

/// How deep folders are searched: `models/owner/name` is as deep as hubs lay them out.
const MAX_DEPTH: usize = 3;

/// Paths of GGUF files, and of folders with a `config.json`, below `dir`, in order of their names. A model's
/// folder is not searched further.
///
/// # Errors
/// `dir` cannot be read. Folders below it that cannot be read are passed over.
pub(super) fn paths(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    search(dir, MAX_DEPTH, &mut found)?;
    found.sort();
    Ok(found)
}

fn search(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.join("config.json").is_file() {
                found.push(path);
            } else if depth > 1 {
                let _ = search(&path, depth - 1, found);
            }
        } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_found_to_a_depth() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            "b.GGUF",
            "a.txt",
            "owner/name/config.json",
            "owner/name/inside.gguf",
            "plain/config.json",
            "1/2/at-the-bound.gguf",
            "1/2/3/below-it.gguf",
        ];
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = paths(dir.path()).unwrap();
        let found: Vec<_> =
            found.iter().map(|p| p.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["1/2/at-the-bound.gguf", "b.GGUF", "owner/name", "plain"]);
        assert!(paths(&dir.path().join("nowhere")).is_err());
    }
}
