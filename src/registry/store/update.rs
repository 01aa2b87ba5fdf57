//! Update and patch (http.md 3.3, 4.1, RG-4 to RG-8).

use std::sync::Arc;

use actors::engine::Key;
use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};

use super::admit::Request;
use super::allocation::{Allocated, settle};
use super::awaited::{Conversions, OfVersion};
use super::create::{SYSTEM_FIELDS, deduplicate};
use super::reconcile_namespace;
use super::{RegistryStore, UpdateSource, Written};
use crate::api::deep;
use crate::api::field_validation::{StrictDecodingError, apply_field_validation};
use crate::api::managed_fields::{Application, FieldManager, keep_times};
use crate::api::metadata::OwnersStage;
use crate::api::object::Object;
use crate::api::options::{FieldValidation, WriteOptions, object_version};
use crate::api::patch::Patched;
use crate::api::resource::{ResourceDefinition, Scaling, Subresource};
use crate::api::status::Status;
use crate::api::version::uid_mismatch;
use crate::clock;
use crate::registry::context::RequestContext;
use crate::registry::deletion::is_released;
use crate::registry::errors::FailedOperation;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::pending_creates::PendingCreate;
use crate::registry::strategy::{Decoded, Defaulted, Valid};
use crate::storage::{
    Asked, Current, DeleteRequest, Hold, NewObject, Preconditions, StorageErrorKind, Unconditional,
    UpdateFunction, UpdateRequest, VersionUse, WriteDecision, WriteOutcome,
};

impl RegistryStore {
    /// Replaces or patches an object, or the part of it that a subresource writes.
    ///
    /// # Errors
    /// 404 if the object is absent and cannot be created this way, 409 for a stale version or
    /// another uid, 422 for an invalid object, and refusals of admission (http.md 3.3, 4.1).
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
        let key = self.key(at)?;
        let request = Request {
            context,
            namespace,
            subresource,
        };
        let version = self.version_use(&request, options, name, source.version_use());
        let mut updating = Updating {
            store: self,
            request,
            name,
            key: &key,
            source: &mut source,
            uid,
            options,
            creation: None,
            released: None,
            allocated: None,
            conversions: self.converted_from().map(|_| Arc::default()),
        };
        let update = UpdateRequest {
            key: key.clone(),
            ignore_not_found: true,
            // The uid is checked later, where the stored object has been decoded.
            preconditions: Preconditions::default(),
            suggestion: None,
            version,
            origin: context.origin(),
        };
        let target = self.target(options.dry_run);
        let outcome = target.guaranteed_update(update, &mut updating).await;
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
        self.obeyed(object.revision).await;
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

    /// Removes an object whose last finalizer was removed by an update, and returns the updated
    /// object (API-106, RG-7). If another client has removed it in the meantime, the update
    /// succeeds.
    async fn remove_released(
        &self,
        request: &Request<'_>,
        options: &WriteOptions,
        key: &str,
        released: Option<Released>,
    ) -> Result<Arc<CachedObject>, Box<Status>> {
        let Some(Released { object, stored }) = released else {
            return Err(Box::new(Status::internal(
                "an update did not write its object",
            )));
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
        if let Ok(WriteOutcome::Done(removed)) = &outcome {
            self.obeyed(removed.revision).await;
        }
        match outcome.map_err(|error| (error.kind.clone(), error)) {
            Ok(_)
            | Err((StorageErrorKind::KeyNotFound | StorageErrorKind::InvalidObject(_), _)) => {
                self.release(&object, options.dry_run).await;
                let key = Key::new(stored.key());
                let mut object = object;
                self.in_hub(&mut object);
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
    /// Returns how the request uses the `resourceVersion` of the stored object.
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

/// An update after which nothing keeps the object, so that it is removed.
struct Released {
    /// The updated object.
    object: Object,
    /// The object before the update.
    stored: Arc<CachedObject>,
}

/// The update function of one request, from the stored object to the new one.
struct Updating<'u> {
    store: &'u RegistryStore,
    request: Request<'u>,
    name: &'u str,
    key: &'u str,
    source: &'u mut UpdateSource,
    /// The uid of a replacing object, if it names one.
    uid: Option<String>,
    options: &'u WriteOptions,
    /// Set while the last attempt creates the object.
    creation: Option<Arc<PendingCreate>>,
    /// Set if the last attempt ends in a deletion.
    released: Option<Released>,
    /// The allocations of the last attempt.
    allocated: Option<Box<dyn Allocated>>,
    /// The conversions of the last attempt for the owners of fields, if the version is converted.
    conversions: Option<Arc<Conversions>>,
}

impl UpdateFunction for Updating<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        async move {
            self.creation = None;
            self.released = None;
            // A previous attempt was not written.
            settle(self.allocated.take(), false).await;
            let valid = match current.object {
                None => self.create().await?,
                Some(cached) => {
                    let stored = self.store.to_change(&cached).await?;
                    self.check_uid(stored.uid())?;
                    let valid = self.change(&cached, &stored).await?;
                    if is_released(&self.store.strategy, valid.object(), &stored) {
                        settle(self.allocated.take(), false).await;
                        let object = valid.into_object();
                        let stored = cached;
                        self.released = Some(Released { object, stored });
                        return Ok(WriteDecision::Leave);
                    }
                    valid
                }
            };
            // An applier without managedFields would lose the set of its applied fields, so apply
            // is refused as too large instead (API-157).
            let is_applied = matches!(&*self.source, UpdateSource::Apply { .. });
            Ok(WriteDecision::Write(NewObject {
                hold: self.creation.clone().map(|creation| creation as Hold),
                ..self.store.to_store(valid, is_applied)
            }))
        }
        .boxed()
    }
}

impl<'u> Updating<'u> {
    /// Creates an absent object, which only apply and the PUT of some kinds may do (API-101,
    /// API-153, API-213).
    async fn create(&mut self) -> Result<Valid, Box<Status>> {
        let (store, definition) = (self.store, self.store.definition());
        let absent = || Box::new(Status::not_found(definition, self.name));
        if self.request.subresource.is_some() {
            return Err(absent());
        }
        let defaulted = match &*self.source {
            UpdateSource::Replace(_) if definition.rules().create_on_update => self.first()?,
            UpdateSource::Apply { object, faults } => self.first_applied(object, faults)?,
            UpdateSource::Replace(_) | UpdateSource::Patch(_) => return Err(absent()),
        };
        self.creation = Some(Arc::new(store.options.pending_creates.begin()));
        let (request, options) = (&self.request, self.options);
        let admitted = store.admit(request, options, defaulted, None).await?;
        let name = self.name;
        store.check_rights(request, name, &admitted, None).await?;
        let making = store.make_valid(request, options, admitted, Some(name));
        let (valid, allocated) = making.await?;
        self.allocated = allocated;
        Ok(valid)
    }

    /// Checks that the stored object has the uid that a replacing object names (API-100).
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

    /// Returns the replacing object.
    fn replacing(&mut self) -> Result<Object, Box<Status>> {
        let UpdateSource::Replace(replacement) = &mut *self.source else {
            return Err(Box::new(Status::internal(
                "a patch has no replacing object",
            )));
        };
        // The identity of the first one was checked before all attempts.
        let is_first = replacement.first().is_some();
        let mut object = replacement.take()?;
        if !is_first {
            self.check_identity(&mut object)?;
        }
        Ok(object)
    }

    /// Returns the new object of a PUT that creates.
    fn first(&mut self) -> Result<Defaulted, Box<Status>> {
        self.check_uid("")?;
        let mut object = self.replacing()?;
        object.set_meta("resourceVersion", "");
        Ok(self.store.default_new(Decoded(object), &self.request))
    }

    /// Returns the new object of an apply that creates (API-152).
    fn first_applied(
        &self,
        applied: &Object,
        faults: &[StrictDecodingError],
    ) -> Result<Defaulted, Box<Status>> {
        let definition = self.store.definition();
        let manager = self.store.field_manager(&self.request);
        let mut object = self.applied(&manager, applied, faults, None)?;
        if !object.uid().is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was \
                 found",
                object.uid()
            );
            return Err(Box::new(Status::conflict(definition, self.name, &why)));
        }
        self.check_identity(&mut object)?;
        for field in SYSTEM_FIELDS {
            object.metadata_mut().remove(field);
        }
        Ok(self.store.defaulted(object, None))
    }

    /// Applies the configuration to the live object. Both have the kind of the manager. Duplicate
    /// members are reported after errors of the apply itself (API-156).
    fn applied(
        &self,
        manager: &FieldManager<'_>,
        applied: &Object,
        faults: &[StrictDecodingError],
        live: Option<&Object>,
    ) -> Result<Object, Box<Status>> {
        let application = Application {
            object: applied,
            manager: &self.request.context.manager,
            force: self.options.force,
        };
        let object = manager.apply(live, application, |object| {
            manager.definition.fill_in(object);
        })?;
        let warnings = &self.request.context.warnings;
        apply_field_validation(faults, self.options.field_validation, warnings, |error| {
            let error = error.trim_start_matches("strict decoding error: ");
            Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {error}"
            ))
        })?;
        Ok(object)
    }

    /// Checks that the resulting object still has the name and namespace of the URL.
    fn check_identity(&self, object: &mut Object) -> Result<(), Box<Status>> {
        let Request { namespace, .. } = self.request;
        self.store.check_identity(object, namespace, self.name)
    }

    /// Takes the result of the request, based on a stored object, through all stages.
    async fn change(
        &mut self,
        cached: &CachedObject,
        stored: &Object,
    ) -> Result<Valid, Box<Status>> {
        let store = self.store;
        let conversions = self.conversions.clone();
        let conversions = conversions.as_deref();
        conversions.inspect(|conversions| conversions.clear());
        let defaulted = loop {
            // A patch may nest the object more deeply than this thread's stack allows.
            let changed = deep::retry(|| self.changed(stored)).await;
            match conversions {
                Some(conversions) if conversions.fetch(store).await? => {}
                _ => break changed?,
            }
        };
        let (request, options) = (&self.request, self.options);
        let admitting = store.admit(request, options, defaulted, Some(stored));
        let mut admitted = admitting.await?;
        if let Some(scaling) = self.scaling() {
            store.check_scale(scaling, admitted.object())?;
        }
        self.check_version(admitted.object(), cached)?;
        let checking = store.check_rights(request, self.name, &admitted, Some(stored));
        checking.await?;
        // An update of a Scale follows the rules of the object's own endpoint.
        let part = request.subresource.filter(|part| part.kind.is_none());
        let part = part.map_or("", |part| part.name.as_str());
        if part.is_empty() {
            store.prepare_allocation(&mut admitted, Some(stored))?;
        }
        let strategy = &store.strategy;
        let prepared = strategy.prepare_update(admitted, stored, part, clock::now());
        let warn = |warning: &str| request.context.warnings.add(warning);
        let (mut valid, warnings) = strategy.validate_update(prepared, stored, part, warn)?;
        request.context.warn(warnings);
        keep_times(valid.for_completion(), stored);
        if valid.object().resource_version().is_empty() {
            // Validating hooks see on which version an update without one is based (HK-22).
            let version = stored.resource_version();
            valid.for_completion().set_meta("resourceVersion", version);
        }
        let validating = store.validate_admitted(request, options, &valid, Some(stored));
        validating.await?;
        let dry_run = options.dry_run;
        self.allocated = store.allocate(&mut valid, Some(stored), dry_run).await?;
        Ok(valid)
    }

    /// Returns the field paths that a Scale maps to, if the request is for a Scale.
    fn scaling(&self) -> Option<&'u Scaling> {
        let part = self.request.subresource?;
        part.kind.as_ref()?;
        self.store.definition().behaviour.scaling()
    }

    /// Returns the requested object in the hub version, with its managedFields.
    fn changed(&mut self, stored: &Object) -> Result<Defaulted, Box<Status>> {
        let store = self.store;
        let live = store.live(stored);
        let conversions = self.conversions.clone();
        let awaited = conversions.as_deref().zip(store.converted_from());
        let awaited = awaited.map(|(conversions, base)| OfVersion {
            conversions,
            version: store.definition(),
            base,
        });
        let manager = FieldManager {
            awaited: awaited.as_ref().map(|awaited| awaited as _),
            ..store.field_manager(&self.request)
        };
        let Some(scaling) = self.scaling() else {
            let (object, has_empties) = self.requested(&manager, &live)?;
            return Ok(store.defaulted(object, has_empties));
        };
        let scale = manager.scale_of(&live)?;
        let (scale, _) = self.requested(&manager.of_scales(scaling), &scale)?;
        let object = store.scaled(&manager, scaling, &scale, live.into_owned())?;
        Ok(store.defaulted(object, None))
    }

    /// Applies the request to the live object, and updates its managedFields. Both have the kind of
    /// the manager. If the result is canonical, also returns whether it has empty lists or maps.
    fn requested(
        &mut self,
        manager: &FieldManager<'_>,
        live: &Object,
    ) -> Result<(Object, Option<bool>), Box<Status>> {
        if let UpdateSource::Apply { object, faults } = &*self.source {
            let mut object = self.applied(manager, object, faults, Some(live))?;
            self.check_identity(&mut object)?;
            return Ok((object, None));
        }
        let mut object = self.wanted(manager.definition, live)?;
        if let UpdateSource::Replace(_) = &*self.source {
            // Duplicate owners in a patched object are removed later, with managedFields (API-207).
            deduplicate(&mut object, OwnersStage::Read, self.request.context);
        }
        manager.definition.fill_in(&mut object);
        let name = &self.request.context.manager;
        let has_empties = match self.scaling() {
            None => self
                .store
                .record_owners(manager, Some(live), &mut object, name),
            Some(_) => manager.update(Some(live), &mut object, name),
        };
        Ok((object, Some(has_empties)))
    }

    /// Returns the object that a PUT sends, or the patched one, before defaulting. It is based on
    /// the current object of this kind.
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

    /// Checks the `resourceVersion` for the optimistic lock (API-102, RG-5).
    fn check_version(&self, object: &Object, stored: &CachedObject) -> Result<(), Box<Status>> {
        let definition = self.store.definition();
        let asked = object_version(object.resource_version())?;
        match asked {
            Asked::At(version) if version == stored.revision => Ok(()),
            Asked::At(_) => Err(Box::new(Status::stale(definition, self.name))),
            Asked::Unset | Asked::Any
                if definition.rules().unconditional_update || self.scaling().is_some() =>
            {
                Ok(())
            }
            Asked::Unset | Asked::Any => {
                Err(Box::new(Status::version_required(definition, self.name)))
            }
        }
    }
}
