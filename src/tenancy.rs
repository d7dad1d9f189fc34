//! Tenants of the configuration, as the scheduler and the HTTP surface know them, and their replacement at run time.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use troupe_config::{ANONYMOUS, Config, Priority as PriorityName, TenantConfig};
use troupe_protocol::{Priority, TenantId, TenantPolicy};

use crate::http::{Directory, Tenant};

const MICROS_PER_S: u64 = 1_000_000;

/// Options that change without a restart.
const CHANGEABLE: &[&str] = &["admin.key_sha256"];

/// Ids of tenants by name. A name keeps its id for the life of the process: what was counted for it stays its own.
#[derive(Debug)]
struct Ids {
    by_name: BTreeMap<String, TenantId>,
}

impl Ids {
    fn new() -> Self {
        Self { by_name: BTreeMap::from([(ANONYMOUS.to_owned(), TenantId::ANONYMOUS)]) }
    }

    fn of(&mut self, name: &str) -> TenantId {
        // None is ever removed, so the next free id is their number.
        let next = TenantId(self.by_name.len() as u32);
        *self.by_name.entry(name.to_owned()).or_insert(next)
    }
}

/// The tenants of one process.
pub(crate) struct Tenancy {
    ids: Ids,
    /// Of the process's start: what differs from it waits for the next.
    started: Config,
    directory: watch::Sender<Arc<Directory>>,
}

impl Tenancy {
    /// The tenants of `config`, and their policies.
    pub(crate) fn new(config: &Config) -> (Self, Vec<TenantPolicy>) {
        let mut ids = Ids::new();
        let (policies, directory) = read(config, &mut ids);
        let directory = watch::Sender::new(Arc::new(directory));
        (Self { ids, started: config.clone(), directory }, policies)
    }

    /// Where the HTTP surface reads whom the server serves.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Directory>> {
        self.directory.subscribe()
    }

    /// The tenants and keys of a newer `config`; the log says what else changed in it.
    ///
    /// `None`, and a warning, if it holds no keys while the server asks for them: an emptied or half-written file would
    /// open the server to everybody.
    pub(crate) fn read_again(&mut self, config: &Config) -> Option<(Vec<TenantPolicy>, Directory)> {
        let is_keyed = !self.directory.borrow().keys.is_empty();
        if is_keyed && config.tenants.iter().all(|tenant| tenant.api_keys_sha256.is_empty()) {
            tracing::warn!(
                "the configuration holds no API keys, which would open the server to everybody: the tenants and keys \
                 stay as they were; only a restart opens the server"
            );
            return None;
        }
        let mut differences = self.started.differences(config);
        differences.retain(|key| !CHANGEABLE.contains(key));
        if !differences.is_empty() {
            tracing::warn!("these options changed and need a restart: {}", differences.join(", "));
        }
        Some(read(config, &mut self.ids))
    }

    /// From now on, these are whom the server serves.
    pub(crate) fn publish(&self, directory: Directory) {
        tracing::info!(keys = directory.keys.len(), "the configuration was read again");
        self.directory.send_replace(Arc::new(directory));
    }
}

/// Policies and directory of the tenants, who come in the order of their names.
fn read(config: &Config, ids: &mut Ids) -> (Vec<TenantPolicy>, Directory) {
    // Told in any case: a tenant keeps the policy that it was told last.
    let mut policies = vec![TenantPolicy::unlimited(TenantId::ANONYMOUS)];
    let mut keys = Vec::new();
    let mut anonymous = None;
    for name in idle(config) {
        // One file may be for several servers, each with another model.
        tracing::warn!("tenant `{name}` may ask for no model that is served here: see its `models`");
    }
    for tenant in &config.tenants {
        let id = ids.of(&tenant.name);
        policies.retain(|policy| policy.id != id);
        policies.push(policy(id, tenant));
        let known = Arc::new(Tenant {
            id,
            timeout: tenant.timeout_seconds.map(|seconds| u64::from(seconds) * MICROS_PER_S),
            max_priority: priority(tenant.max_priority),
            models: tenant.models.clone(),
        });
        keys.extend(tenant.api_keys_sha256.iter().map(|&key| (key, Arc::clone(&known))));
        if id == TenantId::ANONYMOUS {
            anonymous = Some(known);
        }
    }
    if keys.is_empty() && anonymous.is_none() {
        anonymous = Some(Arc::new(Tenant::unlimited(TenantId::ANONYMOUS)));
    }
    let names = ids.by_name.iter().map(|(name, &id)| (id, name.clone())).collect();
    (policies, Directory { keys, anonymous, admin: config.admin.key_sha256, names })
}

/// Tenants whose lists of models hold none that is served.
fn idle(config: &Config) -> impl Iterator<Item = &str> {
    let id = config.model_id();
    let is_served = move |name: &String| *name == id || config.model.aliases.contains(name);
    let idle =
        move |tenant: &&TenantConfig| !tenant.models.is_empty() && !tenant.models.iter().any(&is_served);
    config.tenants.iter().filter(idle).map(|tenant| tenant.name.as_str())
}

/// Depends on the name alone, so that a tenant finds its own blocks in a store that outlives the process.
fn namespace(name: &str) -> u64 {
    let digest = Sha256::digest(name);
    digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn policy(id: TenantId, tenant: &TenantConfig) -> TenantPolicy {
    let at_least_one = |limit: Option<u32>| limit.and_then(NonZeroU32::new);
    TenantPolicy {
        id,
        namespace: namespace(&tenant.name),
        weight: NonZeroU32::new(tenant.weight).unwrap_or(NonZeroU32::MIN),
        max_running: at_least_one(tenant.max_running),
        max_queued: tenant.max_queued,
        requests_per_minute: at_least_one(tenant.requests_per_minute),
        tokens_per_minute: at_least_one(tenant.tokens_per_minute),
        max_priority: priority(tenant.max_priority),
    }
}

fn priority(name: PriorityName) -> Priority {
    match name {
        PriorityName::Interactive => Priority::Interactive,
        PriorityName::Normal => Priority::Normal,
        PriorityName::Batch => Priority::Batch,
    }
}

#[cfg(test)]
mod tests {
    use troupe_config::Sources;

    use super::*;

    fn config(file: &str) -> Config {
        let at = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(at.path(), file).unwrap();
        Config::load(Sources { file: Some(at.path().into()), ..Sources::default() }).unwrap()
    }

    fn tenant(name: &str, key: char, more: &str) -> String {
        let key = key.to_string().repeat(64);
        format!("[[tenants]]\nname = \"{name}\"\napi_keys_sha256 = [\"{key}\"]\n{more}\n")
    }

    fn ids(policies: &[TenantPolicy]) -> Vec<u32> {
        policies.iter().map(|policy| policy.id.0).collect()
    }

    fn replace(tenancy: &mut Tenancy, file: &str) -> Vec<TenantPolicy> {
        let (policies, directory) = tenancy.read_again(&config(file)).unwrap();
        tenancy.publish(directory);
        policies
    }

    #[test]
    fn without_tenants_everybody_is_anonymous_and_without_limits() {
        let (tenancy, policies) = Tenancy::new(&config(""));
        assert_eq!(policies, [TenantPolicy::unlimited(TenantId::ANONYMOUS)]);
        let directory = tenancy.subscribe().borrow().clone();
        assert_eq!(directory.anonymous.as_ref().unwrap().id, TenantId::ANONYMOUS);
        assert!(directory.keys.is_empty() && directory.admin.is_none());
    }

    #[test]
    fn tenants_who_may_ask_for_nothing_that_is_served_are_found() {
        let file = "[model]\npath = \"m/fox.gguf\"\naliases = [\"reynard\"]\n".to_owned()
            + &tenant("all", 'a', "")
            + &tenant("fox", 'b', "models = [\"wolf\", \"fox\"]")
            + &tenant("reynard", 'c', "models = [\"reynard\"]")
            + &tenant("wolf", 'd', "models = [\"wolf\"]");
        assert_eq!(idle(&config(&file)).collect::<Vec<_>>(), ["wolf"]);
    }

    #[test]
    fn a_name_keeps_its_id_while_tenants_come_and_go() {
        let (mut tenancy, policies) =
            Tenancy::new(&config(&(tenant("zoe", 'a', "") + &tenant("bob", 'b', "weight = 3"))));
        assert_eq!(ids(&policies), [0, 1, 2], "bob before zoe");
        assert_eq!((policies[1].weight.get(), policies[2].weight.get()), (3, 1));
        let mut directory = tenancy.subscribe();
        assert!(directory.borrow_and_update().anonymous.is_none(), "keys are asked for");

        let policies =
            replace(&mut tenancy, &(tenant("ann", 'c', "") + &tenant("zoe", 'a', "max_running = 1")));
        assert_eq!(ids(&policies), [0, 3, 2]);
        assert_eq!(policies[2].max_running.map(NonZeroU32::get), Some(1));
        let names: Vec<String> = directory.borrow_and_update().names.values().cloned().collect();
        assert_eq!(names, ["anonymous", "bob", "zoe", "ann"], "those who are gone still have their names");

        let anonymous =
            "[[tenants]]\nname = \"anonymous\"\nweight = 7\ntimeout_seconds = 2\nmax_priority = \"batch\"\n";
        let policies = replace(&mut tenancy, &(anonymous.to_owned() + &tenant("zoe", 'a', "")));
        assert_eq!((ids(&policies), policies[0].weight.get()), (vec![0, 2], 7));
        let known = directory.borrow_and_update().anonymous.clone().unwrap();
        assert_eq!((known.timeout, known.max_priority), (Some(2_000_000), Priority::Batch));
        assert_eq!(policies[0].max_priority, Priority::Batch);
        let policies = replace(&mut tenancy, &tenant("zoe", 'a', ""));
        assert_eq!(policies[0], TenantPolicy::unlimited(TenantId::ANONYMOUS), "old limits do not linger");
    }

    #[test]
    fn a_reload_that_would_open_the_server_changes_nothing() {
        let anonymous = "[[tenants]]\nname = \"anonymous\"\n";
        // What is there, what comes, and whether that is taken.
        for (before, after, taken) in [
            (String::new(), anonymous.to_owned(), true),
            (anonymous.to_owned(), String::new(), true),
            (String::new(), tenant("ann", 'a', ""), true),
            (tenant("ann", 'a', ""), tenant("bob", 'b', ""), true),
            (tenant("ann", 'a', ""), tenant("ann", 'a', "") + anonymous, true),
            (tenant("ann", 'a', ""), String::new(), false),
            (tenant("ann", 'a', ""), anonymous.to_owned(), false),
            (tenant("ann", 'a', "") + anonymous, anonymous.to_owned(), false),
        ] {
            let (mut tenancy, _) = Tenancy::new(&config(&before));
            assert_eq!(tenancy.read_again(&config(&after)).is_some(), taken, "{before}\nthen\n{after}");
        }
        let (mut tenancy, _) = Tenancy::new(&config(""));
        replace(&mut tenancy, &tenant("ann", 'a', ""));
        assert!(
            tenancy.read_again(&config("")).is_none(),
            "keys of a reload are kept like those of the start"
        );
        assert_eq!(tenancy.subscribe().borrow().keys.len(), 1);
    }
}
