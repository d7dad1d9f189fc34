//! How a request wants to be scheduled: `priority` (or OpenAI's `service_tier`), `timeout` and `cache_salt`.

use sha2::{Digest, Sha256};
use troupe_actors::session::Admission;
use troupe_protocol::Priority;

use super::error::{ApiError, echo};
use super::fields::{Fields, wrong_type};

/// The longest time that a request may ask for, in seconds.
const MAX_TIMEOUT_S: f64 = 86_400.0;

/// A class of service, as OpenAI's clients name it. It stands for a priority, which the tenant's ceiling bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceTier {
    /// As it comes.
    Default,
    /// Whenever there is room.
    Flex,
    /// Somebody waits for it. OpenAI's other word for it, `fast`, is answered as this one.
    Priority,
    /// Somebody waits, and paid for more than that.
    Ultrafast,
    /// Capacity that was bought: here, the tenant's weight.
    Scale,
}

/// The tiers, as requests name them.
pub(super) const TIERS: [(&str, ServiceTier); 7] = [
    ("auto", ServiceTier::Default),
    ("default", ServiceTier::Default),
    ("flex", ServiceTier::Flex),
    ("priority", ServiceTier::Priority),
    ("fast", ServiceTier::Priority),
    ("ultrafast", ServiceTier::Ultrafast),
    ("scale", ServiceTier::Scale),
];

impl ServiceTier {
    /// As answers name it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Flex => "flex",
            Self::Priority => "priority",
            Self::Ultrafast => "ultrafast",
            Self::Scale => "scale",
        }
    }

    /// The tier of a request whose tenant may have no more than `max_priority`.
    pub(super) fn within(self, max_priority: Priority) -> Self {
        if self.priority() <= max_priority {
            return self;
        }
        match max_priority {
            Priority::Batch => Self::Flex,
            Priority::Normal => Self::Default,
            Priority::Interactive => Self::Priority,
        }
    }

    fn priority(self) -> Priority {
        match self {
            Self::Default | Self::Scale => Priority::Normal,
            Self::Flex => Priority::Batch,
            Self::Priority | Self::Ultrafast => Priority::Interactive,
        }
    }
}

/// Takes the fields. Whose request it is they do not say: [`Tenant::sign`](super::tenants::Tenant::sign) does.
///
/// # Errors
/// The first field that is wrong, by name.
pub(super) fn read(fields: &mut Fields) -> Result<(Admission, Option<ServiceTier>), ApiError> {
    let tier = service_tier(fields)?;
    let admission = Admission {
        priority: priority(fields, tier)?,
        timeout: timeout(fields)?,
        cache_salt: fields.string("cache_salt")?.map_or(0, |salt| salt_of(&salt)),
        ..Admission::default()
    };
    Ok((admission, tier))
}

fn service_tier(fields: &mut Fields) -> Result<Option<ServiceTier>, ApiError> {
    let Some(name) = fields.string("service_tier")? else { return Ok(None) };
    match TIERS.iter().find(|(tier, _)| *tier == name) {
        Some(&(_, tier)) => Ok(Some(tier)),
        None => {
            let reason =
                format!("{:?} is not one of {}", echo(&name), TIERS.map(|(tier, _)| tier).join(", "));
            Err(ApiError::invalid("service_tier", reason))
        }
    }
}

fn priority(fields: &mut Fields, tier: Option<ServiceTier>) -> Result<Priority, ApiError> {
    let asked = tier.map(ServiceTier::priority);
    let Some(name) = fields.string("priority")? else { return Ok(asked.unwrap_or_default()) };
    let priority = Priority::from_name(&name).ok_or_else(|| {
        let names = Priority::ALL.map(Priority::as_str).join(", ");
        ApiError::invalid("priority", format!("{:?} is not one of {names}", echo(&name)))
    })?;
    match asked {
        Some(other) if other != priority => {
            let reason = format!("{name:?} contradicts service_tier, which stands for {:?}", other.as_str());
            Err(ApiError::invalid("priority", reason))
        }
        _ => Ok(priority),
    }
}

/// Microseconds of a time in seconds.
fn timeout(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let Some(value) = fields.take("timeout") else { return Ok(None) };
    let seconds = value.as_f64().ok_or_else(|| wrong_type("timeout", "a number of seconds", &value))?;
    if seconds > 0.0 && seconds <= MAX_TIMEOUT_S {
        // Not rounded up: what is not exact in binary would become a microsecond more than was asked for.
        Ok(Some((seconds * 1e6).round().max(1.0) as u64))
    } else {
        let reason = format!("{value} is not above 0 and at most {MAX_TIMEOUT_S} seconds");
        Err(ApiError::invalid("timeout", reason))
    }
}

/// Salts that differ share nothing, so it is a hash that nobody finds collisions of by chance.
fn salt_of(text: &str) -> u64 {
    let digest = Sha256::digest(text);
    digest.iter().take(8).fold(0, |salt, &byte| salt << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use troupe_protocol::Fault;

    use super::*;

    fn of(body: Value) -> Result<Admission, ApiError> {
        read(&mut Fields::of(body, "body").unwrap()).map(|(admission, _)| admission)
    }

    #[test]
    fn a_service_tier_stands_for_a_priority() {
        for (tier, priority, named) in [
            ("auto", Priority::Normal, "default"),
            ("default", Priority::Normal, "default"),
            ("flex", Priority::Batch, "flex"),
            ("priority", Priority::Interactive, "priority"),
            ("fast", Priority::Interactive, "priority"),
            ("ultrafast", Priority::Interactive, "ultrafast"),
            ("scale", Priority::Normal, "scale"),
        ] {
            let body = json!({ "service_tier": tier });
            let (admission, found) = read(&mut Fields::of(body, "body").unwrap()).unwrap();
            assert_eq!((admission.priority, found.unwrap().as_str()), (priority, named));
            assert!(of(json!({"service_tier": tier, "priority": priority.as_str()})).is_ok());
        }
    }

    #[test]
    fn a_tier_is_bounded_as_priorities_are() {
        for max in Priority::ALL {
            for tier in [ServiceTier::Flex, ServiceTier::Default, ServiceTier::Priority] {
                assert_eq!(tier.within(max).priority(), tier.priority().min(max), "{tier:?} within {max:?}");
            }
        }
    }

    #[test]
    fn fields_are_read_and_absent_ones_have_defaults() {
        assert_eq!(of(json!({})), Ok(Admission::default()));
        for priority in Priority::ALL {
            assert_eq!(of(json!({"priority": priority.as_str()})).unwrap().priority, priority);
        }
        for (timeout, micros, told) in [
            (json!(1), 1_000_000, "1"),
            (json!(0.25), 250_000, "0.25"),
            (json!(2.007), 2_007_000, "2.007"),
            (json!(0.0001), 100, "0.0001"),
            (json!(1e-9), 1, "0.000001"),
            (json!(86_400), 86_400_000_000, "86400"),
        ] {
            assert_eq!(of(json!({"timeout": timeout})).unwrap().timeout, Some(micros));
            let late = Fault::DeadlineExceeded { timeout: micros }.to_string();
            assert_eq!(late, format!("the request did not finish within its timeout of {told} s"));
        }
        let salt = |text: &str| of(json!({"cache_salt": text})).unwrap().cache_salt;
        assert_eq!(salt("a"), salt("a"));
        assert!(salt("a") != salt("b") && salt("") != 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, message) in [
            (
                json!({"priority": "urgent"}),
                "invalid value for 'priority': \"urgent\" is not one of batch, normal, interactive",
            ),
            (
                json!({"priority": 0}),
                "invalid type for 'priority': expected a string, but got an integer instead",
            ),
            (
                json!({"service_tier": "slow"}),
                "invalid value for 'service_tier': \"slow\" is not one of auto, default, flex, priority, fast, \
                 ultrafast, scale",
            ),
            (
                json!({"service_tier": "flex", "priority": "normal"}),
                "invalid value for 'priority': \"normal\" contradicts service_tier, which stands for \"batch\"",
            ),
            (
                json!({"timeout": 0}),
                "invalid value for 'timeout': 0 is not above 0 and at most 86400 seconds",
            ),
            (
                json!({"timeout": -1.5}),
                "invalid value for 'timeout': -1.5 is not above 0 and at most 86400 seconds",
            ),
            (
                json!({"timeout": 86_401}),
                "invalid value for 'timeout': 86401 is not above 0 and at most 86400 seconds",
            ),
            (
                json!({"timeout": "1"}),
                "invalid type for 'timeout': expected a number of seconds, but got a string instead",
            ),
            (
                json!({"cache_salt": 1}),
                "invalid type for 'cache_salt': expected a string, but got an integer instead",
            ),
        ] {
            assert_eq!(of(body).unwrap_err().to_string(), message);
        }
    }
}
