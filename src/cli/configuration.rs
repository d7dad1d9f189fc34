//! From what was typed to a checked [`Config`].

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use troupe_config::{Config, ConfigError, OPTIONS, Origin, Sources, flags, unknown_variables};

use super::error::UsageError;
use super::models;

const FILE: &str = "config";
const FILE_VARIABLE: &str = "TROUPE_CONFIG";
/// Read without being asked for, if it lies in the working directory.
const FILE_BY_DEFAULT: &str = "troupe.toml";

/// Adds `--config` and the options of these sections to a command.
pub(super) fn add_options(command: Command, sections: &[&str]) -> Command {
    let file = Arg::new(FILE)
        .long(FILE)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("TOML file with further options [default: $TROUPE_CONFIG, else ./troupe.toml if there is one]");
    command.next_help_heading(None).arg(file).args(flags::args(sections))
}

/// The configuration that a command runs with.
///
/// # Errors
/// Whatever [`Config::load`] finds wrong.
pub(super) fn load(matches: &ArgMatches) -> Result<Config> {
    let variables = variables(std::env::vars_os())?;
    warn_of_unknown(&variables);
    let sources = Sources { file: file(matches, Path::new("")), variables, flags: flags::typed(matches) };
    Ok(Config::load(sources)?)
}

/// The same, for a command that needs a model: without one, the only model in `models/` is taken.
///
/// # Errors
/// Also if there is no model there, or more than one.
pub(super) fn load_with_model(matches: &ArgMatches) -> Result<Config> {
    let mut config = load(matches)?;
    if config.model.path.is_none() {
        config.model.path = Some(only_model(Path::new(models::DEFAULT_DIR))?);
    }
    Ok(config)
}

fn only_model(dir: &Path) -> Result<PathBuf, UsageError> {
    let mut found = models::paths(dir).unwrap_or_default();
    let only = found.pop().ok_or_else(|| {
        UsageError(format!("no model is given, and there is none in {}/: give --model PATH", dir.display()))
    })?;
    if found.is_empty() {
        return Ok(only);
    }
    found.push(only);
    let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    Err(UsageError(format!("there is more than one model: give --model with one of {}", names.join(", "))))
}

fn file(matches: &ArgMatches, working_dir: &Path) -> Option<PathBuf> {
    let typed = matches.get_one::<PathBuf>(FILE).cloned();
    let named = || std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let by_default = || Some(working_dir.join(FILE_BY_DEFAULT)).filter(|path| path.exists());
    typed.or_else(named).or_else(by_default)
}

/// Those that are text. A variable that is not text is somebody else's, unless it has the name of an option.
///
/// # Errors
/// [`ConfigError::Value`] for an option whose value is not text.
fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> Result<Vec<(String, String)>, ConfigError> {
    let read = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        if let Ok(value) = value.into_string() {
            return Some(Ok((name, value)));
        }
        let option = OPTIONS.iter().find(|option| option.variable() == name)?;
        let reason = "the value is not valid UTF-8".to_owned();
        Some(Err(ConfigError::Value { key: option.key, origin: Origin::Variable(name), reason }))
    };
    all.filter_map(read).collect()
}

fn warn_of_unknown(variables: &[(String, String)]) {
    for (name, near) in unknown_variables(variables) {
        let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        let _ = writeln!(std::io::stderr(), "warning: variable {name} is no option of ours{hint}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(words: &[&str]) -> ArgMatches {
        add_options(Command::new("test"), &["server"]).get_matches_from(words)
    }

    #[test]
    fn a_file_in_the_working_directory_is_read_unless_another_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(file(&matches(&["test"]), dir.path()), None);
        let there = dir.path().join(FILE_BY_DEFAULT);
        std::fs::write(&there, "").unwrap();
        assert_eq!(file(&matches(&["test"]), dir.path()), Some(there));
        assert_eq!(file(&matches(&["test", "--config", "other"]), dir.path()), Some("other".into()));
    }

    #[cfg(unix)]
    #[test]
    fn an_option_that_is_no_text_is_refused_and_what_is_not_ours_is_passed_over() {
        use std::os::unix::ffi::OsStringExt as _;
        let broken = || OsString::from_vec(b"\xff".to_vec());
        let read = |name: OsString| variables([(name, broken()), ("A".into(), "b".into())].into_iter());
        let rest = vec![("A".to_owned(), "b".to_owned())];
        // The file's name may be any path, and it is not read as text.
        for name in [broken(), "PATH".into(), "TROUPE_OF_ANOTHER".into(), FILE_VARIABLE.into()] {
            assert_eq!(read(name).unwrap(), rest);
        }
        for option in OPTIONS {
            let expected =
                format!("{} (variable {}): the value is not valid UTF-8", option.key, option.variable());
            assert_eq!(read(option.variable().into()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_model_is_chosen_only_if_it_is_the_only_one() {
        let dir = tempfile::tempdir().unwrap();
        let message = only_model(dir.path()).unwrap_err().to_string();
        assert!(message.starts_with("no model is given, and there is none in "), "{message}");
        let first = dir.path().join("a.gguf");
        std::fs::write(&first, "").unwrap();
        assert_eq!(only_model(dir.path()).unwrap(), first);
        std::fs::write(dir.path().join("b.gguf"), "").unwrap();
        let message = only_model(dir.path()).unwrap_err().to_string();
        assert!(message.starts_with("there is more than one model: give --model with one of "), "{message}");
        assert!(message.contains("a.gguf, ") && message.ends_with("b.gguf"), "{message}");
    }
}
