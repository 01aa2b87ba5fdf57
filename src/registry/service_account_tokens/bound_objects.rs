//! Checks that the objects that tokens name still exist.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::object::{Object, put};
use crate::api::status::Status;
use crate::api::version::Preconditions;
use crate::auth::service_accounts::{Claims, LEEWAY, Reference, TokenObjects, metrics};
use crate::auth::{BootstrapSecrets, Notes, Unauthorized};
use crate::clock;
use crate::registry::{Catalog, NamespacedName, RegistryStore, RequestContext};

/// The stores of the objects that tokens name.
pub struct BoundObjects {
    accounts: Arc<RegistryStore>,
    pods: Option<Arc<RegistryStore>>,
    secrets: Option<Arc<RegistryStore>>,
    nodes: Option<Arc<RegistryStore>>,
    /// When the use of a token may be recorded again after a failure. One record is written at a
    /// time.
    note_after: tokio::sync::Mutex<Option<Instant>>,
}

/// The error for tokens whose object was deleted.
const INVALIDATED: &str = "service account token has been invalidated";

/// The label of a Secret whose token is invalid.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The label with the day of the last use of a token in a Secret.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// The time limit for writing that label.
const TIME: Duration = Duration::from_secs(5);
/// The pause after writing it has failed.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(10);

impl BoundObjects {
    /// Returns the stores of this generation, or `None` if service accounts are not served.
    pub fn of(catalog: &Catalog) -> Option<BoundObjects> {
        let find = |plural| catalog.find("", "v1", plural);
        Some(BoundObjects {
            accounts: find("serviceaccounts")?,
            pods: find("pods"),
            secrets: find("secrets"),
            nodes: find("nodes"),
            note_after: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the store of service accounts.
    pub fn accounts(&self) -> &Arc<RegistryStore> {
        &self.accounts
    }

    /// Returns the store of a kind that tokens can be bound to.
    pub fn of_kind(&self, kind: &str) -> Option<&Arc<RegistryStore>> {
        match kind {
            "Pod" => self.pods.as_ref(),
            "Secret" => self.secrets.as_ref(),
            "Node" => self.nodes.as_ref(),
            _ => None,
        }
    }

    /// Checks that all objects that a token names still exist.
    ///
    /// # Errors
    /// The object that no longer exists, in the words of Kubernetes.
    async fn check_all(&self, claims: &Claims) -> Result<(), String> {
        let Claims {
            namespace,
            account,
            binding,
            ..
        } = claims;
        let found = self.account(namespace, &account.name).await?;
        let uid = found.uid();
        if uid != account.uid {
            return Err(format!(
                "service account UID ({uid}) does not match claim ({})",
                account.uid
            ));
        }
        if is_gone(&found) {
            return Err("service account has been deleted".to_owned());
        }
        // The claims also contain the node of a pod, but it is not checked.
        let node = binding.node.as_ref().filter(|_| binding.pod.is_none());
        for (kind, what, reference, namespace) in [
            (
                "Secret",
                "secret",
                binding.secret.as_ref(),
                Some(&**namespace),
            ),
            ("Pod", "pod", binding.pod.as_ref(), Some(&**namespace)),
            ("Node", "node", node, None),
        ] {
            if let Some(reference) = reference {
                self.check_bound(kind, what, reference, namespace).await?;
            }
        }
        Ok(())
    }

    async fn check_bound(
        &self,
        kind: &str,
        what: &str,
        reference: &Reference,
        namespace: Option<&str>,
    ) -> Result<(), String> {
        let name = &reference.name;
        let found = match self.of_kind(kind) {
            Some(store) => read(store, NamespacedName { namespace, name }).await,
            None => return Err(INVALIDATED.to_owned()),
        };
        let found = found.map_err(|_| INVALIDATED.to_owned())?;
        if found.uid() != reference.uid {
            return Err(format!(
                "{what} UID ({}) does not match service account {what} ref claim ({})",
                found.uid(),
                reference.uid
            ));
        }
        match is_gone(&found) {
            true => Err(INVALIDATED.to_owned()),
            false => Ok(()),
        }
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<Object, String> {
        let at = NamespacedName {
            namespace: Some(namespace),
            name,
        };
        let found = read(&self.accounts, at).await;
        found.map_err(|status| status.message)
    }

    /// Checks that the Secret of a token still holds it.
    ///
    /// # Errors
    /// The object that no longer exists, in the words of Kubernetes.
    async fn check_secret(&self, claims: &Claims, token: &[u8]) -> Result<Notes, Unauthorized> {
        let Claims {
            namespace, account, ..
        } = claims;
        let secret = claims.binding.secret.as_ref();
        let secret = secret.map(|secret| &*secret.name).unwrap_or_default();
        let at = NamespacedName {
            namespace: Some(namespace),
            name: secret,
        };
        let failed = Unauthorized::ServiceAccount;
        let invalidated = || failed("Token has been invalidated".to_owned());
        let store = self.secrets.as_ref().ok_or_else(invalidated)?;
        let found = read(store, at).await.map_err(|_| invalidated())?;
        if found.is_being_deleted() {
            return Err(invalidated());
        }
        let stored = STANDARD
            .decode(found.text(&["data", "token"]))
            .unwrap_or_default();
        if verify_slices_are_equal(&stored, token).is_err() {
            return Err(failed("Token does not match server's copy".to_owned()));
        }
        let known = self.account(namespace, &account.name).await;
        let known = known.map_err(failed)?;
        let (name, uid) = (&account.name, known.uid());
        if known.is_being_deleted() {
            let problem = format!("ServiceAccount {namespace}/{name} has been deleted");
            return Err(failed(problem));
        }
        if uid != account.uid {
            let claimed = &account.uid;
            let problem = format!("ServiceAccount UID ({uid}) does not match claim ({claimed})");
            return Err(failed(problem));
        }
        self.note_use(store, at, &found).await;
        if !found
            .text(&["metadata", "labels", INVALID_SINCE])
            .is_empty()
        {
            let problem = format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{name} \
                 has been marked invalid. Use tokens from the TokenRequest API or manually created \
                 secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to \
                 temporarily allow use of this token"
            );
            metrics::of_invalid_secret();
            return Err(Unauthorized::Invalidated {
                problem,
                secret: format!("{secret}/{namespace}"),
            });
        }
        let mut listed = known.items(&["secrets"]).iter();
        let is_listed = listed.any(|one| one.get("name").and_then(Value::as_str) == Some(secret));
        Ok(notes_of_legacy(secret, is_listed))
    }
}

impl TokenObjects for BoundObjects {
    fn check<'a>(&'a self, claims: &'a Claims) -> BoxFuture<'a, Result<(), String>> {
        self.check_all(claims).boxed()
    }

    fn check_legacy<'a>(
        &'a self,
        claims: &'a Claims,
        token: &'a [u8],
    ) -> BoxFuture<'a, Result<Notes, Unauthorized>> {
        self.check_secret(claims, token).boxed()
    }
}

impl BoundObjects {
    /// Labels a Secret with the day, once a day. The user is identified whether that succeeds or
    /// not.
    async fn note_use(&self, store: &RegistryStore, at: NamespacedName<'_>, secret: &Object) {
        let today = clock::now().strftime("%F").to_string();
        if secret.text(&["metadata", "labels", LAST_USED]) == today {
            return;
        }
        // Another request is recording a use. The next request records this one.
        let Ok(mut note_after) = self.note_after.try_lock() else {
            return;
        };
        let now = Instant::now();
        if note_after.is_some_and(|after| now < after) {
            return;
        }
        let context = RequestContext::internal("legacy-token-tracking", now + TIME);
        let preconditions = Preconditions {
            uid: Some(secret.uid().to_owned()),
            resource_version: None,
        };
        let mut label = |secret: &mut Object| {
            put(
                secret,
                &["metadata", "labels", LAST_USED],
                today.as_str().into(),
            );
            Ok(())
        };
        let noting = store.change(&context, at, preconditions, false, &mut label);
        let why = match tokio::time::timeout(TIME, noting).await {
            Ok(Ok(_)) => return,
            Ok(Err(status)) => status.to_string(),
            Err(_) => format!("not written within {TIME:?}"),
        };
        *note_after = Some(now + PAUSE_AFTER_ERROR);
        tracing::warn!(
            why,
            "cannot record the day on which a token in a Secret was used"
        );
    }
}

impl BootstrapSecrets for BoundObjects {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Object>, String>> {
        let found = async move {
            let Some(store) = &self.secrets else {
                return Ok(None);
            };
            let namespace = Some("kube-system");
            match read(store, NamespacedName { namespace, name }).await {
                Ok(secret) => Ok(Some(secret)),
                Err(status) if status.code == 404 => Ok(None),
                Err(status) => Err(status.message),
            }
        };
        found.boxed()
    }
}

/// Returns the audit annotations and warnings for the use of a token in a Secret.
fn notes_of_legacy(secret: &str, is_generated: bool) -> Notes {
    let secret = secret.to_owned();
    metrics::of_secret(is_generated);
    if !is_generated {
        return Notes {
            annotations: vec![("authentication.k8s.io/legacy-token-manual-secret", secret)],
            warnings: Vec::new(),
        };
    }
    let warning = "Use tokens from the TokenRequest API or manually created secret-based tokens \
                   instead of auto-generated secret-based tokens.";
    Notes {
        annotations: vec![(
            "authentication.k8s.io/legacy-token-autogenerated-secret",
            secret,
        )],
        warnings: vec![warning.to_owned()],
    }
}

/// Returns an object from the cache. A cache that lacks it may be outdated, so the store is asked
/// then.
///
/// # Errors
/// 404, or the error of the store.
pub(super) async fn read(
    store: &RegistryStore,
    at: NamespacedName<'_>,
) -> Result<Object, Box<Status>> {
    match store.read(at, "0").await {
        Ok(object) => Ok(object),
        Err(_) => store.read(at, "").await,
    }
}

/// Whether its deletion began so long ago that differing clocks cannot be the reason.
fn is_gone(object: &Object) -> bool {
    let deleted: Option<Timestamp> = object.meta("deletionTimestamp").parse().ok();
    let latest = clock::now().as_second().saturating_sub(LEEWAY);
    deleted.is_some_and(|time| time.as_second() < latest)
}
