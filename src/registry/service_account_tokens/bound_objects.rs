//! Checks that the objects that tokens name still exist.

use std::sync::Arc;
use std::time::Duration;

use actors::object::CachedObject;
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
use crate::auth::service_accounts::{
    Claims, LEEWAY, Part, Passed, Reference, TokenObjects, metrics,
};
use crate::auth::{BootstrapSecrets, Notes, Unauthorized};
use crate::clock;
use crate::registry::errors::decoded_with_room;
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

/// An object that a token names.
struct Named<'c> {
    kind: &'static str,
    what: &'static str,
    reference: &'c Reference,
    namespace: Option<&'c str>,
}

impl Named<'_> {
    /// Returns the error for an object that was not found.
    fn absent(&self, status: &Status) -> String {
        match self.kind {
            ACCOUNT => status.message.clone(),
            _ => INVALIDATED.to_owned(),
        }
    }

    /// Checks that a found object is the one that the token names.
    fn check(&self, found: &Object) -> Result<(), String> {
        let (what, claimed, uid) = (self.what, &self.reference.uid, found.uid());
        let is_account = self.kind == ACCOUNT;
        if uid != claimed {
            return Err(match is_account {
                true => format!("{what} UID ({uid}) does not match claim ({claimed})"),
                false => format!(
                    "{what} UID ({uid}) does not match service account {what} ref claim ({claimed})"
                ),
            });
        }
        match (is_gone(found), is_account) {
            (false, _) => Ok(()),
            (true, true) => Err("service account has been deleted".to_owned()),
            (true, false) => Err(INVALIDATED.to_owned()),
        }
    }
}

/// An object, and whether its cache has it.
struct FoundObject {
    object: Arc<CachedObject>,
    is_cached: bool,
}

/// The kind of the account of a token.
const ACCOUNT: &str = "ServiceAccount";

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

    /// Returns the objects that a token names, each as the error about it calls it: the account,
    /// and those that the token is bound to.
    fn named<'c>(&self, claims: &'c Claims) -> impl Iterator<Item = Named<'c>> + use<'c> {
        let Claims {
            namespace,
            account,
            binding,
            ..
        } = claims;
        let namespace = Some(&**namespace);
        // The claims also contain the node of a pod, but it is not checked.
        let node = binding.node.as_ref().filter(|_| binding.pod.is_none());
        let all = [
            (ACCOUNT, "service account", Some(account), namespace),
            ("Secret", "secret", binding.secret.as_ref(), namespace),
            ("Pod", "pod", binding.pod.as_ref(), namespace),
            ("Node", "node", node, None),
        ];
        all.into_iter()
            .filter_map(|(kind, what, reference, namespace)| {
                Some(Named {
                    kind,
                    what,
                    reference: reference?,
                    namespace,
                })
            })
    }

    /// Returns the states of the caches of the objects that a token names, as far as they have one.
    fn states(&self, claims: &Claims) -> impl Iterator<Item = Option<Part>> {
        self.named(claims).map(|named| {
            let store = match named.kind {
                ACCOUNT => &self.accounts,
                kind => self.of_kind(kind)?,
            };
            Some(store.storage().state_in_memory()? as Part)
        })
    }

    /// Checks that all objects that a token names still exist.
    ///
    /// # Errors
    /// The object that no longer exists, in the words of Kubernetes.
    async fn check_all(&self, claims: &Claims, passed: &Passed) -> Result<(), String> {
        // The states are taken first: an object that changes meanwhile has a newer one.
        let states: Option<Vec<Part>> = self.states(claims).collect();
        let (mut objects, mut absent) = (Vec::new(), None);
        for named in self.named(claims) {
            match self.find(&named).await {
                Ok(found) => objects.push(found),
                Err(why) => {
                    absent = Some(why);
                    break;
                }
            }
        }
        let parts = objects.iter().map(|found| found.object.clone() as Part);
        let parts: Vec<Part> = parts.collect();
        let mut is_deleted = false;
        if absent.is_some() || !passed.has_objects(&parts) {
            for (named, found) in self.named(claims).zip(&objects) {
                let object = decoded_with_room(&found.object).await;
                let object = object.map_err(|status| named.absent(&status))?;
                named.check(&object)?;
                is_deleted |= object.is_being_deleted();
            }
        }
        if let Some(why) = absent {
            return Err(why);
        }
        // Objects that are being deleted become invalid without a change.
        if is_deleted {
            return Ok(());
        }
        // A cache that lacks an object of the store does not change with it.
        let are_cached = objects.iter().all(|found| found.is_cached);
        if let Some(states) = states.filter(|_| are_cached) {
            passed.remember(&states, &parts);
        }
        Ok(())
    }

    async fn find(&self, named: &Named<'_>) -> Result<FoundObject, String> {
        let store = match named.kind {
            ACCOUNT => Some(&self.accounts),
            kind => self.of_kind(kind),
        };
        let store = store.ok_or_else(|| INVALIDATED.to_owned())?;
        let at = NamespacedName {
            namespace: named.namespace,
            name: &named.reference.name,
        };
        let found = find(store, at).await;
        found.map_err(|status| named.absent(&status))
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
    fn check<'a>(
        &'a self,
        claims: &'a Claims,
        passed: &'a Passed,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.check_all(claims, passed).boxed()
    }

    fn still_passes(&self, claims: &Claims, passed: &Passed) -> bool {
        passed.has_states(self.states(claims))
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
    let found = find(store, at).await?;
    decoded_with_room(&found.object).await
}

async fn find(store: &RegistryStore, at: NamespacedName<'_>) -> Result<FoundObject, Box<Status>> {
    let (object, is_cached) = match store.get(at, "0").await {
        Ok(object) => (object, true),
        Err(_) => (store.get(at, "").await?, false),
    };
    Ok(FoundObject { object, is_cached })
}

/// Whether its deletion began so long ago that differing clocks cannot be the reason.
fn is_gone(object: &Object) -> bool {
    let deleted: Option<Timestamp> = object.meta("deletionTimestamp").parse().ok();
    let latest = clock::now().as_second().saturating_sub(LEEWAY);
    deleted.is_some_and(|time| time.as_second() < latest)
}
