//! The ConfigMaps of `kube-system` in which a server publishes facts about itself (API-262). They
//! are created again when they are deleted, and repaired when they are changed.

use std::time::Duration;

use jiff::civil::Date;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Milestone;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::{Status, StatusReason};
use crate::clock;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};
use crate::x509::Certificate;

const NAMESPACE: &str = "kube-system";
/// The ConfigMap with the day since when the use of tokens in Secrets is tracked.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// The ConfigMap that publishes how clients are authenticated.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const AUTHORITIES: &str = "client-ca-file";
const PROXY_AUTHORITIES: &str = "requestheader-client-ca-file";

/// The interval between checks.
const PAUSE: Duration = Duration::from_secs(10);
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

/// The facts that a server publishes about how it authenticates clients (AC-13). Certificates are
/// in PEM; an empty text means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientAuthentication {
    /// The client CAs.
    pub client_authorities: String,
    /// The CAs of front proxies. Without any, nothing of front proxies is published.
    pub proxy_authorities: String,
    /// Headers with the name of a user.
    pub username_headers: Vec<String>,
    /// Headers with the uid of a user. An empty list has no entry.
    pub uid_headers: Vec<String>,
    /// Headers with a group of a user.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with further data.
    pub extra_headers_prefix: Vec<String>,
    /// The common names of front proxies.
    pub allowed_names: Vec<String>,
}

/// Returns what is published now.
pub type Publishes = Box<dyn Fn() -> ClientAuthentication + Send + Sync>;

/// The controller of the ConfigMaps.
pub struct SystemConfigMaps {
    registry: Registry,
    knows_accounts: bool,
    publishes: Publishes,
    /// Reached once the day is published since when the use of tokens is tracked.
    pub tracks: Milestone,
    /// Reached once the facts about authentication are published.
    pub has_published: Milestone,
}

impl SystemConfigMaps {
    /// Creates the controller for this registry. The use of tokens is tracked only if service
    /// account tokens are accepted at all.
    pub fn new(registry: Registry, knows_accounts: bool, publishes: Publishes) -> SystemConfigMaps {
        SystemConfigMaps {
            registry,
            knows_accounts,
            publishes,
            tracks: Milestone::default(),
            has_published: Milestone::default(),
        }
    }

    /// Maintains the ConfigMaps. May be cancelled at any point.
    pub async fn run(&self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if let Err(status) = self.keep().await {
                tracing::warn!(
                    %status,
                    "reconciling the ConfigMaps of kube-system failed, retrying"
                );
            }
        }
    }

    /// Creates missing ConfigMaps and repairs others.
    ///
    /// # Errors
    /// The first failed read or write.
    pub async fn keep(&self) -> Result<(), Box<Status>> {
        let store = self.registry.current().named("configmaps");
        let store = store.as_deref();
        let (tracked, published) = tokio::join!(self.keep_tracking(store), self.publish(store));
        tracked.and(published)
    }

    async fn keep_tracking(&self, store: Option<&RegistryStore>) -> Result<(), Box<Status>> {
        if let Some(store) = store.filter(|_| self.knows_accounts) {
            let today = clock::now().strftime("%F").to_string();
            let mend =
                |data: Option<&Value>| match is_past(data.and_then(|data| data.get(SINCE)), &today)
                {
                    true => None,
                    false => Some(json!({SINCE: today})),
                };
            let ensured = ensure(store, TRACKING, &mend).await;
            self.tracks.reach_by(&ensured);
            return ensured;
        }
        self.tracks.reach();
        Ok(())
    }

    async fn publish(&self, store: Option<&RegistryStore>) -> Result<(), Box<Status>> {
        let own = (self.publishes)();
        let is_empty = own == ClientAuthentication::default();
        if let Some(store) = store.filter(|_| !is_empty) {
            let mend = |data: Option<&Value>| published(data, &own);
            let ensured = ensure(store, AUTHENTICATION, &mend).await;
            self.has_published.reach_by(&ensured);
            return ensured;
        }
        self.has_published.reach();
        Ok(())
    }
}

/// Returns the data united with what this server publishes, or `None` if nothing is missing. The
/// data of other servers stays, except expired certificates.
fn published(data: Option<&Value>, own: &ClientAuthentication) -> Option<Value> {
    let before = data.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut data = before.clone();
    let mut unite_certificates = |key: &str, own: &str| {
        let known = before.get(key).and_then(Value::as_str).unwrap_or_default();
        let all = united_certificates(known, own);
        if all != known {
            data.insert(key.to_owned(), all.into());
        }
    };
    unite_certificates(AUTHORITIES, &own.client_authorities);
    unite_certificates(PROXY_AUTHORITIES, &own.proxy_authorities);
    if !own.proxy_authorities.is_empty() {
        for (key, list) in [
            ("requestheader-username-headers", &own.username_headers),
            ("requestheader-group-headers", &own.group_headers),
            (
                "requestheader-extra-headers-prefix",
                &own.extra_headers_prefix,
            ),
            ("requestheader-allowed-names", &own.allowed_names),
            ("requestheader-uid-headers", &own.uid_headers),
        ] {
            if key == "requestheader-uid-headers" && list.is_empty() && !data.contains_key(key) {
                continue;
            }
            let known = before.get(key).and_then(Value::as_str).unwrap_or_default();
            let known: Option<Vec<String>> = serde_json::from_str(known).ok();
            let mut all = known.clone().unwrap_or_default();
            for text in list {
                if !all.contains(text) {
                    all.push(text.clone());
                }
            }
            if known.as_ref() != Some(&all) {
                data.insert(key.to_owned(), json!(all).to_string().into());
            }
        }
    }
    (data != before).then_some(Value::Object(data))
}

/// Returns the certificates of both texts, each once and without expired ones.
fn united_certificates(known: &str, own: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    let mut all = Vec::new();
    let blocks = known.split_inclusive(END).chain(own.split_inclusive(END));
    for block in blocks.map(str::trim) {
        if block.ends_with(END) && !all.contains(&block) && !has_expired(block) {
            all.push(block);
        }
    }
    let mut text = all.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns whether a certificate has expired. One that cannot be read stays.
fn has_expired(block: &str) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(block.as_bytes()) else {
        return false;
    };
    let until = Certificate::read(&der).map(|certificate| certificate.valid_until());
    until.is_ok_and(|until| until < clock::of_machine().as_second())
}

/// Returns whether a field is a day that is not in the future. Days are compared as texts.
fn is_past(since: Option<&Value>, today: &str) -> bool {
    let since = since.and_then(Value::as_str).unwrap_or_default();
    since
        .parse::<Date>()
        .is_ok_and(|day| day.to_string() == since)
        && since <= today
}

/// Creates a ConfigMap, or updates its data. `mend` returns the new data for the old one, or `None`
/// if the old one is correct.
async fn ensure(
    store: &RegistryStore,
    name: &str,
    mend: &(dyn Fn(Option<&Value>) -> Option<Value> + Sync),
) -> Result<(), Box<Status>> {
    let at = NamespacedName {
        namespace: Some(NAMESPACE),
        name,
    };
    let context = RequestContext::internal("system-config-maps", Instant::now() + TIME);
    let options = WriteOptions::default();
    let outcome = match store.read(at, "0").await {
        Ok(mut found) => {
            let Some(data) = mend(found.0.get("data")) else {
                return Ok(());
            };
            found.0.insert("data".to_owned(), data);
            let source = UpdateSource::Replace(found.into());
            let updating = store.update(&context, at, None, source, &options);
            updating.await.map(|_| ())
        }
        Err(status) if status.code == 404 => {
            let mut object = Object::default();
            object.set_type("ConfigMap", "v1");
            object.set_meta("name", name);
            if let Some(data) = mend(None) {
                object.0.insert("data".to_owned(), data);
            }
            let creating = store.create(&context, at.namespace, object, &options);
            creating.await.map(|_| ())
        }
        Err(status) => Err(status),
    };
    match outcome {
        // Another daemon was faster.
        Err(status)
            if [StatusReason::ALREADY_EXISTS, StatusReason::CONFLICT].contains(&status.reason) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn authorities_of_other_servers_stay_ac_13() {
        let block = |name: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
        };
        let of = |client_authorities: &str| ClientAuthentication {
            client_authorities: client_authorities.to_owned(),
            ..ClientAuthentication::default()
        };
        let (a, b, c) = (block("a"), block("b"), block("c"));
        let first = published(None, &of(&format!("{a}{b}"))).unwrap();
        assert_eq!(first, json!({AUTHORITIES: format!("{a}{b}")}));
        assert_eq!(published(Some(&first), &of(&b)), None);
        let mut others = first.clone();
        others["requestheader-username-headers"] = "[]".into();
        let second = published(Some(&others), &of(&format!("{c}{a}"))).unwrap();
        assert_eq!(second[AUTHORITIES], format!("{a}{b}{c}"));
        assert_eq!(second["requestheader-username-headers"], "[]");
    }

    #[test]
    fn expired_certificates_are_dropped_ac_13() {
        let pem = |year: i32| {
            let mut parameters = rcgen::CertificateParams::default();
            parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            let pem = parameters.self_signed(&key).unwrap().pem();
            format!("{}\n", pem.trim().replace("\r\n", "\n"))
        };
        let (past, later) = (pem(2020), pem(2222));
        assert_eq!(united_certificates(&past, &later), later);
        assert_eq!(united_certificates(&later, &past), later);
    }

    #[test]
    fn lists_of_front_proxies_are_united_ac_13() {
        let mut own = ClientAuthentication {
            proxy_authorities: "-----BEGIN CERTIFICATE-----\na\n-----END CERTIFICATE-----\n"
                .to_owned(),
            username_headers: texts(&["X-Remote-User"]),
            group_headers: texts(&["X-Remote-Group"]),
            extra_headers_prefix: texts(&["X-Remote-Extra-"]),
            ..ClientAuthentication::default()
        };
        let first = published(None, &own).unwrap();
        let expected = json!({
            PROXY_AUTHORITIES: own.proxy_authorities,
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-allowed-names": "[]",
        });
        assert_eq!(first, expected);
        assert_eq!(published(Some(&first), &own), None);
        own.username_headers = texts(&["X-Own", "X-Remote-User"]);
        own.uid_headers = texts(&["X-Remote-Uid"]);
        let second = published(Some(&first), &own).unwrap();
        let names = &second["requestheader-username-headers"];
        assert_eq!(names, "[\"X-Remote-User\",\"X-Own\"]");
        assert_eq!(second["requestheader-uid-headers"], "[\"X-Remote-Uid\"]");
    }

    #[test]
    fn a_day_counts_unless_it_is_to_come_or_none() {
        let is_good = |since: &str| is_past(Some(&since.into()), "2026-11-25");
        assert!(is_good("2026-11-25") && is_good("2025-12-31"));
        for wrong in [
            "2026-11-26",
            "",
            "2026-11-25T00:00:00",
            "20261101",
            "2026-02-30",
        ] {
            assert!(!is_good(wrong), "{wrong}");
        }
        assert!(!is_past(None, "2026-11-25"));
    }
}
