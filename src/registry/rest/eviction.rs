//! Evictions of pods, which PodDisruptionBudgets may refuse (API-220): POST on
//! `pods/{name}/eviction`.

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::{Value, json};

use super::{Answering, Created, NamedCreater, RestStorage};
use crate::api::decode::BodyFormat;
use crate::api::object::{Object, put};
use crate::api::options::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::api::version::Preconditions;
use crate::clock;
use crate::kinds::strategies::eviction;
use crate::registry::context::RequestContext;
use crate::registry::errors::decoded;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::{RegistryStore, reconcile_namespace};

/// The number of attempts of an eviction while other clients change the pod.
const ATTEMPTS: usize = 20;

/// The only value of `dryRun`.
const ALL: &str = "All";

/// The storage of evictions. An eviction deletes its pod, and uses up one disruption of its budget.
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
    /// Creates the storage for these pods. Without budgets every eviction is allowed.
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
        if !eviction::is_uncounted(budget, &pod) {
            self.take_disruption(budget).await?;
            self.delete(&pod, false).await?;
            return Ok(done());
        }
        // The pod was not ready, so it needs no disruption. The deletion requires that this has not
        // changed.
        match self.delete(&pod, true).await {
            Err(refused) if self.may_repeat(&refused) => {
                Err(Box::new(eviction::is_behind(budget.name())))
            }
            outcome => outcome.map(|()| done()),
        }
    }

    /// Evicts the pod if it needs no budget. Otherwise returns the pod.
    async fn evict_without_budget(&self) -> Result<Option<Object>, Box<Status>> {
        for _ in 0..ATTEMPTS {
            let pod = self.store.pods.read(self.at, "").await?;
            if !eviction::needs_no_budget(&pod) {
                return Ok(Some(pod));
            }
            self.check(&pod, &self.options.preconditions)?;
            let is_named = self.options.preconditions.resource_version.is_some();
            let as_seen = !is_named && eviction::may_need_a_budget(&pod);
            match self.delete(&pod, as_seen).await {
                Err(refused) if self.may_repeat(&refused) => {}
                outcome => return outcome.map(|()| None),
            }
        }
        let definition = self.store.pods.definition();
        Err(Box::new(Status::stale(definition, self.at.name)))
    }

    /// Returns whether a conflict comes from a version that the server itself has required.
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
            if eviction::selects(&budget, pod) {
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
            |budget: &mut Object| eviction::take_disruption(budget, self.at.name, now, definition);
        let taking = budgets.change_status(self.context, at, self.options.dry_run, &mut take);
        taking.await.map(|_| ())
    }

    /// Marks the pod as evicted and deletes it. With `as_seen` the pod must not have changed, even
    /// if the request has no `resourceVersion`.
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
                eviction::mark_evicted(pod, now);
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
        // The message names the kind instead of the resource.
        let kind = &self.store.pods.definition().kind;
        let kind = ResourceDefinition::named("", "v1", kind, kind);
        Err(Box::new(Status::conflict(&kind, self.at.name, &why)))
    }
}

/// Gives the deletion the dry run of the request, unless it has its own.
///
/// # Errors
/// 400 if both have one, and they differ.
fn propagate_dry_run(eviction: &mut Object, options: &WriteOptions) -> Result<(), Box<Status>> {
    let path = ["deleteOptions", "dryRun"];
    let given = eviction.at(&["deleteOptions"]);
    if !options.dry_run || !given.is_some_and(Value::is_object) {
        return Ok(());
    }
    let own = eviction.items(&path);
    if own.is_empty() {
        put(eviction, &path, json!([ALL]));
        return Ok(());
    }
    if own == [ALL] {
        return Ok(());
    }
    let own: Vec<&str> = own.iter().filter_map(Value::as_str).collect();
    let why = format!(
        "Non-matching dry-run options in request and content: [{ALL}] and [{}]",
        own.join(" ")
    );
    Err(Box::new(Status::bad_request(why)))
}

/// Returns the delete options of an eviction. A dry run of the request is one of the deletion.
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
            propagate_dry_run(&mut object, options)?;
            let validating = self
                .pods
                .validate_unstored(self, context, at, &object, options);
            validating.await?;
            let context = RequestContext {
                is_eviction: true,
                ..context.clone()
            };
            let eviction = Eviction {
                store: self,
                context: &context,
                at,
                options: options_of(&object, options)?,
            };
            eviction.carry_out().await
        }
        .boxed()
    }
}
