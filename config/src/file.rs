//! Reading a TOML file, key by key, so that every error can name its line.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::layer::Setting;
use crate::suggest::nearest;
use crate::{ConfigError, OPTIONS, OptionSpec, Origin, SECTIONS, TenantConfig, tenants};

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) settings: Vec<Setting>,
    pub(crate) tenants: Vec<TenantConfig>,
}

/// What the file at `path` says.
pub(crate) fn read(path: &Path) -> Result<Contents, ConfigError> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: name.clone(), source })?;
    Source { name, text: &text }.contents()
}

pub(crate) struct Source<'a> {
    name: String,
    text: &'a str,
}

impl Source<'_> {
    fn contents(&self) -> Result<Contents, ConfigError> {
        let root = DeTable::parse(self.text).map_err(|error| self.syntax(&error))?;
        let mut contents = Contents::default();
        for (section, value) in root.get_ref() {
            if section.get_ref() == tenants::SECTION {
                contents.tenants = tenants::read(self, value)?;
                continue;
            }
            let DeValue::Table(fields) = value.get_ref() else {
                let name = section.get_ref();
                let near = nearest_name(name).or_else(|| nearest(name, [tenants::SECTION]));
                return Err(self.unknown(section, name, near));
            };
            let names = || SECTIONS.iter().map(|s| s.name).chain([tenants::SECTION]);
            if !names().any(|name| name == section.get_ref()) {
                return Err(self.unknown(section, section.get_ref(), nearest(section.get_ref(), names())));
            }
            for (name, value) in fields {
                contents.settings.push(self.setting(section.get_ref(), name, value)?);
            }
        }
        Ok(contents)
    }

    fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        let place =
            self.text.get(span.clone()).filter(|text| !text.trim().is_empty() && !text.contains('\n'));
        let place = place.map(|text| format!(" `{text}`")).unwrap_or_default();
        ConfigError::Syntax {
            origin: self.origin(span.start),
            message: format!("{}{place}", error.message()),
        }
    }

    fn setting(
        &self,
        section: &str,
        name: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Setting, ConfigError> {
        let key = format!("{section}.{}", name.get_ref());
        let Some(option) = OptionSpec::find(&key) else {
            return Err(self.unknown(name, &key, nearest(&key, OPTIONS.iter().map(|o| o.key))));
        };
        let origin = self.origin(value.span().start);
        match option.kind.parse_toml(value.get_ref()) {
            Ok(value) => Ok(Setting { option, value, origin }),
            Err(reason) => Err(ConfigError::Value { key: option.key, origin, reason }),
        }
    }

    fn unknown(&self, at: &Spanned<DeString<'_>>, key: &str, nearest: Option<&str>) -> ConfigError {
        ConfigError::UnknownKey {
            key: key.to_owned(),
            origin: self.origin(at.span().start),
            nearest: nearest.map(str::to_owned),
        }
    }

    pub(crate) fn origin(&self, offset: usize) -> Origin {
        let before = self.text.get(..offset).unwrap_or(self.text);
        Origin::File { path: self.name.clone(), line: before.matches('\n').count() + 1 }
    }
}

/// The key whose last part looks most like `name`: an option written without its section.
fn nearest_name(name: &str) -> Option<&'static str> {
    let names = OPTIONS.iter().map(|o| o.section_and_name().1);
    let near = nearest(name, names)?;
    OPTIONS.iter().find(|o| o.section_and_name().1 == near).map(|o| o.key)
}
