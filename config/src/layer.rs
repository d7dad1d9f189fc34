//! Layers of settings, and how they are merged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::{Table, Value};

use crate::suggest::nearest;
use crate::table::VARIABLE_PREFIX;
use crate::{Config, ConfigError, DefaultValue, OPTIONS, OptionSpec, Origin, SECTIONS, check, file};

/// One option, set somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) option: &'static OptionSpec,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// What is in force for each key.
pub(crate) type Settings = BTreeMap<&'static str, Setting>;

/// Where settings come from, in rising precedence. The defaults lie below all of them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables; those of other programs are passed over, and an empty one counts as unset.
    pub variables: Vec<(String, String)>,
    /// Flags as they were typed: option and values ([`crate::flags::typed`]).
    pub flags: Vec<(&'static OptionSpec, String)>,
}

impl Config {
    /// Merges the sources over the defaults and checks the whole.
    ///
    /// # Errors
    /// The first thing that is wrong, with the place where it was written.
    pub fn load(sources: Sources) -> Result<Self, ConfigError> {
        let from_file = match &sources.file {
            Some(path) => file::read(path)?,
            None => file::Contents::default(),
        };
        let layers =
            [defaults()?, from_file.settings, variables(&sources.variables)?, flags(&sources.flags)?];
        let settings: Settings = layers.into_iter().flatten().map(|s| (s.option.key, s)).collect();
        let mut config = typed(&settings)?;
        config.tenants = from_file.tenants;
        config.origins = settings.values().map(|set| (set.option.key, set.origin.clone())).collect();
        check::together(&config, &settings)?;
        Ok(config)
    }
}

/// Variables under our prefix that are no options and have a reader: the file's name, the key of `troupe bench`, and
/// what the scripts and tests of the repository look at.
const OTHER_VARIABLES: [&str; 4] = ["TROUPE_CONFIG", "TROUPE_API_KEY", "TROUPE_WHEELS", "TROUPE_SANITIZE"];

/// Variables that look like ours and that nobody reads, each with the option's that looks most like it. They
/// deserve a warning, not an error: an orchestrator may set variables under our prefix.
pub fn unknown_variables(variables: &[(String, String)]) -> Vec<(String, Option<String>)> {
    let known: Vec<String> = OPTIONS.iter().map(OptionSpec::variable).collect();
    let is_read = |name: &String| known.contains(name) || OTHER_VARIABLES.contains(&name.as_str());
    let names = variables.iter().map(|(name, _)| name);
    names
        .filter(|name| name.starts_with(VARIABLE_PREFIX) && !is_read(name))
        .map(|name| (name.clone(), nearest(name, known.iter().map(String::as_str)).map(str::to_owned)))
        .collect()
}

fn setting(option: &'static OptionSpec, text: &str, origin: Origin) -> Result<Setting, ConfigError> {
    match option.kind.parse_text(text) {
        Ok(value) => Ok(Setting { option, value, origin }),
        Err(reason) => Err(ConfigError::Value { key: option.key, origin, reason }),
    }
}

fn defaults() -> Result<Vec<Setting>, ConfigError> {
    let set = OPTIONS.iter().filter_map(|option| match option.default {
        DefaultValue::Value(text) => Some(setting(option, text, Origin::Default)),
        DefaultValue::Unset(..) => None,
    });
    set.collect()
}

fn variables(variables: &[(String, String)]) -> Result<Vec<Setting>, ConfigError> {
    let set = OPTIONS.iter().filter_map(|option| {
        let name = option.variable();
        let (_, text) = variables.iter().find(|(set, text)| *set == name && !text.is_empty())?;
        Some(setting(option, text, Origin::Variable(name)))
    });
    set.collect()
}

fn flags(flags: &[(&'static OptionSpec, String)]) -> Result<Vec<Setting>, ConfigError> {
    flags.iter().map(|(option, text)| setting(option, text, Origin::Flag(option.flag))).collect()
}

/// Tables of the merged values, read into the typed struct.
fn typed(settings: &Settings) -> Result<Config, ConfigError> {
    let mut tree = Table::new();
    for section in SECTIONS {
        tree.insert(section.name.to_owned(), Value::Table(Table::new()));
    }
    for setting in settings.values() {
        let (section, name) = setting.option.section_and_name();
        if let Some(Value::Table(fields)) = tree.get_mut(section) {
            fields.insert(name.to_owned(), setting.value.clone());
        }
    }
    // The table's kinds are narrower than the fields' types, so this fails only where the two disagree.
    tree.try_into().map_err(|error: toml::de::Error| ConfigError::Syntax {
        origin: Origin::Default,
        message: error.message().to_owned(),
    })
}
