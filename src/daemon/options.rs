//! Settings of the parts, derived from the configuration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{Engine, Retention};
use actors::lessor::LeaseReuse;
use actors::ring::RingLimits;
use actors::supervisor::{ActorSystem, ActorSystemConfig, StoreSpec};
use actors::watchdog::Watchdog;
use jiff::SignedDuration;

use super::credentials::Credentials;
use super::{NAMESPACES, StartError};
use crate::clock;
use crate::config::{
    Config, ControllerName, FeatureGate, SERVICE_ACCOUNT, Texts, VOLUME_PROTECTION, running_plugins,
};
use crate::controllers::{
    ClientAuthentication, Milestone, Protections, Provisions, Setup, Simulation, SystemConfigMaps,
};
use crate::registry::Registry;
use crate::server::api_server::{HttpRules, Process, Timeouts};
use crate::server::filters::in_flight::InFlightLimits;
use crate::server::filters::response_headers::ResponseHeaders;
use crate::storage::factory::Engines;
use crate::storage::object_count::ObjectCounter;
use crate::telemetry::Series;

/// Returns the configuration of the actors.
pub(super) fn actor_system_config(
    config: &Config,
    engines: &Engines,
    series: &Series,
    watchdog: &Watchdog,
) -> ActorSystemConfig {
    let series = series.clone();
    let retention = Retention {
        age: config.retention_age.0,
        bytes: config.retention_bytes.0,
    };
    let leases = LeaseReuse {
        window_seconds: config.lease_reuse_duration_seconds,
        ..LeaseReuse::default()
    };
    let store = |(name, engine): (&str, &Arc<dyn Engine>)| StoreSpec {
        name: name.to_owned(),
        engine: engine.clone(),
        retention,
        leases,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ActorSystemConfig {
        data_arbiters: data_threads(config.data_threads, cores),
        rings: RingLimits {
            per_resource_bytes: config.watch_ring_bytes.0 as usize,
            total_bytes: config.watch_ring_total_bytes.0 as usize,
        },
        on_removed: Some(Arc::new(move |resource| series.remove_resource(resource))),
        watchdog: watchdog.clone(),
        ..ActorSystemConfig::new(engines.iter().map(store).collect())
    }
}

/// Returns the number of data threads: as configured, or by the number of cores. Even the highest
/// load of one etcd keeps only a quarter of a thread busy (docs/sizing.md), so few are enough.
fn data_threads(set: usize, cores: usize) -> usize {
    match set {
        0 => (cores / 4).clamp(1, 4),
        set => set,
    }
}

/// Returns the setup of the controllers: which of them run, and what they need.
///
/// # Errors
/// [`StartError::NoNamespaces`]
pub(super) fn controllers(
    config: &Config,
    registry: &Registry,
    actor_system: &ActorSystem,
    credentials: &Credentials,
) -> Result<Setup, StartError> {
    let namespaces = actor_system.cacher(NAMESPACES);
    let runs = |name| config.controllers.runs(name);
    let caches = actor_system.clone();
    let plugins = running_plugins(
        &config.enable_admission_plugins,
        &config.disable_admission_plugins,
    );
    let setup = Setup {
        registry: registry.clone(),
        namespaces: namespaces.ok_or(StartError::NoNamespaces)?,
        caches: Arc::new(move |resource| caches.cacher(resource)),
        empties_namespaces: runs(ControllerName::Namespace),
        extensions: None,
        namespace_grace: Duration::ZERO,
        collects_garbage: config.enable_garbage_collector.0
            && runs(ControllerName::GarbageCollector),
        aggregates_roles: runs(ControllerName::ClusterRoleAggregation),
        checks_policies: runs(ControllerName::ValidatingAdmissionPolicyStatus),
        provisions: match plugins.contains(&SERVICE_ACCOUNT) {
            true => Provisions {
                accounts: runs(ControllerName::ServiceAccount),
                authority: runs(ControllerName::RootCaCertificatePublisher)
                    .then(|| credentials.trust_pem()),
            },
            false => Provisions::default(),
        },
        protections: match plugins.contains(&VOLUME_PROTECTION) {
            true => Protections {
                claims: runs(ControllerName::PersistentVolumeClaimProtection),
                volumes: runs(ControllerName::PersistentVolumeProtection),
                classes: runs(ControllerName::VolumeAttributesClassProtection),
            },
            false => Protections::default(),
        },
        simulation: Simulation::default(),
        further: Vec::new(),
        stands_by: Milestone::default(),
    };
    if !setup.empties_namespaces || !setup.collects_garbage {
        tracing::info!(
            namespace = setup.empties_namespaces,
            garbage_collector = setup.collects_garbage,
            "not all controllers run here"
        );
    }
    Ok(setup)
}

/// Returns the ConfigMaps that publish the client CAs and more to other servers (AC-13).
pub(super) fn config_maps(
    config: &Config,
    registry: &Registry,
    credentials: &Arc<Credentials>,
) -> SystemConfigMaps {
    let knows_accounts =
        !config.issuers().is_empty() || !config.service_account_key_file.0.is_empty();
    let credentials = Arc::clone(credentials);
    let is_given = config.client_ca_file.is_set();
    let names = |texts: &Texts| -> Vec<String> {
        let texts = texts.0.iter();
        texts.map(|text| text.trim().to_owned()).collect()
    };
    let of_proxies = ClientAuthentication {
        username_headers: names(&config.requestheader_username_headers),
        uid_headers: names(&config.requestheader_uid_headers),
        group_headers: names(&config.requestheader_group_headers),
        extra_headers_prefix: names(&config.requestheader_extra_headers_prefix),
        allowed_names: names(&config.requestheader_allowed_names),
        ..ClientAuthentication::default()
    };
    let publishes = Box::new(move || {
        let given = credentials.proxy_authorities_pem();
        let of_proxies = match given.is_empty() {
            true => own_front_proxy(&credentials),
            false => ClientAuthentication {
                proxy_authorities: given,
                ..of_proxies.clone()
            },
        };
        ClientAuthentication {
            client_authorities: match is_given {
                true => credentials.client_authorities_pem(),
                // Only the daemon itself issues certificates from its automatic CA, so other
                // servers need not trust it.
                false => String::new(),
            },
            ..of_proxies
        }
    });
    SystemConfigMaps::new(registry.clone(), knows_accounts, publishes)
}

/// Returns how extensions know this server by the certificate that it has made for that (CN-18).
/// Its authority signs nothing else, so no names are published: another server that publishes none
/// would be left out by a list.
fn own_front_proxy(credentials: &Credentials) -> ClientAuthentication {
    let authority = credentials.proxy_identity();
    let authority = authority.and_then(|identity| identity.authority_pem.clone());
    let Some(proxy_authorities) = authority else {
        return ClientAuthentication::default();
    };
    ClientAuthentication {
        proxy_authorities,
        username_headers: vec!["X-Remote-User".to_owned()],
        uid_headers: vec!["X-Remote-Uid".to_owned()],
        group_headers: vec!["X-Remote-Group".to_owned()],
        extra_headers_prefix: vec!["X-Remote-Extra-".to_owned()],
        ..ClientAuthentication::default()
    }
}

/// Returns the object counter for metrics.
pub(super) fn object_counter(config: &Config, registry: &Registry) -> ObjectCounter {
    let registry = registry.clone();
    let stores = move || {
        let catalog = registry.current();
        let resources = catalog.stored_resources();
        resources
            .map(|store| (store.stored_resource().clone(), store.storage().clone()))
            .collect()
    };
    ObjectCounter {
        stores: Box::new(stores),
        period: config.etcd_count_metric_poll_period.0,
    }
}

/// Returns the limits of concurrent requests and watches (API-18).
pub(super) fn in_flight_limits(config: &Config) -> InFlightLimits {
    InFlightLimits {
        read_only: config.max_requests_inflight,
        mutating: config.max_mutating_requests_inflight,
        watches: config.max_watches,
    }
}

/// Returns the time limits of requests and the headers of responses.
pub(super) fn http_rules(config: &Config) -> HttpRules {
    let directives = &config.strict_transport_security_directives.0;
    let origins = &config.cors_allowed_origins.0;
    HttpRules {
        timeouts: Timeouts {
            request: config.request_timeout.0,
            watch_seconds: config.min_request_timeout,
        },
        response_headers: ResponseHeaders::new(directives, origins, config.goaway_chance.value()),
    }
}

/// Returns the content of `/statusz` and `/flagz`, without names and passwords in URLs.
pub(super) fn process(config: &Config, started: Instant) -> Process {
    let flags = config.entries().into_iter();
    let mut flags: Vec<(String, String)> = flags
        .map(|entry| (entry.name, without_passwords(&entry.value)))
        .collect();
    flags.sort();
    let elapsed = SignedDuration::try_from(started.elapsed()).unwrap_or_default();
    Process {
        started: clock::of_machine() - elapsed,
        flags: flags.into(),
    }
}

/// Returns the text without the user and password of URLs.
fn without_passwords(text: &str) -> String {
    let parts = text.split("://").enumerate().map(|(number, part)| {
        let end = part.find(['/', ',', ';']).unwrap_or(part.len());
        match part.get(..end).and_then(|host| host.rfind('@')) {
            Some(at) if number > 0 => format!("xxxxx{}", part.get(at..).unwrap_or_default()),
            _ => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("://")
}

/// Sets the metrics of feature gates, with the names that Kubernetes has for their stages.
pub(super) fn measure_features(config: &Config) {
    const NAME: &str = "kubernetes_feature_enabled";
    metrics::describe_gauge!(NAME, "Whether a feature gate is on");
    for gate in FeatureGate::all() {
        let stage = match gate.stage {
            "ga" => String::new(),
            stage => stage.to_ascii_uppercase(),
        };
        let is_on = config.feature_gates.is_on(gate.name);
        metrics::gauge!(NAME, "name" => gate.name, "stage" => stage).set(f64::from(is_on));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_threads_follow_the_cores_unless_they_are_set() {
        let by_cores = [1, 2, 7, 8, 16, 64].map(|cores| data_threads(0, cores));
        assert_eq!(by_cores, [1, 1, 1, 2, 4, 4]);
        assert_eq!(data_threads(3, 64), 3);
    }

    #[test]
    fn passwords_in_urls_are_not_shown() {
        for (text, shown) in [
            (
                "https://a:b@h:1,https://h/@",
                "https://xxxxx@h:1,https://h/@",
            ),
            ("etcd-0:2379", "etcd-0:2379"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }
}
