//! Checks of settings that are valid on their own: combinations that do not fit, and invalid URLs.
//! All faults are reported at once (SF-30).

use std::time::Duration;

use http::Uri;

use super::settings::Entry;
use super::{Config, ConfigError, Period, StorageBackend};

/// A plugin whose effect nobody may take for granted: it decides which images run (HK-99).
const IMAGE_POLICY: &str = "ImagePolicyWebhook";

impl Config {
    /// All faults of the settings.
    pub(super) fn faults(&self) -> Vec<ConfigError> {
        let mut refusals = self.unprintable();
        refusals.extend(self.apart());
        refusals.extend(self.urls());
        refusals.extend(self.ports());
        refusals.extend(self.service_accounts());
        refusals.extend(self.authentication());
        refusals.extend(self.webhooks());
        refusals.extend(self.responses());
        refusals.extend(self.numbers());
        refusals
    }

    /// Values that would break the lines of a log, or control a terminal.
    fn unprintable(&self) -> Vec<ConfigError> {
        let entries = self.entries().into_iter();
        let entries = entries.filter(|entry| entry.value.contains(char::is_control));
        let refusal = |entry: Entry| {
            let problem = format!("{:?} has a control character; leave it out", entry.value);
            ConfigError::of_setting(&entry.name, &problem)
        };
        entries.map(refusal).collect()
    }

    /// Settings that require others.
    fn apart(&self) -> Vec<ConfigError> {
        let mut refusals = Vec::new();
        if self.tls_cert_file.is_set() != self.tls_private_key_file.is_set() {
            let both = ConfigError::together("tls-cert-file", "tls-private-key-file");
            refusals.push(both);
        }
        if self.etcd_certfile.is_set() != self.etcd_keyfile.is_set() {
            refusals.push(ConfigError::together("etcd-certfile", "etcd-keyfile"));
        }
        if self.proxy_client_cert_file.is_set() != self.proxy_client_key_file.is_set() {
            let both = ConfigError::together("proxy-client-cert-file", "proxy-client-key-file");
            refusals.push(both);
        }
        if self.kubelet_client_certificate.is_set() != self.kubelet_client_key.is_set() {
            let both = ConfigError::together("kubelet-client-certificate", "kubelet-client-key");
            refusals.push(both);
        }
        if self.backend() == StorageBackend::Etcd3 && self.etcd_servers.0.is_empty() {
            let servers = ConfigError::missing("etcd-servers", "storage-backend=etcd3");
            refusals.push(servers);
        }
        if self.audit_policy_file.is_set() != self.audit_log_path.is_set() {
            let both = ConfigError::together("audit-policy-file", "audit-log-path");
            refusals.push(both);
        }
        let overlap = self
            .enable_admission_plugins
            .overlap(&self.disable_admission_plugins);
        if !overlap.is_empty() {
            let problem = format!(
                "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
                overlap.join(" ")
            );
            let refusal = ConfigError::of_setting("disable-admission-plugins", &problem);
            refusals.push(refusal);
        }
        if self.enable_admission_plugins.names(IMAGE_POLICY) {
            let problem =
                format!("{IMAGE_POLICY} is not built, so no image would be checked; leave it out");
            let refusal = ConfigError::of_setting("enable-admission-plugins", &problem);
            refusals.push(refusal);
        }
        let reloads = self.encryption_provider_config_automatic_reload.0;
        if reloads && !self.encryption_provider_config.is_set() {
            refusals.push(ConfigError::lacks(
                "encryption-provider-config-automatic-reload",
                "encryption-provider-config",
            ));
        }
        refusals
    }

    /// The URLs of servers, each with its setting.
    fn urls(&self) -> Vec<ConfigError> {
        let knows_authority = self.etcd_cafile.is_set();
        let is_used = self.backend() == StorageBackend::Etcd3;
        let base = self.etcd_servers.0.iter().filter(|_| is_used);
        let base = base.map(|url| ("etcd-servers", url));
        let overrides = self.etcd_servers_overrides.0.iter();
        let own = overrides.flat_map(|one| &one.servers);
        base.chain(own.map(|url| ("etcd-servers-overrides", url)))
            .filter_map(|(name, url)| {
                let why = fault_of(url, knows_authority)?;
                Some(ConfigError::of_setting(name, &format!("{url:?} {why}")))
            })
            .collect()
    }

    /// The issuer of tokens, and the settings that it requires.
    fn service_accounts(&self) -> Vec<ConfigError> {
        let mut refusals = Vec::new();
        let mut refuse = |name: &str, problem: &str| {
            refusals.push(ConfigError::of_setting(name, problem));
        };
        let issuers = self.issuers();
        for (at, issuer) in issuers.iter().enumerate() {
            let name = "service-account-issuer";
            if issuer.contains(':') && issuer.parse::<Uri>().is_err() {
                refuse(
                    name,
                    &format!("{issuer:?} contained a ':' but was not a valid URL"),
                );
            }
            if issuers.iter().take(at).any(|other| other == issuer) {
                refuse(name, &format!("{issuer:?} is already specified"));
            }
        }
        let signing = "service-account-signing-key-file";
        let has_key = self.service_account_signing_key_file.is_set();
        if has_key && issuers.is_empty() {
            refusals.push(ConfigError::lacks(signing, "service-account-issuer"));
        } else if !issuers.is_empty() && !has_key && self.backend() == StorageBackend::Etcd3 {
            let why = "is needed with service-account-issuer where etcd keeps the objects: all \
                       daemons and kube-apiservers there sign with one key";
            refusals.push(ConfigError::of_setting(signing, why));
        }
        let uri = self.service_account_jwks_uri.as_str();
        let scheme = uri.parse::<Uri>().ok();
        let is_https = scheme.is_some_and(|uri| uri.scheme_str() == Some("https"));
        if !uri.is_empty() && !is_https {
            let why = format!("{uri:?} requires https scheme");
            refusals.push(ConfigError::of_setting("service-account-jwks-uri", &why));
        }
        let most = self.service_account_max_token_expiration.0;
        if !most.is_zero() && !(HOUR..=Duration::from_secs(1 << 32)).contains(&most) {
            let name = "service-account-max-token-expiration";
            let why = "between 1 hour and 2^32 seconds is possible";
            refusals.push(ConfigError::of_setting(name, why));
        }
        refusals
    }

    fn ports(&self) -> Option<ConfigError> {
        let metrics = self.metrics_bind_address.0?;
        let clash = metrics.port() != 0
            && metrics.port() == self.secure_port.0
            && metrics.ip() == self.bind_address.0;
        clash.then(|| ConfigError::clash("metrics-bind-address", "secure-port"))
    }

    fn numbers(&self) -> Vec<ConfigError> {
        let streams = self.http2_max_streams_per_connection as usize;
        let reuse = self.lease_reuse_duration_seconds as usize;
        let (reads, writes) = (
            self.max_requests_inflight,
            self.max_mutating_requests_inflight,
        );
        let counts = [
            (
                "max-connections",
                self.max_connections.most(),
                1,
                usize::MAX,
            ),
            (
                "max-unauthenticated-connections",
                self.max_unauthenticated_connections,
                1,
                usize::MAX,
            ),
            ("http2-max-streams-per-connection", streams, 0, 1_000_000),
            ("max-watches", self.max_watches, 1, usize::MAX),
            ("max-definitions", self.max_definitions, 1, usize::MAX),
            ("max-requests-inflight", reads, 1, usize::MAX),
            ("max-mutating-requests-inflight", writes, 1, usize::MAX),
            ("lease-reuse-duration-seconds", reuse, 0, 86_400),
            (
                "audit-log-truncate-max-event-size",
                self.audit_log_truncate_max_event_size,
                1,
                usize::MAX,
            ),
            ("http-threads", self.http_threads, 0, THREADS_MAX),
            ("data-threads", self.data_threads, 0, THREADS_MAX),
        ];
        let counts = counts.into_iter().filter_map(|(name, value, least, most)| {
            let fault = match value {
                value if value < least => format!("at least {least} is needed"),
                value if value > most => format!("at most {most} is possible"),
                _ => return None,
            };
            Some(ConfigError::of_value(name, &value, &fault))
        });
        counts.chain(self.periods()).collect()
    }

    /// Durations that are too short for the work within them, or too long for a clock.
    fn periods(&self) -> Vec<ConfigError> {
        let event_ttl = Period(self.event_ttl.0);
        let start = self.storage_initialization_timeout;
        let counting = self.etcd_count_metric_poll_period;
        let measuring = self.etcd_db_metric_poll_interval;
        let (of_tokens, of_allowed, of_others) = (
            self.authentication_token_webhook_cache_ttl,
            self.authorization_webhook_cache_authorized_ttl,
            self.authorization_webhook_cache_unauthorized_ttl,
        );
        let periods = [
            ("authentication-token-webhook-cache-ttl", of_tokens, KEPT),
            (
                "authorization-webhook-cache-authorized-ttl",
                of_allowed,
                KEPT,
            ),
            (
                "authorization-webhook-cache-unauthorized-ttl",
                of_others,
                KEPT,
            ),
            (
                "etcd-compaction-interval",
                self.etcd_compaction_interval,
                REPEATED,
            ),
            ("etcd-count-metric-poll-period", counting, REPEATED),
            ("etcd-db-metric-poll-interval", measuring, REPEATED),
            (
                "etcd-healthcheck-timeout",
                self.etcd_healthcheck_timeout,
                PROBE,
            ),
            (
                "etcd-readycheck-timeout",
                self.etcd_readycheck_timeout,
                PROBE,
            ),
            ("storage-initialization-timeout", start, PATIENCE),
            ("retention-age", self.retention_age, KEPT),
            ("event-ttl", event_ttl, KEPT),
            ("handshake-timeout", self.handshake_timeout, EXCHANGE),
            ("header-timeout", self.header_timeout, EXCHANGE),
            ("idle-timeout", self.idle_timeout, IDLE),
            ("kubelet-timeout", self.kubelet_timeout, EXCHANGE),
            ("request-timeout", self.request_timeout, EXCHANGE),
            ("livez-grace-period", self.livez_grace_period, PATIENCE),
            (
                "shutdown-delay-duration",
                self.shutdown_delay_duration,
                PATIENCE,
            ),
            ("shutdown-timeout", self.shutdown_timeout, PATIENCE),
        ];
        let wrong = periods.into_iter().filter_map(|(name, value, allowed)| {
            let fault = allowed.fault(value.0)?;
            Some(ConfigError::of_value(name, &value, &fault))
        });
        wrong.collect()
    }
}

/// No machine can use more threads.
const THREADS_MAX: usize = 1024;

/// The valid range of a duration.
struct Allowed {
    /// Whether 0 has a special meaning.
    or_0: bool,
    least: Duration,
    most: Duration,
}

const fn allowed(or_0: bool, least: Duration, most: Duration) -> Allowed {
    Allowed { or_0, least, most }
}

/// The minimum for durations that involve the network or repeated work.
const TICK: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

const REPEATED: Allowed = allowed(true, TICK, YEAR);
const PROBE: Allowed = allowed(true, TICK, HOUR);
const EXCHANGE: Allowed = allowed(false, TICK, HOUR);
const IDLE: Allowed = allowed(false, TICK, YEAR);
const PATIENCE: Allowed = allowed(false, Duration::ZERO, DAY);
/// The maximum leaves a century before the last date that can be formatted.
const KEPT: Allowed = allowed(false, Duration::ZERO, YEAR.saturating_mul(100));

impl Allowed {
    fn fault(&self, value: Duration) -> Option<String> {
        let is_allowed = (self.least..=self.most).contains(&value);
        if is_allowed || (self.or_0 && value.is_zero()) {
            return None;
        }
        let (least, most) = (Period(self.least), Period(self.most));
        Some(match self.or_0 {
            true => format!("0, or from {least} to {most}, is possible"),
            false => format!("from {least} to {most} is possible"),
        })
    }
}

/// The reason why a text is not the URL of a trusted server.
fn fault_of(url: &str, knows_authority: bool) -> Option<String> {
    let no_url = |why: &dyn std::fmt::Display| {
        Some(format!("is not a URL such as http://127.0.0.1:2379: {why}"))
    };
    let uri: Uri = match url.parse() {
        Ok(uri) => uri,
        Err(error) => return no_url(&error),
    };
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_none_or(str::is_empty) => {
            no_url(&"it names no host")
        }
        Some("https") if !knows_authority => {
            Some("needs --etcd-cafile, the authority that signed its certificate".to_owned())
        }
        Some("http" | "https") => None,
        _ => no_url(&"it begins with neither http:// nor https://"),
    }
}
