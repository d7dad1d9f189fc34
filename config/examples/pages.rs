//! Writes the pages that are made from the table of options.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(root.join("../docs"))?;
    std::fs::write(root.join("../docs/configuration.md"), troupe_config::docs::markdown())?;
    std::fs::write(root.join("troupe.example.toml"), troupe_config::docs::example())
}
