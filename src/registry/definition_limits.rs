//! Refuses definitions of custom resources beyond a number and a size, for each user and for all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::object::CachedObject;
use futures_util::future::FutureExt;
use parking_lot::Mutex;

use super::definition_ledger::{DefinitionLimits, Ledger, Wanted};
use super::store::RegistryStore;
use crate::admission::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::go_json::json_bytes;
use crate::api::object::Object;
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// How long a check waits for a cache that lags behind its own snapshot. Then it counts what it
/// knows.
const PATIENCE: Duration = Duration::from_secs(1);

/// The plugin. kube-apiserver has no such limits.
pub(super) struct DefinitionLimit {
    /// The store of definitions, without admission.
    store: Arc<RegistryStore>,
    limits: DefinitionLimits,
    /// The cache of definitions, if they have one.
    cache: Option<CacherHandle>,
    known: Mutex<Known>,
}

/// The definitions that were read from the cache.
struct Known {
    follower: Option<CacheFollower>,
    ledger: Ledger,
}

impl DefinitionLimit {
    pub(super) fn new(
        store: Arc<RegistryStore>,
        limits: DefinitionLimits,
        cache: Option<CacherHandle>,
    ) -> DefinitionLimit {
        let known = Known {
            follower: cache.as_ref().map(CacherHandle::follow),
            ledger: Ledger::default(),
        };
        DefinitionLimit {
            store,
            limits,
            cache,
            known: Mutex::new(known),
        }
    }

    async fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Box<Status>> {
        let bytes = json_bytes(&object.0);
        if let Some(before) = attributes.old_object
            && json_bytes(&before.0) >= bytes
        {
            return Ok(());
        }
        let following = tokio::time::timeout(PATIENCE, self.catch_up());
        // Without a cache, or before it is filled.
        if following.await.is_ok_and(|is_known| !is_known) {
            self.list().await?;
        }
        let wanted = Wanted {
            name: object.name(),
            user: &attributes.user.name,
            bytes,
            is_stored: !attributes.operation.is_dry_run(),
        };
        let mut known = self.known.lock();
        let checked = known.ledger.check(wanted, self.limits, Instant::now());
        checked.map_err(|why| attributes.forbidden(Some(object), &why))
    }

    /// Reads the news of the cache, up to what its readers see now. Returns false if it has nothing
    /// to read.
    async fn catch_up(&self) -> bool {
        let Some(cache) = &self.cache else {
            return false;
        };
        let Some(snapshot) = cache.snapshot() else {
            return false;
        };
        let wanted = snapshot.revision;
        loop {
            let changed = {
                let mut known = self.known.lock();
                let Known { follower, ledger } = &mut *known;
                let Some(follower) = follower else {
                    return false;
                };
                read_news(follower, ledger, cache);
                match follower.reached() {
                    None => return false,
                    Some(reached) if reached >= wanted => return true,
                    Some(_) => follower.changed(),
                }
            };
            changed.await;
        }
    }

    /// Reads all definitions.
    async fn list(&self) -> Result<(), Box<Status>> {
        let any = ListOptions {
            resource_version: "0".to_owned(),
            ..ListOptions::default()
        };
        let everything = Arc::new(Selection::default());
        let listed = self.store.list(None, &any, everything).await?;
        let existing = listed.items.iter().map(|one| counted(one));
        self.known.lock().ledger.replace(existing);
        Ok(())
    }
}

/// Applies the news of a cache to a ledger.
fn read_news(follower: &mut CacheFollower, ledger: &mut Ledger, cache: &CacherHandle) {
    loop {
        match follower.read() {
            CacheNews::Nothing | CacheNews::Filling | CacheNews::Stopped => return,
            CacheNews::State(snapshot) => {
                // Those that can't be read take no memory elsewhere.
                let readable = snapshot.range(cache.prefix(), None).flatten();
                ledger.replace(readable.map(|one| counted(one)));
            }
            CacheNews::Events(events) => {
                for event in events {
                    match (&event.current, &event.previous) {
                        (Some(current), _) => {
                            let (name, bytes) = counted(current);
                            ledger.put(name, bytes);
                        }
                        (None, Some(previous)) => ledger.remove(previous.attributes().name()),
                        (None, None) => {}
                    }
                }
            }
        }
    }
}

/// Returns the name of a definition, and its bytes.
fn counted(definition: &CachedObject) -> (&str, usize) {
    (definition.attributes().name(), definition.item_body().len())
}

impl Plugin for DefinitionLimit {
    fn name(&self) -> &'static str {
        "DefinitionLimit"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_write = matches!(
            attributes.operation,
            Operation::Create(_) | Operation::Update(_)
        );
        let is_whole = attributes.subresource.is_none();
        is_write && is_whole && attributes.definition.is(GROUP, PLURAL)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for DefinitionLimit {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            match object {
                Some(object) => self.check(attributes, object).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}
