//! Pages made from the table. `cargo run -p troupe-config --example pages` writes them; a test compares.

use std::fmt::Write as _;

use crate::table::EXAMPLE_DIGEST;
use crate::{DefaultValue, Kind, OPTIONS, OptionSpec, SECTIONS, Section, TENANT_FIELDS};

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
- `cache.dir` and `cache.size` are set only where something is cached: not with `cache.share = \"off\"`.
- No name in `model.aliases` is also `model.id`.
";

const STORE: &str = "
## What `cache.dir` holds

A file for each model, `FINGERPRINT.blocks`, and `key`, without which no block is found again. The file is reserved at its
full size when the server starts; a server that finds the file in use by another does not start.

- The file is private: keys and values tell what the prompts were. Only its owner may read it, and it is not encrypted.
- Its blocks are used only by a server that would compute the same bytes: the same model files, program, device, and
  options that keys and values depend on. For any other, the file is made anew.
- Each block has a checksum, verified at the start, which reads all that is stored, and again before a block is used. A
  damaged file is made anew, and one line of the log says why.
- With another `cache.size`, the blocks stay that still have a place.
- Whatever is in the folder may be deleted while no server uses it.
";

const TENANTS: &str = "
## Tenants `[[tenants]]`

Whom the server serves, and how much of it is theirs: any number of tables, each with a name of its own. They can be set
in the file only.

```toml
[[tenants]]
name = \"research\"
api_keys_sha256 = [\"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"]
weight = 3
tokens_per_minute = 200000
```

The file holds digests, not keys. `openssl rand -hex 32` makes a key, and `printf %s KEY | sha256sum` its digest (the one
above is that of `secret`; macOS has `shasum -a 256`). A client sends its key as `Authorization: Bearer KEY` or
`x-api-key: KEY`.

- If no tenant has a key, no key is asked for: everybody is the tenant `anonymous`.
- If one has, a request without a key is answered with 401, unless a tenant named `anonymous` is configured: then it is
  that tenant's. A key that is nobody's is answered with 401 in any case.
- `/health`, `/ready` and `/metrics` need no key.

SIGHUP makes the server read its configuration again. Tenants and `admin.key_sha256` change at once, and running answers
go on; any other option that changed is named in the log, and needs a restart. A configuration that cannot be read changes
nothing. Nor does one without API keys if the server asks for keys, since an emptied or half-written file would open it to
everybody: a warning says so, and only a restart opens the server.
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
            let _ = writeln!(page, "- Default: {}", default_words(option.default));
        }
    }
    page += STORE;
    page += TENANTS;
    for field in TENANT_FIELDS {
        let _ = write!(page, "\n### `tenants.{}`\n\n{}.\n\n", field.name, field.help);
        let _ = writeln!(page, "- Takes: {}", field.kind.describe());
        let _ = writeln!(page, "- Default: {}", default_words(field.default));
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
            let _ = writeln!(file, "#{name} = {}", toml_value(option.kind, option.default));
        }
    }
    file += "\n# Any number of these, each with another name.\n#[[tenants]]\n";
    for field in TENANT_FIELDS {
        let _ = writeln!(file, "# {}.", field.help);
        if let DefaultValue::Unset(words, _) = field.default {
            let _ = writeln!(file, "# Unset: {words}.");
        }
        let _ = writeln!(file, "#{} = {}", field.name, toml_value(field.kind, field.default));
    }
    file
}

fn of(section: &Section) -> impl Iterator<Item = &'static OptionSpec> {
    let name = section.name;
    OPTIONS.iter().filter(move |option| option.section_and_name().0 == name)
}

fn default_words(default: DefaultValue) -> String {
    match default {
        DefaultValue::Value("") => "none".to_owned(),
        DefaultValue::Value(text) => format!("`{text}`"),
        DefaultValue::Unset(words, _) => words.to_owned(),
    }
}

/// The default as TOML, or a value that shows the form of an option without one.
fn toml_value(kind: Kind, default: DefaultValue) -> String {
    let (DefaultValue::Value(text) | DefaultValue::Unset(_, text)) = default;
    match kind {
        Kind::Integer { .. } | Kind::PowerOfTwo { .. } => text.to_owned(),
        Kind::TextList => "[]".to_owned(),
        Kind::DigestList => format!("[\"{EXAMPLE_DIGEST}\"]"),
        Kind::Text | Kind::Path | Kind::Choice(_) | Kind::Size { .. } | Kind::Digest => format!("\"{text}\""),
    }
}
