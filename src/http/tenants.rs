//! Who asks: from the key of a request to the tenant that it is served as.
//!
//! Keys are known by their SHA-256 only. A key is compared with all of them, each in constant time, so that how long an
//! answer takes says nothing about how near a guess was.

use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::{FromRequest, HttpRequest, web};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use troupe_config::KeyDigest;
use troupe_protocol::{Priority, TenantId};

use super::error::ApiError;
use super::params::Generation;
use super::state::AppState;

/// What the HTTP surface needs to know of a tenant. Its share and limits are the scheduler's affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// As the scheduler knows it.
    pub id: TenantId,
    /// Microseconds for a request that does not say its own.
    pub timeout: Option<u64>,
    /// The most urgent that its requests are served as. The scheduler sees to that; answers say so.
    pub max_priority: Priority,
    /// Names of models that it may ask for; empty for all.
    pub models: Vec<String>,
}

impl Tenant {
    /// One that may do everything.
    pub fn unlimited(id: TenantId) -> Self {
        Self { id, timeout: None, max_priority: Priority::Interactive, models: Vec::new() }
    }

    /// Whether it may ask for a model by this name.
    pub(super) fn may_ask_for(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|name| name == model)
    }

    /// Makes a request this tenant's.
    pub(super) fn sign(&self, generation: &mut Generation) {
        let Generation { admission, service_tier, .. } = generation;
        admission.tenant = self.id;
        admission.timeout = admission.timeout.or(self.timeout);
        *service_tier = service_tier.map(|tier| tier.within(self.max_priority));
    }
}

/// Whom the server serves, at one moment. Replaced as a whole.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Keys, and whose they are.
    pub keys: Vec<(KeyDigest, Arc<Tenant>)>,
    /// Whose a request without a key is; nobody's if absent.
    pub anonymous: Option<Arc<Tenant>>,
    /// Of the key that opens `/admin`; absent, there is no `/admin`.
    pub admin: Option<KeyDigest>,
    /// Names of all tenants that there ever were.
    pub names: BTreeMap<TenantId, String>,
}

impl Directory {
    /// The tenant of a request that carries this key, or none.
    ///
    /// # Errors
    /// [`ApiError::Unauthorized`], the same whether there is no key or it is nobody's.
    fn identify(&self, key: Option<&[u8]>) -> Result<&Arc<Tenant>, ApiError> {
        let tenant = match (key, &self.anonymous) {
            // Clients that want a key to be set send any to a server that asks for none.
            (_, Some(anonymous)) if self.keys.is_empty() => Some(anonymous),
            (None, anonymous) => anonymous.as_ref(),
            (Some(key), _) => self.owner(key),
        };
        tenant.ok_or(ApiError::Unauthorized)
    }

    fn owner(&self, key: &[u8]) -> Option<&Arc<Tenant>> {
        let digest = Sha256::digest(key);
        // No early end: all are compared, whichever it is.
        self.keys.iter().fold(
            None,
            |found, (known, tenant)| {
                if is_same(known, &digest) { Some(tenant) } else { found }
            },
        )
    }

    /// Whether a request with these headers is an operator's.
    ///
    /// # Errors
    /// [`ApiError::Unauthorized`] if not; [`ApiError::UnknownPath`] if nobody is one.
    pub(super) fn check_admin(&self, request: &HttpRequest) -> Result<(), ApiError> {
        let Some(admin) = &self.admin else {
            return Err(ApiError::UnknownPath { path: request.path().to_owned() });
        };
        let key = key(request.headers()).ok_or(ApiError::Unauthorized)?;
        if is_same(admin, &Sha256::digest(key)) { Ok(()) } else { Err(ApiError::Unauthorized) }
    }
}

fn is_same(known: &KeyDigest, digest: &[u8]) -> bool {
    known.0.as_slice().ct_eq(digest).into()
}

/// The key of a request: `Authorization: Bearer KEY`, else `x-api-key: KEY`. Another scheme is no key of ours, and an
/// empty key is none: clients that are given none of one kind send its header nevertheless.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let given = |key: &&[u8]| !key.is_empty();
    let bearer = headers.get(AUTHORIZATION).map(|value| without_scheme(value.as_bytes()));
    let api_key = || headers.get("x-api-key").map(|value| value.as_bytes().trim_ascii());
    bearer.filter(given).or_else(|| api_key().filter(given))
}

fn without_scheme(value: &[u8]) -> &[u8] {
    const SCHEME: &[u8] = b"bearer";
    match value.get(..SCHEME.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(SCHEME) => value[SCHEME.len()..].trim_ascii(),
        Some(_) | None => value,
    }
}

/// The tenant that a request is served as. A handler that takes it refuses requests without a valid key before their
/// bodies are read.
pub(super) struct Caller(pub(super) Arc<Tenant>);

impl FromRequest for Caller {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let Some(state) = request.app_data::<web::Data<AppState>>() else {
            return ready(Err(ApiError::internal("the server has no state")));
        };
        let tenants = state.tenants();
        ready(tenants.identify(key(request.headers())).map(|tenant| Self(Arc::clone(tenant))))
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn digest(key: &str) -> KeyDigest {
        KeyDigest(Sha256::digest(key).into())
    }

    fn directory(keys: &[(&str, u32)], anonymous: Option<u32>) -> Directory {
        let tenant = |id: u32| Arc::new(Tenant::unlimited(TenantId(id)));
        Directory {
            keys: keys.iter().map(|&(key, id)| (digest(key), tenant(id))).collect(),
            anonymous: anonymous.map(tenant),
            admin: None,
            names: BTreeMap::new(),
        }
    }

    #[test]
    fn a_key_is_its_tenants_and_no_other_is_anybodys() {
        let closed = directory(&[("a", 1), ("b", 2), ("c", 1)], None);
        let open = directory(&[("a", 1)], Some(0));
        let keyless = directory(&[], Some(0));
        for (directory, key, expected) in [
            (&closed, Some("a"), Some(1)),
            (&closed, Some("b"), Some(2)),
            (&closed, Some("c"), Some(1)),
            (&closed, Some("d"), None),
            (&closed, Some(""), None),
            (&closed, None, None),
            (&open, Some("a"), Some(1)),
            (&open, Some("b"), None),
            (&open, None, Some(0)),
            (&keyless, Some("b"), Some(0)),
            (&keyless, None, Some(0)),
        ] {
            let found = directory.identify(key.map(str::as_bytes)).map(|tenant| tenant.id.0);
            assert_eq!(found, expected.ok_or(ApiError::Unauthorized), "{key:?}");
        }
    }

    #[test]
    fn a_key_is_read_from_either_header() {
        for (headers, expected) in [
            (&[("authorization", "Bearer secret")][..], Some("secret")),
            (&[("authorization", "bearer  secret ")], Some("secret")),
            (&[("authorization", "Bearer")], None),
            (&[("authorization", "Bearer ")], None),
            (&[("authorization", "Basic secret")], Some("Basic secret")),
            (&[("x-api-key", "secret")], Some("secret")),
            (&[("x-api-key", "")], None),
            (&[("x-api-key", "other"), ("authorization", "Bearer secret")], Some("secret")),
            (&[("x-api-key", "other"), ("authorization", "Basic secret")], Some("Basic secret")),
            (&[("x-api-key", "secret"), ("authorization", "Bearer ")], Some("secret")),
            (&[("x-api-key", "secret"), ("authorization", "Bearer")], Some("secret")),
            (&[("x-api-key", "secret"), ("authorization", "")], Some("secret")),
            (&[("x-api-key", " "), ("authorization", "Bearer ")], None),
            (&[], None),
        ] {
            let mut map = HeaderMap::new();
            for &(name, value) in headers {
                map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(key(&map), expected.map(str::as_bytes), "{headers:?}");
        }
    }
}
