//! Delete (http.md 3.4, RG-9 to RG-11). The decisions are in `deletion`.

use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};

use super::RegistryStore;
use super::admit::Request;
use crate::api::object::Object;
use crate::api::options::DeleteOptions;
use crate::api::status::{Status, StatusDetails};
use crate::clock;
use crate::registry::context::RequestContext;
use crate::registry::deletion::{DeletionVerdict, decide, needs_content};
use crate::registry::errors::{FailedOperation, decoded_with_room};
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::strategy::Valid;
use crate::storage::codec::metadata_object_of;
use crate::storage::{
    Current, DeleteRequest, NewObject, Preconditions, StorageError, StorageErrorKind,
    Unconditional, UpdateFunction, UpdateRequest, ValidateDeletion, WriteDecision, WriteOutcome,
};

/// The body of the response to a deletion (API-109, RG-10).
#[derive(Clone, Debug)]
pub enum Answer {
    /// The object as it was when it was removed, or as marked for deletion.
    Object,
    /// A Status with the details of the removed object.
    Status(Box<Status>),
}

/// A deletion that was not refused.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The last content of the object, or its content as marked for deletion.
    pub object: Arc<CachedObject>,
    /// The body of the response.
    pub answer: Answer,
    /// Whether the object was removed. In a dry run, whether it would be.
    pub removed: bool,
    /// Whether the response has code 202 instead of 200: the object still exists, and the client
    /// has set `orphanDependents` to false (API-110).
    pub accepted: bool,
}

impl RegistryStore {
    /// Removes an object or marks it for deletion.
    ///
    /// # Errors
    /// 404 if the object is absent, 409 for failed preconditions, and refusals of admission
    /// (http.md 3.4).
    pub async fn delete(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        options: &DeleteOptions,
    ) -> Result<Deletion, Box<Status>> {
        let key = self.key(at)?;
        let NamespacedName { namespace, name } = at;
        if self.unconvertible().is_some() {
            // The answer would show the object.
            self.get(at, "").await?;
        }
        let request = Request {
            context,
            namespace,
            subresource: None,
        };
        let deleting = Deleting {
            store: self,
            request,
            name,
            key: &key,
            options,
        };
        loop {
            // Most objects have no finalizers and no grace period, so try to remove the object at
            // once.
            match deleting.try_remove().await? {
                DeletionStep::Done(deletion) => return Ok(deleting.released(deletion).await),
                DeletionStep::Other => {}
                DeletionStep::Unreadable(error) => match deleting.try_remove_unread(error).await? {
                    DeletionStep::Done(deletion) => return Ok(deletion),
                    // The object has become readable in the meantime.
                    DeletionStep::Other | DeletionStep::Unreadable(_) => continue,
                },
            }
            match deleting.try_mark().await? {
                DeletionStep::Done(deletion) => return Ok(deleting.released(deletion).await),
                // The object has changed in the meantime.
                DeletionStep::Other | DeletionStep::Unreadable(_) => {}
            }
        }
    }
}

/// The result of a step.
enum DeletionStep {
    /// The deletion is complete.
    Done(Deletion),
    /// The object has changed or needs the other kind of step.
    Other,
    /// The stored value cannot be decoded.
    Unreadable(StorageError),
}

/// One deletion.
struct Deleting<'d> {
    store: &'d RegistryStore,
    request: Request<'d>,
    name: &'d str,
    key: &'d str,
    options: &'d DeleteOptions,
}

impl Deleting<'_> {
    /// Removes the object, if its finalizers and options allow that.
    async fn try_remove(&self) -> Result<DeletionStep, Box<Status>> {
        let mut check = Check { deleting: self };
        match self.remove(Preconditions::default(), &mut check).await {
            Ok(WriteOutcome::Done(object)) => Ok(DeletionStep::Done(self.removed(object)?)),
            Ok(WriteOutcome::Left) => Ok(DeletionStep::Other),
            Err(error) if matches!(error.kind, StorageErrorKind::Unreadable(_)) => {
                Ok(DeletionStep::Unreadable(error))
            }
            Err(error) => Err(self.store.fault(error, FailedOperation::Delete, self.name)),
        }
    }

    /// Removes an object that cannot be decoded by its name alone, if admission allows it. Its
    /// finalizers and owner references are unknown, so it is refused if the client or the kind
    /// requires a check of the content.
    async fn try_remove_unread(&self, unread: StorageError) -> Result<DeletionStep, Box<Status>> {
        let fault = |error| self.store.fault(error, FailedOperation::Delete, self.name);
        let Preconditions {
            uid,
            resource_version,
        } = &self.options.preconditions;
        if uid.is_some() || resource_version.is_some() {
            return Err(fault(unread));
        }
        let stub = self.stub();
        self.store
            .admit_deletion(&self.request, self.options, &stub)
            .await?;
        if let Some(why) = needs_content(&self.store.strategy, self.options) {
            let why = format!("{unread}; {why}");
            let definition = self.store.definition();
            return Err(Box::new(Status::conflict(definition, self.name, &why)));
        }
        let target = self.store.target(self.options.dry_run);
        let origin = self.request.context.origin();
        let removing = target.delete_unreadable(self.key, origin);
        if !removing.await.map_err(fault)? {
            return Ok(DeletionStep::Other);
        }
        let key = Key::new(&unread.key);
        let object = self.store.codec.wire(&key, &stub, Revision::ZERO);
        let object = object.map_err(|error| Box::new(Status::internal(error)))?;
        let removed = self.removed(Arc::new(object))?;
        Ok(DeletionStep::Done(Deletion {
            answer: Answer::Status(Box::new(self.success(""))),
            ..removed
        }))
    }

    /// Returns the known fields of an object that cannot be decoded.
    fn stub(&self) -> Object {
        let definition = self.store.definition();
        let mut stub = Object::default();
        stub.set_type(&definition.kind, &definition.api_version());
        stub.set_meta("name", self.name);
        stub.set_meta("namespace", self.request.namespace.unwrap_or_default());
        stub
    }

    /// Marks the object for deletion if something keeps it, and removes it afterwards if nothing
    /// does any more.
    async fn try_mark(&self) -> Result<DeletionStep, Box<Status>> {
        let mut mark = Mark {
            deleting: self,
            kept: None,
            then_remove: false,
        };
        let update = UpdateRequest {
            key: self.key.to_owned(),
            ignore_not_found: false,
            preconditions: Preconditions::default(),
            suggestion: None,
            version: self
                .store
                .version_use_of_deletion(&self.request, self.options, self.name),
            origin: self.request.context.origin(),
        };
        let target = self.store.target(self.options.dry_run);
        let outcome = target.guaranteed_update(update, &mut mark).await;
        let outcome =
            outcome.map_err(|error| self.store.fault(error, FailedOperation::Update, self.name))?;
        let marked = match (outcome, mark.kept) {
            (WriteOutcome::Done(marked), _) => marked,
            (WriteOutcome::Left, Some(kept)) => return Ok(DeletionStep::Done(self.kept(kept))),
            // The object can now be removed at once.
            (WriteOutcome::Left, None) => return Ok(DeletionStep::Other),
        };
        match (mark.then_remove, self.options.dry_run) {
            (false, _) => Ok(DeletionStep::Done(self.kept(marked))),
            // A dry run does not store the mark, and a real deletion would return the object
            // without it.
            (true, true) => Ok(DeletionStep::Done(self.removed(marked)?)),
            (true, false) => Ok(DeletionStep::Done(self.remove_marked(marked).await?)),
        }
    }

    /// Removes an object that was marked before and that nothing keeps. If another client, such as
    /// a kubelet, has removed it, the deletion succeeds.
    async fn remove_marked(&self, marked: Arc<CachedObject>) -> Result<Deletion, Box<Status>> {
        let version = &self.options.preconditions.resource_version;
        let preconditions = Preconditions {
            uid: Some(uid_of(&marked)?),
            // Marking has changed the version that the client's precondition names (RG-9).
            resource_version: version.as_ref().map(|_| marked.revision.to_string()),
        };
        let mut check = Unconditional;
        match self.remove(preconditions, &mut check).await {
            Ok(WriteOutcome::Done(object)) => self.removed(object),
            Ok(WriteOutcome::Left) => self.removed(marked),
            Err(error) if matches!(error.kind, StorageErrorKind::KeyNotFound) => {
                self.removed(marked)
            }
            Err(error) => Err(self.store.fault(error, FailedOperation::Delete, self.name)),
        }
    }

    async fn remove(
        &self,
        preconditions: Preconditions,
        check: &mut dyn ValidateDeletion,
    ) -> Result<WriteOutcome, StorageError> {
        let request = DeleteRequest {
            key: self.key.to_owned(),
            preconditions,
            suggestion: None,
            origin: self.request.context.origin(),
        };
        self.store
            .target(self.options.dry_run)
            .delete(request, check)
            .await
    }

    /// Releases what a removed object had allocated.
    async fn released(&self, deletion: Deletion) -> Deletion {
        if let (true, Ok(object)) = (deletion.removed, decoded_with_room(&deletion.object).await) {
            self.store.release(&object, self.options.dry_run).await;
        }
        self.store.obeyed(deletion.object.revision).await;
        deletion
    }

    /// Returns the result for a removed object.
    fn removed(&self, object: Arc<CachedObject>) -> Result<Deletion, Box<Status>> {
        let definition = self.store.definition();
        let answer = match definition.rules().returns_deleted {
            true => Answer::Object,
            false => Answer::Status(Box::new(self.success(&uid_of(&object)?))),
        };
        Ok(Deletion {
            object,
            answer,
            removed: true,
            accepted: false,
        })
    }

    /// Returns the Status for a removed object.
    fn success(&self, uid: &str) -> Status {
        let definition = self.store.definition();
        Status::success(StatusDetails {
            name: self.name.to_owned(),
            group: definition.group.to_owned(),
            kind: definition.plural.to_owned(),
            uid: uid.to_owned(),
            ..StatusDetails::default()
        })
    }

    /// Returns the result for an object that still exists.
    fn kept(&self, object: Arc<CachedObject>) -> Deletion {
        let accepted = self.options.orphan_dependents == Some(false);
        Deletion {
            object,
            answer: Answer::Object,
            removed: false,
            accepted,
        }
    }

    fn verdict(&self, stored: &Object) -> Result<DeletionVerdict, Box<Status>> {
        let RegistryStore {
            strategy, options, ..
        } = self.store;
        decide(
            strategy,
            stored,
            self.options,
            options.collector,
            clock::now(),
        )
    }

    /// Runs admission. A step that leaves the object to the other kind of step does not ask.
    async fn admit(&self, stored: &Object) -> Result<(), Box<Status>> {
        self.store
            .admit_deletion(&self.request, self.options, stored)
            .await
    }
}

fn uid_of(object: &CachedObject) -> Result<String, Box<Status>> {
    let object = metadata_object_of(object);
    let object = object.map_err(|error| Box::new(Status::internal(error)))?;
    Ok(object.uid().to_owned())
}

/// The check before a removal: that nothing keeps the object.
struct Check<'c> {
    deleting: &'c Deleting<'c>,
}

impl ValidateDeletion for Check<'_> {
    fn call(
        &mut self,
        current: &Arc<CachedObject>,
    ) -> BoxFuture<'_, Result<WriteDecision<()>, Box<Status>>> {
        let current = current.clone();
        async move {
            let object = decoded_with_room(&current).await?;
            Ok(match self.deleting.verdict(&object)? {
                DeletionVerdict::Remove => {
                    self.deleting.admit(&object).await?;
                    WriteDecision::Write(())
                }
                DeletionVerdict::Mark { .. } | DeletionVerdict::Keep => WriteDecision::Leave,
            })
        }
        .boxed()
    }
}

/// The update function that marks an object for deletion.
struct Mark<'m> {
    deleting: &'m Deleting<'m>,
    /// The object, if the last call left it unchanged.
    kept: Option<Arc<CachedObject>>,
    then_remove: bool,
}

impl UpdateFunction for Mark<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        async move {
            self.kept = None;
            let Some(cached) = current.object else {
                let (definition, name) = (self.deleting.store.definition(), self.deleting.name);
                return Err(Box::new(Status::not_found(definition, name)));
            };
            let object = self.deleting.store.to_change(&cached).await?;
            let verdict = self.deleting.verdict(&object)?;
            if !matches!(verdict, DeletionVerdict::Remove) {
                self.deleting.admit(&object).await?;
            }
            match verdict {
                DeletionVerdict::Mark {
                    object,
                    then_remove,
                } => {
                    self.then_remove = then_remove;
                    let valid = Valid::marked(object);
                    Ok(WriteDecision::Write(NewObject {
                        ttl: None,
                        ..self.deleting.store.to_store(valid, true)
                    }))
                }
                DeletionVerdict::Keep => {
                    self.kept = Some(cached);
                    Ok(WriteDecision::Leave)
                }
                DeletionVerdict::Remove => Ok(WriteDecision::Leave),
            }
        }
        .boxed()
    }
}
