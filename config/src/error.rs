//! What can be wrong with a configuration, and where it was written.

use std::fmt;

use thiserror::Error;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// A configuration file.
    File {
        /// The file.
        path: String,
        /// The line, from one.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag, without its dashes.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File { path, line } => write!(f, "{path}, line {line}"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// What an option is, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The option.
    pub key: &'static str,
    /// Its value, as TOML.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.origin)
    }
}

/// Why there is no configuration. All of them are the user's to mend.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration file {path}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: {message}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// What the parser says.
        message: String,
    },
    /// There is no such option.
    #[error("{origin}: there is no option `{key}`{}", did_you_mean(.nearest.as_deref()))]
    UnknownKey {
        /// What was written.
        key: String,
        /// Where.
        origin: Origin,
        /// The option that looks most like it.
        nearest: Option<String>,
    },
    /// The option does not take this value.
    #[error("{key} ({origin}): {reason}")]
    Value {
        /// The option.
        key: &'static str,
        /// Where it was set.
        origin: Origin,
        /// What is wrong, with the value and the bound.
        reason: String,
    },
    /// A tenant's option does not take this value.
    #[error("tenant {tenant}: {key} ({origin}): {reason}")]
    Tenant {
        /// Its name in backticks, or its place if it has none.
        tenant: String,
        /// The option.
        key: &'static str,
        /// Where it was set.
        origin: Origin,
        /// What is wrong, with the value and the bound.
        reason: String,
    },
    /// Tenants have no such option.
    #[error("{origin}: tenant {tenant} has no option `{key}`{}", did_you_mean(.nearest.as_deref()))]
    UnknownTenantKey {
        /// Its name in backticks, or its place if it has none.
        tenant: String,
        /// What was written.
        key: String,
        /// Where.
        origin: Origin,
        /// The option that looks most like it.
        nearest: Option<String>,
    },
    /// Two options do not go together.
    #[error("{} {reason} {}", .options[0], .options[1])]
    Conflict {
        /// Both, in the order of the sentence.
        options: Box<[InForce; 2]>,
        /// What the first one must not be to the second.
        reason: &'static str,
    },
    /// An option without a default was not set.
    #[error("{key} is not set: give --{flag}, {variable}, or {key} in the configuration file")]
    Missing {
        /// The option.
        key: &'static str,
        /// Its flag.
        flag: &'static str,
        /// Its environment variable.
        variable: String,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
