//! Evictions of pods, which budgets of disruptions may refuse (API-220): POST on
//! `pods/{name}/eviction`.

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::Value;

use super::{Answering, Created, NamedCreater, RestStorage};
use crate::api::decode::BodyFormat;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::api::version::Preconditions;
use crate::clock;
use crate::kinds::special::evictions;
use crate::registry::context::RequestContext;
use crate::registry::errors::decoded;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::{RegistryStore, reconcile_namespace};

/// How often an eviction starts again because somebody else has changed the pod.
const ATTEMPTS: usize = 20;

/// The storage of evictions. A pod is deleted, and its budget counts it.
pub struct EvictionStore {
    pods: Arc<RegistryStore>,
    budgets: Option<Arc<RegistryStore>>,
    kind: Arc<ResourceDefinition>,
}

/// One eviction.
struct Eviction<'e> {
    store: &'e EvictionStore,
    context: &'e RequestContext,
    at: NamespacedName<'e>,
    options: DeleteOptions,
}

impl EvictionStore {
    /// Evictions of these pods. Without budgets nothing protects them.
    pub fn new(
        pods: Arc<RegistryStore>,
        budgets: Option<Arc<RegistryStore>>,
        kind: ResourceDefinition,
    ) -> EvictionStore {
        EvictionStore {
            pods,
            budgets,
            kind: Arc::new(kind),
        }
    }
}

impl Eviction<'_> {
    async fn carry_out(&self) -> Result<Created, Box<Status>> {
        let done = || Created::Status(Box::new(Status::created()));
        let Some(pod) = self.evict_without_budget().await? else {
            return Ok(done());
        };
        let budgets = self.budgets_of(&pod).await?;
        let budget = match &*budgets {
            [] => {
                self.delete(&pod, false).await?;
                return Ok(done());
            }
            [budget] => budget,
            _ => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction \
                           subresource does not support.";
                return Err(Box::new(Status::unknown(why)));
            }
        };
        if !evictions::is_uncounted(budget, &pod) {
            self.take_disruption(budget).await?;
            self.delete(&pod, false).await?;
            return Ok(done());
        }
        // The pod may not have become ready meanwhile.
        match self.delete(&pod, true).await {
            Err(refused) if self.may_repeat(&refused) => {
                Err(Box::new(evictions::is_behind(budget.name())))
            }
            outcome => outcome.map(|()| done()),
        }
    }

    /// Evicts a pod that needs no budget, or answers the pod that needs one.
    async fn evict_without_budget(&self) -> Result<Option<Object>, Box<Status>> {
        for _ in 0..ATTEMPTS {
            let pod = self.store.pods.read(self.at, "").await?;
            if !evictions::needs_no_budget(&pod) {
                return Ok(Some(pod));
            }
            self.check(&pod, &self.options.preconditions)?;
            let is_named = self.options.preconditions.resource_version.is_some();
            let as_seen = !is_named && evictions::may_need_a_budget(&pod);
            match self.delete(&pod, as_seen).await {
                Err(refused) if self.may_repeat(&refused) => {}
                outcome => return outcome.map(|()| None),
            }
        }
        let definition = self.store.pods.definition();
        Err(Box::new(Status::stale(definition, self.at.name)))
    }

    /// Whether a conflict comes from a version that the server has named itself.
    fn may_repeat(&self, refused: &Status) -> bool {
        let is_named = self.options.preconditions.resource_version.is_some();
        refused.reason == StatusReason::CONFLICT && !is_named
    }

    async fn budgets_of(&self, pod: &Object) -> Result<Vec<Object>, Box<Status>> {
        let Some(budgets) = &self.store.budgets else {
            return Ok(Vec::new());
        };
        let everything = Arc::new(Selection::default());
        let options = ListOptions::default();
        let listed = budgets
            .list(self.at.namespace, &options, everything)
            .await?;
        let mut found = Vec::new();
        for item in listed.items {
            let budget = decoded(&item)?;
            if evictions::selects(&budget, pod) {
                found.push(budget);
            }
        }
        Ok(found)
    }

    async fn take_disruption(&self, budget: &Object) -> Result<(), Box<Status>> {
        let Some(budgets) = &self.store.budgets else {
            return Ok(());
        };
        let at = NamespacedName {
            namespace: self.at.namespace,
            name: budget.name(),
        };
        let (definition, now) = (budgets.definition(), clock::now());
        let mut take =
            |budget: &mut Object| evictions::take_disruption(budget, self.at.name, now, definition);
        let taking = budgets.change_status(self.context, at, self.options.dry_run, &mut take);
        taking.await.map(|_| ())
    }

    /// Says in the pod that it is evicted, and deletes it. `as_seen` demands that nobody has
    /// changed the pod, whatever version the request names.
    async fn delete(&self, pod: &Object, as_seen: bool) -> Result<(), Box<Status>> {
        let mut options = self.options.clone();
        if as_seen {
            options.preconditions.resource_version = Some(pod.resource_version().to_owned());
        }
        if !options.dry_run {
            let now = clock::now();
            let preconditions = options.preconditions.clone();
            let mut mark = |pod: &mut Object| {
                self.check(pod, &preconditions)?;
                evictions::mark_evicted(pod, now);
                Ok(())
            };
            let anyone = Preconditions::default();
            let pods = &self.store.pods;
            let marking = pods.change(self.context, self.at, anyone, false, &mut mark);
            let marked = marking.await?;
            if options.preconditions.resource_version.is_some() {
                let version = marked.revision.to_string();
                options.preconditions.resource_version = Some(version);
            }
        }
        let deleting = self.store.pods.delete(self.context, self.at, &options);
        deleting.await.map(|_| ())
    }

    fn check(&self, pod: &Object, asked: &Preconditions) -> Result<(), Box<Status>> {
        let differs = |asked: &Option<String>, found: &str| {
            let asked = asked.as_deref().filter(|asked| !asked.is_empty());
            asked.filter(|asked| *asked != found).map(str::to_owned)
        };
        let why = if let Some(uid) = differs(&asked.uid, pod.uid()) {
            format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The \
                 object might have been deleted and then recreated",
                pod.uid()
            )
        } else if let Some(version) = differs(&asked.resource_version, pod.resource_version()) {
            format!(
                "the ResourceVersion in the precondition ({version}) does not match the \
                 ResourceVersion in record ({}). The object might have been modified",
                pod.resource_version()
            )
        } else {
            return Ok(());
        };
        // Its kind is named, not its resource.
        let kind = &self.store.pods.definition().kind;
        let kind = ResourceDefinition::named("", "v1", kind, kind);
        Err(Box::new(Status::conflict(&kind, self.at.name, &why)))
    }
}

/// The options of the deletion. A dry run of the request is one of the deletion.
fn options_of(eviction: &Object, options: &WriteOptions) -> Result<DeleteOptions, Box<Status>> {
    let given = eviction
        .at(&["deleteOptions"])
        .filter(|given| !given.is_null());
    let mut deletion = match given {
        None => DeleteOptions::default(),
        Some(given) => {
            let text = Value::to_string(given);
            DeleteOptions::parse(&Query::default(), text.as_bytes(), BodyFormat::Json)?
        }
    };
    deletion.dry_run |= options.dry_run;
    Ok(deletion)
}

impl RestStorage for EvictionStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        self.pods.definition()
    }

    fn subresource(&self) -> Option<&str> {
        Some("eviction")
    }

    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        self.pods.held_bytes(at)
    }

    fn named_creater(&self) -> Option<&dyn NamedCreater> {
        Some(self)
    }
}

impl NamedCreater for EvictionStore {
    fn create_named<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        mut object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created> {
        async move {
            reconcile_namespace(&mut object, &self.kind, at.namespace)?;
            let admitting = self
                .pods
                .admit_unstored(self, context, at, &mut object, options);
            admitting.await?;
            if object.name() != at.name {
                let why = "name in URL does not match name in Eviction object";
                return Err(Box::new(Status::bad_request(why)));
            }
            let eviction = Eviction {
                store: self,
                context,
                at,
                options: options_of(&object, options)?,
            };
            eviction.carry_out().await
        }
        .boxed()
    }
}
