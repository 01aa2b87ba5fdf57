//! Server-side apply (http.md 4.5).

use serde_json::Value;

use super::conflicts::{Conflicts, without};
use super::entry::{Entry, EntryError, Identity, Operation, kept_entries, write_entries};
use super::error::ApplyError;
use super::field_manager::{FieldManager, NEVER_OWNED};
use super::last_applied::{self, LAST_APPLIER};
use super::updater::{
    Applied, Conflict, Managers, NoSuchVersion, UpdateError, Updater, VersionedSet, Versions,
};
use crate::decode::from_unstructured;
use crate::field_set::Filter;
use crate::object::{Object, whole_seconds};
use crate::resource::converted;
use crate::schema::Empty;
use crate::typed::ValueType;

/// The manager that is given all fields of an object without managedFields before the first apply
/// (API-176).
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// An object to apply.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    /// The applied configuration.
    pub object: &'a Object,
    /// The field manager.
    pub manager: &'a str,
    /// Whether to take over fields from other managers that own them with other values.
    pub force: bool,
}

impl FieldManager<'_> {
    /// Applies an object to the live one, or creates it (API-172). Both have the version of the
    /// request. The result has managedFields, is defaulted by `fill_in`, and is in the canonical
    /// form that objects have until they are stored ([`Empty::Distinguished`]).
    ///
    /// # Errors
    /// 400 for an object of another kind, 409 for conflicts, 500 for fields that do not fit the
    /// type of the kind (API-170, API-171, API-174).
    pub fn apply(
        &self,
        live: Option<&Object>,
        application: Application<'_>,
        fill_in: impl FnOnce(&mut Object),
    ) -> Result<Object, ApplyError> {
        let applied = application.object;
        let mut entries = live.map_or(Ok(Vec::new()), kept_entries)?;
        self.check(applied)?;
        let live = match live {
            Some(live) => {
                if entries.is_empty() {
                    entries = self.updated(entries, None, live, BEFORE_FIRST_APPLY)?;
                }
                live
            }
            None => self.empty(),
        };
        let identity = self.identity(application.manager, Operation::Apply, "");
        let managers = owners(&mut entries)?;
        let Applied { object, managers } = self.merged(live, application, managers, &identity)?;
        let is_same = object.is_none();
        let mut object = match object {
            Some(merged) => self.typed(merged, applied)?,
            None => live.clone(),
        };
        object.set_managed_fields(None);
        if !is_same {
            fill_in(&mut object);
        }
        self.definition
            .canonicalize_with(&mut object, Empty::Distinguished);
        let entries = self.entries_after(entries, managers, &identity, is_same);
        object.set_managed_fields(write_entries(entries));
        if application.manager == LAST_APPLIER {
            last_applied::write(&mut object, applied);
        }
        Ok(object)
    }

    /// Checks the applied object before it is compared with the live one (API-170, API-171).
    fn check(&self, applied: &Object) -> Result<(), ApplyError> {
        let own = self.definition;
        if applied.kind() != own.kind || applied.api_version() != own.api_version() {
            let given = shown_type(applied);
            return Err(ApplyError::BadObject(format!(
                "invalid object type: {given}"
            )));
        }
        if let Some(Value::Array(_)) = applied.at(&["metadata", "managedFields"]) {
            let problem = "metadata.managedFields must be nil".to_owned();
            return Err(ApplyError::BadObject(problem));
        }
        let of = own.value_type();
        of.validate(applied, false).map_err(|errors| {
            ApplyError::Failed(format!(
                "failed to create typed patch object ({}): {errors}",
                shown(applied)
            ))
        })
    }

    /// Merges the objects, and ignores conflicts that come from earlier client-side applies by
    /// kubectl (API-177).
    fn merged(
        &self,
        live: &Object,
        application: Application<'_>,
        managers: Managers,
        identity: &Identity,
    ) -> Result<Applied, ApplyError> {
        let Application {
            object,
            manager,
            force,
        } = application;
        let refused = |conflicts| ApplyError::Conflicts(Conflicts::of(conflicts));
        let version = self.definition.api_version();
        let key = identity.key();
        let updater = Updater { versions: self };
        let is_last_applier = manager == LAST_APPLIER && !force;
        let again = is_last_applier.then(|| managers.clone());
        let conflicts = match updater.apply(live, object, &version, managers, &key, force) {
            Ok(applied) => return Ok(applied),
            Err(UpdateError::NoSuchVersion(NoSuchVersion)) => {
                return Err(ApplyError::Failed(format!(
                    "version {version} does not exist"
                )));
            }
            Err(UpdateError::Conflicts(conflicts)) => conflicts,
        };
        let Some((managers, forgiven)) = again.zip(last_applied::owned(live, self.definition))
        else {
            return Err(refused(conflicts));
        };
        let left: Vec<Conflict> = without(conflicts, &forgiven);
        if !left.is_empty() {
            return Err(refused(left));
        }
        updater
            .apply(live, object, &version, managers, &key, true)
            .map_err(|_| refused(left))
    }

    /// Converts the merged object to the type of its kind.
    fn typed(&self, merged: Object, applied: &Object) -> Result<Object, ApplyError> {
        let failed = |problem: &str| {
            let of = shown(applied);
            let kind = shown_type(applied);
            ApplyError::Failed(format!(
                "failed to convert new object ({of}) to proper version: unable to convert \
                 unstructured object to {kind}: {problem}"
            ))
        };
        let Some((schema, id)) = self.definition.object_type().found() else {
            return Err(failed("its type is unknown"));
        };
        let mut members = merged.0;
        from_unstructured(schema, id, &mut members).map_err(|problem| failed(&problem))?;
        let mut object = Object::of(members);
        self.definition.behaviour.prune(&mut object);
        if let Some(problem) = self.definition.behaviour.why_unreadable(&object) {
            let of = shown(applied);
            let problem = format!("failed to convert to unversioned ({of}): {problem}");
            return Err(ApplyError::Failed(problem));
        }
        Ok(object)
    }

    /// Returns the entries for these managers. Entries whose owned fields stay the same are kept as
    /// they are.
    fn entries_after(
        &self,
        before: Vec<Entry>,
        mut managers: Managers,
        own: &Identity,
        is_same: bool,
    ) -> Vec<Entry> {
        let own_key = own.key();
        let mut entries = Vec::with_capacity(before.len() + 1);
        if let Some(owned) = managers.get_mut(&own_key) {
            owned.set = owned.set.difference(&NEVER_OWNED);
            if owned.set.is_empty() {
                managers.remove(&own_key);
            }
        }
        for mut entry in before {
            let Some(owned) = managers.remove(&entry.identity().key()) else {
                continue;
            };
            let is_own = entry.is(own);
            entry.own(owned.set, &owned.api_version);
            if is_own && !is_same {
                entry.set_time(&whole_seconds(self.now));
            }
            entries.push(entry);
        }
        if let Some(owned) = managers.remove(&own_key) {
            let mut entry = Entry::new(own, &owned.api_version, owned.set);
            if !is_same {
                entry.set_time(&whole_seconds(self.now));
            }
            entries.push(entry);
        }
        entries
    }
}

impl Versions for FieldManager<'_> {
    fn value_type(&self, api_version: &str) -> Option<ValueType<'_>> {
        let definition = self.version(api_version)?;
        Some(definition.value_type())
    }

    fn convert(&self, object: &Object, api_version: &str) -> Result<Object, NoSuchVersion> {
        let to = self.version(api_version).ok_or(NoSuchVersion)?;
        let from = self.version(object.api_version()).ok_or(NoSuchVersion)?;
        let known = self.awaited.and_then(|known| known.find(object, to));
        Ok(known.unwrap_or_else(|| converted(object, from, to, Empty::Printed)))
    }

    fn filter(&self, _api_version: &str) -> Option<&Filter> {
        self.filter
    }
}

/// Returns the owned fields of each manager, by the key of the manager's identity.
fn owners(entries: &mut [Entry]) -> Result<Managers, EntryError> {
    let owners = entries.iter_mut().map(|entry| {
        let owned = VersionedSet {
            set: entry.fields()?.clone(),
            api_version: entry.api_version().into(),
            applied: entry.operation() == Operation::Apply,
        };
        Ok((entry.identity().key(), owned))
    });
    owners.collect()
}

/// Returns kind and version of an object as error messages show them: `apps/v1, Kind=Deployment`.
fn shown_type(object: &Object) -> String {
    let version = object.api_version();
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", object.kind())
}

/// Returns an object as error messages show it: `namespace/name; apps/v1, Kind=Deployment`.
fn shown(object: &Object) -> String {
    format!(
        "{}/{}; {}",
        object.namespace(),
        object.name(),
        shown_type(object)
    )
}
