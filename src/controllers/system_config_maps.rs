//! The ConfigMaps of `kube-system` in which a server tells others of itself (API-262). They are
//! made anew when they are deleted or spoiled.

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
/// Since when the use of tokens in Secrets is tracked.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// How clients are known.
const AUTHENTICATION: &str = "extension-apiserver-authentication";

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(10);
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

/// The certificates of the authorities of clients, in PEM. Empty if there are none.
pub type ClientAuthorities = Box<dyn Fn() -> String + Send + Sync>;

/// Keeps the ConfigMaps.
pub struct SystemConfigMaps {
    registry: Registry,
    knows_accounts: bool,
    client_authorities: ClientAuthorities,
}

impl SystemConfigMaps {
    /// Keeps them in this registry. The use of tokens is tracked if tokens of service accounts are
    /// known at all.
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

    /// Keeps them from now on. It may be cancelled at any point.
    pub async fn run(self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if let Err(status) = self.keep().await {
                tracing::warn!(%status, "can't keep the ConfigMaps of kube-system, trying again");
            }
        }
    }

    /// Makes what is missing.
    ///
    /// # Errors
    /// The first failed read or write.
    pub async fn keep(&self) -> Result<(), Box<Status>> {
        let Some(store) = self.registry.current().named("configmaps") else {
            return Ok(());
        };
        if self.knows_accounts {
            let today = clock::now().strftime("%F").to_string();
            let is_good = |data: &Value| is_past(data.get(SINCE), &today);
            ensure(&store, TRACKING, json!({SINCE: today}), &is_good).await?;
        }
        let authorities = (self.client_authorities)();
        if !authorities.is_empty() {
            let wanted = json!({"client-ca-file": authorities});
            let is_good = |data: &Value| *data == wanted;
            ensure(&store, AUTHENTICATION, wanted.clone(), &is_good).await?;
        }
        Ok(())
    }
}

/// Whether a member is a day that is not to come. Days are compared as texts.
fn is_past(since: Option<&Value>, today: &str) -> bool {
    let since = since.and_then(Value::as_str).unwrap_or_default();
    since
        .parse::<Date>()
        .is_ok_and(|day| day.to_string() == since)
        && since <= today
}

/// Makes a ConfigMap with this data unless it is there with good data.
async fn ensure(
    store: &RegistryStore,
    name: &str,
    data: Value,
    is_good: &(dyn Fn(&Value) -> bool + Sync),
) -> Result<(), Box<Status>> {
    let at = NamespacedName {
        namespace: Some(NAMESPACE),
        name,
    };
    let context = RequestContext::internal("system-config-maps", Instant::now() + TIME);
    let options = WriteOptions::default();
    let outcome = match store.read(at, "0").await {
        Ok(found) if found.0.get("data").is_some_and(is_good) => return Ok(()),
        Ok(mut found) => {
            found.0.insert("data".to_owned(), data);
            let source = UpdateSource::Replace(found);
            let updating = store.update(&context, at, None, source, &options);
            updating.await.map(|_| ())
        }
        Err(status) if status.code == 404 => {
            let mut object = Object::default();
            object.set_type("ConfigMap", "v1");
            object.set_meta("name", name);
            object.0.insert("data".to_owned(), data);
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
