//! Update and patch (http.md 3.3, 4.1, RG-4 to RG-8).

use std::sync::Arc;

use actors::engine::Key;
use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};

use super::admit::Request;
use super::allocation::{Allocated, settle};
use super::create::{SYSTEM_FIELDS, deduplicate};
use super::{RegistryStore, UpdateSource, Written, reconcile_namespace};
use crate::api::decode::{FieldFault, judge};
use crate::api::deep;
use crate::api::managed_fields::{Application, FieldManager, keep_times};
use crate::api::metadata::OwnersStage;
use crate::api::object::Object;
use crate::api::options::{FieldValidation, WriteOptions, object_version};
use crate::api::patch::Patched;
use crate::api::resource::{ResourceDefinition, Subresource};
use crate::api::status::Status;
use crate::api::version::uid_mismatch;
use crate::clock;
use crate::registry::context::RequestContext;
use crate::registry::deletion::is_released;
use crate::registry::errors::FailedOperation;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::pending_creates::PendingCreate;
use crate::registry::strategy::{Form, fill_in};
use crate::storage::{
    Asked, Current, DeleteRequest, Hold, Preconditions, StorageErrorKind, Unconditional,
    UpdateFunction, UpdateRequest, Updated, VersionUse, WriteDecision, WriteOutcome,
};

impl RegistryStore {
    /// Replaces or patches an object, or the part of it that a subresource writes.
    ///
    /// # Errors
    /// 404 when it is absent and can't be created this way, 409 for a stale version or another uid,
    /// 422 for an invalid object, refusals of admission (http.md 3.3, 4.1).
    pub async fn update(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        subresource: Option<&Subresource>,
        mut source: UpdateSource,
        options: &WriteOptions,
    ) -> Result<Written, Box<Status>> {
        let NamespacedName { namespace, name } = at;
        let mut uid = None;
        if let UpdateSource::Replace(replacement) = &mut source
            && let Some(object) = replacement.first()
        {
            self.check_identity(object, namespace, name)?;
            uid = Some(object.uid().to_owned()).filter(|uid| !uid.is_empty());
        }
        let version = source.version_use();
        let is_applied = matches!(source, UpdateSource::Apply { .. });
        let key = self.key(at)?;
        let request = Request {
            context,
            namespace,
            subresource,
        };
        let mut updating = Updating {
            store: self,
            request,
            name,
            key: &key,
            source: &mut source,
            uid,
            options,
            forgets_managers: false,
            creation: None,
            released: None,
            allocated: None,
        };
        let update = || UpdateRequest {
            key: key.clone(),
            ignore_not_found: true,
            // The uid is looked at where the object is decoded.
            preconditions: Preconditions::default(),
            suggestion: None,
            version,
            origin: context.origin(),
        };
        let target = self.target(options.dry_run);
        let mut outcome = target.guaranteed_update(update(), &mut updating).await;
        if !is_applied && matches!(&outcome, Err(error) if error.is_too_large()) {
            // It is tried once more without what it can do without (API-93, API-157).
            updating.forgets_managers = true;
            outcome = target.guaranteed_update(update(), &mut updating).await;
        }
        let Updating {
            creation,
            released,
            allocated,
            ..
        } = updating;
        let is_written = matches!(outcome, Ok(WriteOutcome::Done(_)));
        settle(allocated, is_written).await;
        let created = creation.is_some();
        let operation = if created {
            FailedOperation::Create
        } else {
            FailedOperation::Update
        };
        let object = match outcome.map_err(|error| self.fault(error, operation, name))? {
            WriteOutcome::Done(object) => object,
            WriteOutcome::Left => {
                let removing = self.remove_released(&request, options, &key, released);
                removing.await?
            }
        };
        Ok(Written { object, created })
    }

    /// Checks that the body names the object in the URL (API-92, API-99, API-154).
    fn check_identity(
        &self,
        object: &mut Object,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), Box<Status>> {
        reconcile_namespace(object, self.definition(), namespace)?;
        match object.name() {
            own if own == name => Ok(()),
            "" => Err(Box::new(Status::name_missing(name))),
            other => Err(Box::new(Status::name_mismatch(other, name))),
        }
    }

    /// Removes an object whose last finalizer was removed by an update, and answers the update
    /// (API-106, RG-7). A removal by another client in the meantime counts as success.
    async fn remove_released(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        key: &str,
        released: Option<Released>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let Some(Released { object, stored }) = released else {
            return Err(Box::new(Status::internal("an update has left its object")));
        };
        let deletion = DeleteRequest {
            key: key.to_owned(),
            preconditions: Preconditions {
                uid: Some(object.uid().to_owned()),
                resource_version: None,
            },
            suggestion: None,
            origin: request.context.origin(),
        };
        let outcome = self
            .target(options.dry_run)
            .delete(deletion, &mut Unconditional)
            .await;
        match outcome.map_err(|error| (error.kind.clone(), error)) {
            Ok(_)
            | Err((StorageErrorKind::KeyNotFound | StorageErrorKind::InvalidObject(_), _)) => {
                self.release(&object, options.dry_run).await;
                let key = Key::new(stored.key());
                let shown = self.codec.wire(&key, &object, stored.revision);
                shown
                    .map(Arc::new)
                    .map_err(|error| Box::new(Status::internal(error)))
            }
            Err((_, error)) => Err(self.fault(error, FailedOperation::Delete, object.name())),
        }
    }
}

impl UpdateSource {
    /// What the content does with the version that it is written for.
    fn version_use(&mut self) -> VersionUse {
        match self {
            UpdateSource::Replace(replacement) => {
                let names = |object: &mut Object| !object.resource_version().is_empty();
                match replacement.first().is_some_and(names) {
                    true => VersionUse::Names,
                    false => VersionUse::Ignores,
                }
            }
            UpdateSource::Patch(patch) if patch.touches_version() => VersionUse::Reads,
            UpdateSource::Apply { object, .. } if !object.resource_version().is_empty() => {
                VersionUse::Reads
            }
            UpdateSource::Patch(_) | UpdateSource::Apply { .. } => VersionUse::Ignores,
        }
    }
}

/// An update after which nothing keeps the object.
struct Released {
    /// The updated object.
    object: Object,
    /// The object before the update.
    stored: Arc<CachedObject>,
}

/// The function of one update, from the stored object to the new one.
struct Updating<'u> {
    store: &'u RegistryStore,
    request: Request<'u>,
    name: &'u str,
    key: &'u str,
    source: &'u mut UpdateSource,
    /// The uid that a replacing object has, if it has one.
    uid: Option<String>,
    options: &'u WriteOptions,
    /// Whether the object is stored without managedFields.
    forgets_managers: bool,
    /// Set while the last attempt creates the object.
    creation: Option<Arc<PendingCreate>>,
    /// Set when the last attempt ends in a deletion.
    released: Option<Released>,
    /// What the last attempt has taken of the cluster.
    allocated: Option<Box<dyn Allocated>>,
}

impl UpdateFunction for Updating<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<Updated>, Box<Status>>> {
        async move {
            self.creation = None;
            self.released = None;
            // Another attempt was in vain.
            settle(self.allocated.take(), false).await;
            let mut object = match current.object {
                None => self.create().await?,
                Some(cached) => {
                    let stored = self.store.to_change(&cached).await?;
                    self.check_uid(stored.uid())?;
                    let object = self.change(&cached, &stored).await?;
                    if is_released(&self.store.strategy, &object, &stored) {
                        settle(self.allocated.take(), false).await;
                        let stored = cached;
                        self.released = Some(Released { object, stored });
                        return Ok(WriteDecision::Leave);
                    }
                    object
                }
            };
            if self.forgets_managers {
                object.set_managed_fields(None);
            }
            let hold = self.creation.clone().map(|creation| creation as Hold);
            Ok(WriteDecision::Write(Updated {
                object,
                ttl: self.store.time_to_live(),
                hold,
            }))
        }
        .boxed()
    }
}

impl Updating<'_> {
    /// Creates an absent object, which only apply and PUT of some kinds may do (API-101, API-153,
    /// API-213).
    async fn create(&mut self) -> Result<Object, Box<Status>> {
        let (store, definition) = (self.store, self.store.definition());
        let absent = || Box::new(Status::not_found(definition, self.name));
        if self.request.subresource.is_some() {
            return Err(absent());
        }
        let mut object = match &*self.source {
            UpdateSource::Replace(_) if definition.create_on_update => self.first()?,
            UpdateSource::Apply { object, faults } => self.first_applied(object, faults)?,
            UpdateSource::Replace(_) | UpdateSource::Patch(_) => return Err(absent()),
        };
        self.creation = Some(Arc::new(store.options.pending_creates.begin()));
        let form = store
            .admit(
                &self.request,
                self.options,
                &mut object,
                (None, Form::Unknown),
            )
            .await?;
        store.prepare_new(&mut object, form, self.request.context)?;
        store
            .validate_admitted(&self.request, self.options, &object, None)
            .await?;
        let dry_run = self.options.dry_run;
        self.allocated = store.allocate(&mut object, None, dry_run).await?;
        Ok(object)
    }

    /// Checks that the object in the store is the one that a replacing object names (API-100).
    fn check_uid(&self, found: &str) -> Result<(), Box<Status>> {
        match &self.uid {
            Some(wanted) if wanted != found => {
                let key = self.store.options.root.physical(self.key);
                let text = uid_mismatch(wanted, found);
                let definition = self.store.definition();
                let status = Status::precondition_failed(definition, self.name, &key, &text);
                Err(Box::new(status))
            }
            _ => Ok(()),
        }
    }

    /// The replacing object.
    fn replacing(&mut self) -> Result<Object, Box<Status>> {
        let UpdateSource::Replace(replacement) = &mut *self.source else {
            return Err(Box::new(Status::internal("a patch replaces nothing")));
        };
        // The first was checked before all attempts.
        let is_first = replacement.first().is_some();
        let mut object = replacement.take()?;
        if !is_first {
            self.check_identity(&mut object)?;
        }
        Ok(object)
    }

    /// The first content of an object that is put.
    fn first(&mut self) -> Result<Object, Box<Status>> {
        self.check_uid("")?;
        let mut object = self.replacing()?;
        let store = self.store;
        object.set_meta("resourceVersion", "");
        store.take_in(&mut object, &self.request);
        Ok(object)
    }

    /// The first content of an object that is applied (API-152).
    fn first_applied(
        &self,
        applied: &Object,
        faults: &[FieldFault],
    ) -> Result<Object, Box<Status>> {
        let definition = self.store.definition();
        let manager = self.store.field_manager(&self.request);
        let mut object = self.applied(&manager, (applied, faults), None)?;
        if !object.uid().is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was \
                 found",
                object.uid()
            );
            return Err(Box::new(Status::conflict(definition, self.name, &why)));
        }
        self.check_identity(&mut object)?;
        self.store.convert_to_hub(&mut object);
        for field in SYSTEM_FIELDS {
            object.metadata_mut().remove(field);
        }
        Ok(object)
    }

    /// The live object with what is applied. Both have the kind of the manager. Members that are
    /// given twice are told when the rest could be applied (API-156).
    fn applied(
        &self,
        manager: &FieldManager<'_>,
        (applied, faults): (&Object, &[FieldFault]),
        live: Option<&Object>,
    ) -> Result<Object, Box<Status>> {
        let application = Application {
            object: applied,
            manager: &self.request.context.manager,
            force: self.options.force,
        };
        let object = manager.apply(live, application, |object| {
            fill_in(object, manager.definition);
        })?;
        let warnings = &self.request.context.warnings;
        judge(faults, self.options.field_validation, warnings, |error| {
            let error = error.trim_start_matches("strict decoding error: ");
            Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {error}"
            ))
        })?;
        Ok(object)
    }

    /// Checks that what was made still names the object in the URL.
    fn check_identity(&self, object: &mut Object) -> Result<(), Box<Status>> {
        let Request { namespace, .. } = self.request;
        self.store.check_identity(object, namespace, self.name)
    }

    async fn change(
        &mut self,
        cached: &CachedObject,
        stored: &Object,
    ) -> Result<Object, Box<Status>> {
        let store = self.store;
        // A patch may make it deep.
        let mut object = deep::retry(|| self.changed(stored)).await?;
        store
            .admit(
                &self.request,
                self.options,
                &mut object,
                (Some(stored), Form::Unknown),
            )
            .await?;
        self.check_version(&object, cached)?;
        // A Scale changes its object by the rules of the object itself.
        let part = self.request.subresource;
        let part = part.filter(|part| part.scaling.is_none());
        if part.is_none() {
            store.prepare_allocation(&mut object, Some(stored))?;
        }
        let strategy = &store.strategy;
        let warnings = strategy.prepare_update(&mut object, stored, part, clock::now())?;
        self.request.context.warn(warnings);
        keep_times(&mut object, stored);
        store
            .validate_admitted(&self.request, self.options, &object, Some(stored))
            .await?;
        let dry_run = self.options.dry_run;
        self.allocated = store.allocate(&mut object, Some(stored), dry_run).await?;
        Ok(object)
    }

    /// The requested content as an object of the hub, with its managedFields.
    fn changed(&mut self, stored: &Object) -> Result<Object, Box<Status>> {
        let store = self.store;
        let live = store.in_version(stored);
        let manager = store.field_manager(&self.request);
        let mut object = match self.request.scaling() {
            None => self.requested(&manager, &live)?,
            Some(scaling) => {
                let scale = manager.scale_of(&live, scaling)?;
                let scale = self.requested(&manager.of_scales(scaling), &scale)?;
                store.scaled(&manager, scaling, &scale, live.into_owned())?
            }
        };
        store.convert_to_hub(&mut object);
        Ok(object)
    }

    /// What the request makes of a live object, with its managedFields. Both have the kind of the
    /// manager.
    fn requested(
        &mut self,
        manager: &FieldManager<'_>,
        live: &Object,
    ) -> Result<Object, Box<Status>> {
        if let UpdateSource::Apply { object, faults } = &*self.source {
            let mut object = self.applied(manager, (object, faults), Some(live))?;
            self.check_identity(&mut object)?;
            return Ok(object);
        }
        let mut object = self.wanted(manager.definition, live)?;
        if let UpdateSource::Replace(_) = &*self.source {
            // Of patches, only when owners of fields are told (API-207).
            deduplicate(&mut object, OwnersStage::Read, self.request.context);
        }
        fill_in(&mut object, manager.definition);
        let name = &self.request.context.manager;
        match self.request.scaling() {
            None => self
                .store
                .tell_owners(manager, Some(live), &mut object, name),
            Some(_) => manager.update(Some(live), &mut object, name),
        };
        Ok(object)
    }

    /// The requested content, based on the current object of this kind.
    fn wanted(
        &mut self,
        definition: &ResourceDefinition,
        stored: &Object,
    ) -> Result<Object, Box<Status>> {
        let UpdateSource::Patch(patch) = &*self.source else {
            return self.replacing();
        };
        let Patched { mut object, faults } =
            patch.apply(stored, definition, self.options.field_validation)?;
        if self.options.field_validation == FieldValidation::Warn {
            let warnings = &self.request.context.warnings;
            faults
                .iter()
                .for_each(|fault| warnings.add(fault.to_string()));
        }
        self.check_identity(&mut object)?;
        Ok(object)
    }

    /// Checks the optimistic lock (API-102, RG-5).
    fn check_version(&self, object: &Object, stored: &CachedObject) -> Result<(), Box<Status>> {
        let definition = self.store.definition();
        let asked = object_version(object.resource_version())?;
        match asked {
            Asked::At(version) if version == stored.revision => Ok(()),
            Asked::At(_) => Err(Box::new(Status::stale(definition, self.name))),
            Asked::Unset | Asked::Any if definition.unconditional_update => Ok(()),
            Asked::Unset | Asked::Any => {
                Err(Box::new(Status::version_required(definition, self.name)))
            }
        }
    }
}
