//! Checks that no option can make alone.

use crate::error::InForce;
use crate::layer::Settings;
use crate::{CacheShare, Config, ConfigError, Origin, TenantConfig};

/// The first pair of options that do not go together.
pub(crate) fn together(config: &Config, settings: &Settings) -> Result<(), ConfigError> {
    let engine = &config.engine;
    // Every running sequence has a row of at least one token in a step: with less room some would never move.
    if let (Some(tokens), Some(seqs)) = (engine.max_num_batched_tokens, engine.max_num_seqs)
        && tokens < seqs
    {
        return Err(conflict(
            settings,
            "engine.max_num_batched_tokens",
            "is less than",
            "engine.max_num_seqs",
        ));
    }
    // Nobody would ever look for what is kept.
    let kept = [("cache.dir", config.cache.dir.is_some()), ("cache.size", config.cache.size.is_some())];
    if let Some((key, _)) = kept.into_iter().find(|(_, set)| *set && config.cache.share == CacheShare::Off) {
        return Err(conflict(settings, key, "is of no use with", "cache.share"));
    }
    if let Some(alias) = config.model.aliases.iter().find(|alias| config.model.id.as_ref() == Some(*alias)) {
        return Err(ConfigError::Value {
            key: "model.aliases",
            origin: in_force(settings, "model.aliases").origin,
            reason: format!("`{alias}` is already the value of model.id"),
        });
    }
    let is_admins = |tenant: &&TenantConfig| {
        tenant.api_keys_sha256.iter().any(|key| config.admin.key_sha256.as_ref() == Some(key))
    };
    if let Some(tenant) = config.tenants.iter().find(is_admins) {
        return Err(ConfigError::Value {
            key: "admin.key_sha256",
            origin: in_force(settings, "admin.key_sha256").origin,
            reason: format!("is a key of tenant `{}` too, who would be an operator", tenant.name),
        });
    }
    Ok(())
}

fn conflict(
    settings: &Settings,
    key: &'static str,
    reason: &'static str,
    other: &'static str,
) -> ConfigError {
    ConfigError::Conflict { options: Box::new([key, other].map(|key| in_force(settings, key))), reason }
}

fn in_force(settings: &Settings, key: &'static str) -> InForce {
    let (value, origin) = match settings.get(key) {
        Some(setting) => (setting.value.to_string(), setting.origin.clone()),
        None => ("unset".to_owned(), Origin::Default),
    };
    InForce { key, value, origin }
}
