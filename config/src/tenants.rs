//! Tenants: an array of tables, `[[tenants]]`, each with the fields of one table of their own.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use crate::file::Source;
use crate::kind::Kind::{Choice, DigestList, Integer, Text, TextList};
use crate::kind::article;
use crate::suggest::nearest;
use crate::table::U32;
use crate::{ConfigError, DefaultValue, KeyDigest, Kind, Priority};

/// The key of the array.
pub(crate) const SECTION: &str = "tenants";

/// The tenant of requests without a key.
pub const ANONYMOUS: &str = "anonymous";

/// A tenant's share and limits. Fields are those of [`TENANT_FIELDS`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    /// Its name; no other has it.
    pub name: String,
    /// Of its keys. Empty for [`ANONYMOUS`] and for nobody else.
    pub api_keys_sha256: Vec<KeyDigest>,
    /// Share of the machine beside others that want it; from 1 to 1000.
    pub weight: u32,
    /// Sequences that run at once; at least one.
    pub max_running: Option<u32>,
    /// Sequences that wait.
    pub max_queued: Option<u32>,
    /// Requests that are taken in a minute; at least one.
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and answers in a minute; at least one.
    pub tokens_per_minute: Option<u32>,
    /// More urgent requests are treated as this.
    pub max_priority: Priority,
    /// Time of a request that does not say its own.
    pub timeout_seconds: Option<u32>,
    /// Names of models that it may ask for; empty for all.
    pub models: Vec<String>,
}

/// One field of a tenant, as a person may set it.
#[derive(Clone, Copy, Debug)]
pub struct TenantField {
    /// Its key in the tenant's table.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What it is when nobody sets it.
    pub default: DefaultValue,
    /// One sentence without a full stop, for the documentation.
    pub help: &'static str,
}

/// The field without which a tenant is none.
const NAME: &str = "name";
const KEYS: &str = "api_keys_sha256";

/// All fields of a tenant.
#[rustfmt::skip]
pub const TENANT_FIELDS: &[TenantField] = &[
    field(NAME, Text, DefaultValue::Unset("has to be given", "team-a"),
        "Name of the tenant in logs and /admin/scheduler; `anonymous` is the tenant of requests without a key"),
    field(KEYS, DigestList, DefaultValue::Value(""),
        "SHA-256 of each of its API keys"),
    field("weight", Integer { min: 1, max: 1_000 }, DefaultValue::Value("1"),
        "Share of the machine beside other tenants that want it"),
    field("max_running", Integer { min: 1, max: U32 }, DefaultValue::Unset("as many as there are slots", "4"),
        "Most sequences that run at once"),
    field("max_queued", Integer { min: 0, max: U32 }, DefaultValue::Unset("as many as scheduler.max_queued", "32"),
        "Most sequences that wait; further ones are answered with 429"),
    field("requests_per_minute", Integer { min: 1, max: U32 }, DefaultValue::Unset("no limit", "60"),
        "Most requests in a minute; further ones are answered with 429"),
    field("tokens_per_minute", Integer { min: 1, max: U32 }, DefaultValue::Unset("no limit", "100000"),
        "Most tokens of prompts and answers in a minute; further requests are answered with 429"),
    field("max_priority", Choice(&["interactive", "normal", "batch"]), DefaultValue::Value("interactive"),
        "Highest priority of its requests; those that ask for more get this"),
    field("timeout_seconds", Integer { min: 1, max: 86_400 }, DefaultValue::Unset("no limit", "300"),
        "Time that a request has if it does not say its own; after that it is answered with 504"),
    field("models", TextList, DefaultValue::Value(""),
        "Names of models that it may ask for; none means all"),
];

const fn field(name: &'static str, kind: Kind, default: DefaultValue, help: &'static str) -> TenantField {
    TenantField { name, kind, default, help }
}

/// One table of the file, with the places of what it says.
struct Entry<'a> {
    source: &'a Source<'a>,
    /// Its name in backticks, or its place.
    label: String,
    table: &'a DeTable<'a>,
    /// Where it begins.
    start: usize,
}

/// The tenants of a file, by name.
pub(crate) fn read(
    source: &Source<'_>,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<TenantConfig>, ConfigError> {
    let not_tables = |found: &Spanned<DeValue<'_>>| ConfigError::Value {
        key: SECTION,
        origin: source.origin(found.span().start),
        reason: format!("is {}, not an array of tables", article(found.get_ref())),
    };
    let DeValue::Array(items) = value.get_ref() else { return Err(not_tables(value)) };
    let mut tenants: BTreeMap<String, TenantConfig> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let DeValue::Table(table) = item.get_ref() else { return Err(not_tables(item)) };
        let label = match table.get(NAME).map(Spanned::get_ref) {
            Some(DeValue::String(name)) if !name.is_empty() => format!("`{name}`"),
            _ => format!("number {}", index + 1),
        };
        let entry = Entry { source, label, table, start: item.span().start };
        let tenant = entry.tenant()?;
        entry.check(&tenant, &tenants)?;
        tenants.insert(tenant.name.clone(), tenant);
    }
    Ok(tenants.into_values().collect())
}

impl Entry<'_> {
    fn tenant(&self) -> Result<TenantConfig, ConfigError> {
        for key in self.table.keys() {
            if !TENANT_FIELDS.iter().any(|field| field.name == key.get_ref()) {
                let near = nearest(key.get_ref(), TENANT_FIELDS.iter().map(|field| field.name));
                return Err(ConfigError::UnknownTenantKey {
                    tenant: self.label.clone(),
                    key: key.get_ref().to_string(),
                    origin: self.source.origin(key.span().start),
                    nearest: near.map(str::to_owned),
                });
            }
        }
        let mut values = Table::new();
        for field in TENANT_FIELDS {
            let value = match (self.table.get(field.name), field.default) {
                (Some(value), _) => field.kind.parse_toml(value.get_ref()).map(Some),
                (None, DefaultValue::Value(text)) => field.kind.parse_text(text).map(Some),
                (None, DefaultValue::Unset(..)) if field.name == NAME => Err("is not set".to_owned()),
                (None, DefaultValue::Unset(..)) => Ok(None),
            };
            let value: Option<Value> = value.map_err(|reason| self.wrong(field.name, reason))?;
            values.extend(value.map(|value| (field.name.to_owned(), value)));
        }
        // The kinds of the fields are narrower than the types of the struct's.
        values.try_into().map_err(|error: toml::de::Error| self.wrong(NAME, error.message().to_owned()))
    }

    /// Whether it can be told apart from those `before` it, and by whom it can be used.
    fn check(
        &self,
        tenant: &TenantConfig,
        before: &BTreeMap<String, TenantConfig>,
    ) -> Result<(), ConfigError> {
        if before.contains_key(&tenant.name) {
            return Err(self.wrong(NAME, "another tenant has this name".to_owned()));
        }
        match (tenant.name == ANONYMOUS, tenant.api_keys_sha256.is_empty()) {
            (true, false) => {
                let reason = "requests without a key are this tenant's, so it has no keys";
                return Err(self.wrong(KEYS, reason.to_owned()));
            }
            (false, true) => {
                return Err(self.wrong(KEYS, "is empty, so that nobody could be this tenant".to_owned()));
            }
            (true, true) | (false, false) => {}
        }
        for (index, key) in tenant.api_keys_sha256.iter().enumerate() {
            if tenant.api_keys_sha256[..index].contains(key) {
                return Err(self.wrong(KEYS, format!("{key} is there twice")));
            }
            if let Some(other) = before.values().find(|other| other.api_keys_sha256.contains(key)) {
                return Err(self.wrong(KEYS, format!("{key} is a key of tenant `{}` too", other.name)));
            }
        }
        Ok(())
    }

    fn wrong(&self, key: &'static str, reason: String) -> ConfigError {
        let start = self.table.get(key).map_or(self.start, |value| value.span().start);
        ConfigError::Tenant { tenant: self.label.clone(), key, origin: self.source.origin(start), reason }
    }
}
