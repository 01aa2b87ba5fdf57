//! The ConfigMaps of `kube-system` in which a server publishes facts about itself (API-262). They
//! are created again when they are deleted, and repaired when they are changed.

use std::time::Duration;

use jiff::civil::Date;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::{Status, StatusReason};
use crate::clock;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};

const NAMESPACE: &str = "kube-system";
/// The ConfigMap with the day since when the use of tokens in Secrets is tracked.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// The ConfigMap that publishes how clients are authenticated.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const AUTHORITIES: &str = "client-ca-file";

/// The interval between checks.
const PAUSE: Duration = Duration::from_secs(10);
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

/// Returns the certificates of the client CAs in PEM, or an empty text.
pub type ClientAuthorities = Box<dyn Fn() -> String + Send + Sync>;

/// The controller of the ConfigMaps.
pub struct SystemConfigMaps {
    registry: Registry,
    knows_accounts: bool,
    client_authorities: ClientAuthorities,
}

impl SystemConfigMaps {
    /// Creates the controller for this registry. The use of tokens is tracked only if service
    /// account tokens are accepted at all.
    pub fn new(
        registry: Registry,
        knows_accounts: bool,
        client_authorities: ClientAuthorities,
    ) -> SystemConfigMaps {
        SystemConfigMaps {
            registry,
            knows_accounts,
            client_authorities,
        }
    }

    /// Maintains the ConfigMaps. May be cancelled at any point.
    pub async fn run(self) {
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
        let Some(store) = self.registry.current().named("configmaps") else {
            return Ok(());
        };
        if self.knows_accounts {
            let today = clock::now().strftime("%F").to_string();
            let mend =
                |data: Option<&Value>| match is_past(data.and_then(|data| data.get(SINCE)), &today)
                {
                    true => None,
                    false => Some(json!({SINCE: today})),
                };
            ensure(&store, TRACKING, &mend).await?;
        }
        let authorities = (self.client_authorities)();
        if !authorities.is_empty() {
            let mend = |data: Option<&Value>| with_authorities(data, &authorities);
            ensure(&store, AUTHENTICATION, &mend).await?;
        }
        Ok(())
    }
}

/// Returns the data with these certificates added to the client CAs, or `None` if nothing is
/// missing. The data of other servers stays.
fn with_authorities(data: Option<&Value>, own: &str) -> Option<Value> {
    const END: &str = "-----END CERTIFICATE-----";
    let mut data = data.and_then(Value::as_object).cloned().unwrap_or_default();
    let known = data.get(AUTHORITIES).and_then(Value::as_str);
    let mut all = known.unwrap_or_default().to_owned();
    let mut is_changed = false;
    for certificate in own.split_inclusive(END) {
        let certificate = certificate.trim();
        if certificate.ends_with(END) && !all.contains(certificate) {
            if !all.is_empty() && !all.ends_with('\n') {
                all.push('\n');
            }
            all.push_str(certificate);
            all.push('\n');
            is_changed = true;
        }
    }
    data.insert(AUTHORITIES.to_owned(), all.into());
    is_changed.then_some(Value::Object(data))
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

    #[test]
    fn authorities_of_other_servers_stay() {
        let block = |name: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
        };
        let (a, b, c) = (block("a"), block("b"), block("c"));
        let first = with_authorities(None, &format!("{a}{b}")).unwrap();
        assert_eq!(first, json!({AUTHORITIES: format!("{a}{b}")}));
        assert_eq!(with_authorities(Some(&first), &b), None);
        let mut others = first.clone();
        others["requestheader-username-headers"] = "[]".into();
        let second = with_authorities(Some(&others), &format!("{c}{a}")).unwrap();
        assert_eq!(second[AUTHORITIES], format!("{a}{b}{c}"));
        assert_eq!(second["requestheader-username-headers"], "[]");
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
