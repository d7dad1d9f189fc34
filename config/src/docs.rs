//! Pages made from the table. `cargo run -p troupe-config --example pages` writes them; a test compares.

use std::fmt::Write as _;

use crate::{DefaultValue, Kind, OPTIONS, OptionSpec, SECTIONS, Section};

const INTRODUCTION: &str = "\
# Configuration

Every option can be set in four places. The first one that says something wins:

1. a flag of the command line (`--port 9000`)
2. an environment variable (`TROUPE_SERVER_PORT=9000`; an empty one counts as unset)
3. a TOML file (`[server]`, `port = 9000`): the one given by `--config FILE` or `TROUPE_CONFIG`, else `troupe.toml` in
   the working directory if there is one
4. the default

A flag, key or value that Troupe does not know is an error that names the key, the place and the nearest known key. An
unknown variable named like ours is a warning only, since orchestrators set variables too.
`config/troupe.example.toml` holds every key with its default.

Sizes are bytes, or text with a unit: kB, MB, GB and TB count in 1000, KiB, MiB, GiB and TiB in 1024. Relative paths start
at the working directory.
";

const EXAMPLE_HEAD: &str = "\
# Every option of Troupe, commented, with its default (or an example where there is none).
# Read by `troupe serve --config troupe.toml`, and without a flag if it lies in the working directory.
";

const TOGETHER: &str = "
## Options that must go together

- `engine.max_num_batched_tokens` is at least `engine.max_num_seqs`: every running sequence has a token in a step.
- No name in `model.aliases` is also `model.id`.
";

/// `docs/configuration.md`.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for section in SECTIONS {
        let _ = write!(page, "\n## {} `[{}]`\n", section.title, section.name);
        for option in of(section) {
            let _ = write!(page, "\n### `{}`\n\n{}.\n\n", option.key, option.help);
            let short = option.short.map(|s| format!("`-{s}`, ")).unwrap_or_default();
            let _ = writeln!(page, "- Flag: {short}`--{} {}`", option.flag, option.kind.metavar());
            let _ = writeln!(page, "- Variable: `{}`", option.variable());
            let _ = writeln!(page, "- Takes: {}", option.kind.describe());
            let _ = writeln!(page, "- Default: {}", default_words(option));
        }
    }
    page + TOGETHER
}

/// `config/troupe.example.toml`: every key, commented, with its default or an example.
pub fn example() -> String {
    let mut file = EXAMPLE_HEAD.to_owned();
    for section in SECTIONS {
        let _ = write!(file, "\n[{}]\n", section.name);
        for option in of(section) {
            let (_, name) = option.section_and_name();
            let _ = writeln!(file, "# {}.", option.help);
            if let DefaultValue::Unset(words, _) = option.default {
                let _ = writeln!(file, "# Unset: {words}.");
            }
            let _ = writeln!(file, "#{name} = {}", toml_value(option));
        }
    }
    file
}

fn of(section: &Section) -> impl Iterator<Item = &'static OptionSpec> {
    let name = section.name;
    OPTIONS.iter().filter(move |option| option.section_and_name().0 == name)
}

fn default_words(option: &OptionSpec) -> String {
    match option.default {
        DefaultValue::Value("") => "none".to_owned(),
        DefaultValue::Value(text) => format!("`{text}`"),
        DefaultValue::Unset(words, _) => words.to_owned(),
    }
}

/// The default as TOML, or a value that shows the form of an option without one.
fn toml_value(option: &OptionSpec) -> String {
    let (DefaultValue::Value(text) | DefaultValue::Unset(_, text)) = option.default;
    match option.kind {
        Kind::Integer { .. } | Kind::PowerOfTwo { .. } => text.to_owned(),
        Kind::TextList => "[]".to_owned(),
        Kind::Text | Kind::Path | Kind::Choice(_) | Kind::Size { .. } => format!("\"{text}\""),
    }
}
