//! Where clap and the table meet: one argument an option, built at run time.
//!
//! Values are kept as they were typed and read by the option's kind, so that a flag, a variable and
//! a file are refused in the same words.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches};

use crate::{DefaultValue, Kind, OPTIONS, OptionSpec, SECTIONS};

/// Arguments for all options of these sections (by name), each under its section's heading.
pub fn args(sections: &[&str]) -> Vec<Arg> {
    OPTIONS.iter().filter(|o| sections.contains(&o.section_and_name().0)).map(arg).collect()
}

/// What was typed for options that have an argument in this command.
pub fn typed(matches: &ArgMatches) -> Vec<(&'static OptionSpec, String)> {
    let values = |option: &OptionSpec| {
        let values = matches.try_get_many::<String>(option.key).ok()??;
        Some(values.cloned().collect::<Vec<_>>().join(","))
    };
    OPTIONS.iter().filter_map(|option| Some((option, values(option)?))).collect()
}

fn arg(option: &'static OptionSpec) -> Arg {
    let (section, _) = option.section_and_name();
    let title = SECTIONS.iter().find(|s| s.name == section).map_or(section, |s| s.title);
    let mut arg = Arg::new(option.key)
        .long(option.flag)
        .value_name(option.kind.metavar())
        .help(help(option))
        .help_heading(title)
        .action(ArgAction::Set);
    if let Some(short) = option.short {
        arg = arg.short(short);
    }
    match option.kind {
        Kind::TextList | Kind::DigestList => arg.action(ArgAction::Append),
        Kind::Choice(words) => arg.value_parser(PossibleValuesParser::new(words)).hide_possible_values(false),
        // A negative number is refused by its name, not taken for an unknown flag.
        Kind::Integer { .. } | Kind::PowerOfTwo { .. } => arg.allow_negative_numbers(true),
        Kind::Text | Kind::Path | Kind::Size { .. } | Kind::Digest => arg,
    }
}

fn help(option: &OptionSpec) -> String {
    match option.default {
        DefaultValue::Value("") => option.help.to_owned(),
        DefaultValue::Value(text) => format!("{} [default: {text}]", option.help),
        DefaultValue::Unset(words, _) => format!("{} [default: {words}]", option.help),
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn command() -> Command {
        let sections: Vec<&str> = SECTIONS.iter().map(|s| s.name).collect();
        Command::new("test").args(args(&sections))
    }

    #[test]
    fn every_option_has_a_flag_that_reaches_its_key() {
        command().debug_assert();
        for option in OPTIONS {
            let text = match option.kind {
                Kind::Choice(words) => words[0],
                _ => "7",
            };
            let matches =
                command().try_get_matches_from(["test", &format!("--{}", option.flag), text]).unwrap();
            let typed = typed(&matches);
            assert_eq!(typed.len(), 1);
            assert_eq!((typed[0].0.key, typed[0].1.as_str()), (option.key, text));
        }
    }

    #[test]
    fn a_list_may_be_repeated() {
        let matches =
            command().try_get_matches_from(["test", "--model-alias", "a", "--model-alias", "b,c"]).unwrap();
        assert_eq!(typed(&matches)[0].1, "a,b,c");
    }
}
