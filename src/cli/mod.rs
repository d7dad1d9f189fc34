//! The command line: one file a subcommand, one line each in [`SUBCOMMANDS`].
//!
//! Subcommands parse, call, and print. What they call lives elsewhere: `boot` for everything that computes,
//! `bench` for the load generator, `troupe-model-files` for what is in a model's files.

mod bench;
mod budget;
mod configuration;
mod error;
mod generate;
mod inspect;
mod list;
mod memory;
mod models;
mod run;
mod sampling;
mod serve;
mod units;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, Command};

/// One subcommand.
struct Subcommand {
    /// Its arguments and help.
    command: fn() -> Command,
    /// What it does.
    run: fn(&ArgMatches) -> anyhow::Result<()>,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { command: serve::command, run: serve::run },
    Subcommand { command: generate::command, run: generate::run },
    Subcommand { command: run::command, run: run::run },
    Subcommand { command: list::command, run: list::run },
    Subcommand { command: inspect::command, run: inspect::run },
    Subcommand { command: bench::command, run: bench::run },
];

/// The whole program. Exits with 0, with 1 for what failed, and with 2 for what was asked in a wrong way.
pub fn main() -> ExitCode {
    ExitCode::from(exit_code(std::env::args_os()))
}

fn exit_code(words: impl IntoIterator<Item = OsString>) -> u8 {
    let matches = match command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version arrive here too, and go to stdout. If nobody reads them, nobody is missing them.
            let _ = error.print();
            return if error.use_stderr() { error::USAGE } else { error::SUCCESS };
        }
    };
    match dispatch(&matches) {
        Ok(()) => error::SUCCESS,
        Err(failure) => error::report(&failure),
    }
}

fn command() -> Command {
    Command::new("troupe")
        .about("A multi-tenant inference server on MLX")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(110)
        .subcommands(SUBCOMMANDS.iter().map(|subcommand| (subcommand.command)()))
}

fn dispatch(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    match SUBCOMMANDS.iter().find(|subcommand| (subcommand.command)().get_name() == name) {
        Some(subcommand) => (subcommand.run)(matches),
        None => Ok(()),
    }
}

/// The examples at the end of a subcommand's help.
fn examples(lines: &[&str]) -> String {
    format!("Examples:\n  {}", lines.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_agree_with_each_other() {
        command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_help_with_examples_that_parse() {
        for subcommand in SUBCOMMANDS {
            let command = (subcommand.command)();
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no help");
            let examples = command.get_after_help().expect(name).to_string();
            let mut examples = examples.lines().map(str::trim).filter(|line| line.starts_with("troupe "));
            let first = examples.next().expect(name);
            for line in std::iter::once(first).chain(examples) {
                let words = split(line.split(" | ").next().unwrap());
                let parsed = super::command().try_get_matches_from(&words);
                assert_eq!(parsed.expect(line).subcommand_name(), Some(name), "{line}");
            }
        }
    }

    #[test]
    fn every_argument_has_help() {
        for subcommand in SUBCOMMANDS {
            let command = (subcommand.command)();
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn exit_codes_tell_usage_from_failure() {
        let table: [(&[&str], u8); 10] = [
            (&["--help"], error::SUCCESS),
            (&["bench", "--help"], error::SUCCESS),
            (&[], error::USAGE),
            (&["server"], error::USAGE),
            (&["serve", "--prot", "1"], error::USAGE),
            (&["serve", "--port", "65536"], error::USAGE),
            (&["serve", "--max-num-seqs", "-1"], error::USAGE),
            (&["serve", "--config", "/nowhere/troupe.toml"], error::USAGE),
            (&["inspect", "/nowhere"], error::FAILURE),
            (&["bench", "--url", "https://localhost"], error::FAILURE),
        ];
        for (words, code) in table {
            let line = std::iter::once("troupe").chain(words.iter().copied()).map(OsString::from);
            assert_eq!(exit_code(line), code, "{words:?}");
        }
    }

    /// Words of a line as a shell splits them, double quotes included.
    fn split(line: &str) -> Vec<String> {
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(i, part)| match i % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }
}
