//! The changes to an object before it is stored (API-94, API-103, http.md 6.2).
//!
//! This folder owns the application of a definition's rules: the parts that a writer owns, the
//! fields that the server sets, and the generation. A new object and the stored one enter. The
//! object to store leaves, or a `Status` that refuses it. This folder must not know storage or
//! admission.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::api::error_list::ErrorList;
use crate::api::metadata;
use crate::api::object::{Object, keep, put, remove, whole_seconds};
use crate::api::resource::{
    GenerationRule, Lifetime, ResourceDefinition, Subresource, WarningsFunction,
};
use crate::api::schema::Empty;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;

/// What is known of the form of a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing.
    Unknown,
    /// It is that of objects that are written ([`Empty::Told`]).
    Written {
        /// Whether it has empty lists and maps.
        has_empties: bool,
    },
}

/// The strategy of one kind.
#[derive(Clone)]
pub struct Strategy {
    definition: Arc<ResourceDefinition>,
    /// The version in which objects are stored, whose form they have here.
    hub: Arc<ResourceDefinition>,
}

impl Strategy {
    /// The strategy of a resource.
    pub fn of(definition: impl Into<Arc<ResourceDefinition>>) -> Strategy {
        let definition = definition.into();
        Strategy {
            hub: definition.clone(),
            definition,
        }
    }

    /// The rules of a version for objects that have the form of another version of the resource.
    pub fn over(definition: Arc<ResourceDefinition>, hub: Arc<ResourceDefinition>) -> Strategy {
        Strategy { definition, hub }
    }

    /// The resource.
    pub fn definition(&self) -> &Arc<ResourceDefinition> {
        &self.definition
    }

    /// The lifetime of an object in seconds after its last change, for events that are kept for
    /// `event_ttl` (OP-4). `None` means no limit.
    pub fn time_to_live(&self, event_ttl: Duration) -> Option<u64> {
        match self.definition.lifetime {
            Lifetime::Unlimited => None,
            Lifetime::OfEvents => Some(event_ttl.as_secs()).filter(|seconds| *seconds > 0),
        }
    }

    /// Fills in what the writer of an object left out (http.md 7).
    pub fn fill_in(&self, object: &mut Object) {
        fill_in(object, &self.hub);
    }

    /// Fills in what others have left out, and brings the object into the canonical form.
    pub fn complete(&self, object: &mut Object) {
        self.fill_in(object);
        self.hub.canonicalize(object);
    }

    /// Fills in what admission has left out. The object keeps the form of objects that are written
    /// ([`Empty::Told`]).
    pub fn complete_admitted(&self, object: &mut Object) -> Form {
        self.fill_in(object);
        let has_empties = self.hub.canonicalize_with(object, Empty::Told);
        Form::Written { has_empties }
    }

    /// Says in a new object who asks for it, if its kind has members for that.
    pub fn set_requester(&self, object: &mut Object, user: &UserInfo) {
        if let Some(requester) = self.definition.create.requester {
            requester(object, user);
        }
    }

    /// Sets the fields that the server decides on create (API-94, API-91). The object leaves in the
    /// canonical form. What the client is warned of leaves, too.
    ///
    /// # Errors
    /// 422 with all faults of the object.
    pub fn prepare_create(
        &self,
        object: &mut Object,
        uid: &str,
        now: Timestamp,
        mut form: Form,
    ) -> Result<Vec<String>, Box<Status>> {
        object.set_meta("uid", uid);
        object.set_meta("creationTimestamp", &whole_seconds(now));
        let strategy = &self.definition.create;
        for path in &strategy.drops {
            // An empty struct is what the canonical form has there.
            let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            if object.at(path).is_some_and(|value| !is_empty(value)) {
                remove(object, path);
                form = Form::Unknown;
            }
        }
        if self
            .definition
            .disabled
            .is_some_and(|drop| drop(object, None))
        {
            form = Form::Unknown;
        }
        if let GenerationRule::OnChangeOf(_) = self.definition.generation {
            set_generation(object, 1);
        }
        if let Some(prepare) = strategy.prepare {
            prepare(object);
            // What was prepared is filled in as well, as when it is read from storage.
            self.fill_in(object);
            form = Form::Unknown;
        }
        let has_empties = match form {
            Form::Written { has_empties } => has_empties,
            Form::Unknown => self.hub.canonicalize_with(object, Empty::Told),
        };
        let mut errors = ErrorList::new();
        errors.extend(metadata::validate_create(object, &self.definition));
        if let Some(validate) = strategy.validate {
            validate(object, &mut errors);
        }
        self.refuse(object.name(), &errors)?;
        let warnings = warnings_of(strategy.warnings, object, None);
        self.finish(object, has_empties);
        Ok(warnings)
    }

    /// What the client is warned of in a new object before [`Strategy::prepare_create`], which may
    /// refuse it.
    pub fn warnings_before(&self, object: &Object) -> Vec<String> {
        warnings_of(self.definition.create.warnings_before, object, None)
    }

    /// What reading a valid object from storage makes of it: empty lists and maps are none, and
    /// what the version of the hub fills in is there. An object that was written in another
    /// version is checked before that (API-255).
    fn finish(&self, object: &mut Object, has_empties: bool) {
        if has_empties {
            self.hub.canonicalize(object);
        }
        let is_converted = !Arc::ptr_eq(&self.definition, &self.hub);
        if (has_empties || is_converted) && self.hub.defaults.is_some() {
            self.complete(object);
        }
    }

    /// Sets the fields that come from the stored object (API-103), for its own endpoint or that of
    /// a subresource. What the client is warned of leaves.
    ///
    /// # Errors
    /// 422 with all faults of the change.
    pub fn prepare_update(
        &self,
        object: &mut Object,
        stored: &Object,
        subresource: Option<&Subresource>,
        now: Timestamp,
    ) -> Result<Vec<String>, Box<Status>> {
        let (strategy, checks) = match subresource {
            Some(part) => (&part.update, part.update_checks),
            None => (&self.definition.update, self.definition.update_checks),
        };
        match stored.at(&["metadata", "generation"]) {
            Some(generation) => put(object, &["metadata", "generation"], generation.clone()),
            None => remove(object, &["metadata", "generation"]),
        }
        for part in &strategy.keeps {
            keep(object, stored, part);
        }
        if let Some(disabled) = self.definition.disabled {
            disabled(object, Some(stored));
        }
        if let Some(prepare) = strategy.prepare {
            if subresource.is_none() && !self.definition.generation_tells_empty {
                // What is prepared may depend on what has changed.
                self.hub.forget_same_empties(object, stored);
            }
            prepare(object, stored);
            self.fill_in(object);
        }
        if let Some(stamp) = strategy.stamp {
            stamp(object, stored, now);
        }
        let has_empties = self.hub.canonicalize_with(object, Empty::Told);
        let counts = subresource.is_none_or(|part| part.raises_generation);
        let tells_empty = self.definition.generation_tells_empty;
        let mut is_raised = counts && tells_empty && self.raises_generation(object, stored);
        if has_empties {
            self.hub.forget_same_empties(object, stored);
        }
        is_raised |= counts && self.raises_generation(object, stored);
        if is_raised {
            set_generation(object, generation_of(stored) + 1);
        }
        keep_system_fields(object, stored);
        let change = |errors: &mut ErrorList| {
            errors.extend(metadata::validate_update(
                object,
                stored,
                &self.definition,
                checks,
            ));
            if let Some(validate) = strategy.validate {
                validate(object, stored, errors);
            }
        };
        let errors = strategy.ratcheted(change, |errors| {
            if let Some(validate) = self.definition.create.validate {
                validate(stored, errors);
            }
        });
        self.refuse(object.name(), &errors)?;
        let warnings = warnings_of(strategy.warnings, object, Some(stored));
        self.finish(object, has_empties);
        Ok(warnings)
    }

    fn raises_generation(&self, object: &Object, stored: &Object) -> bool {
        let paths = match &self.definition.generation {
            GenerationRule::None => return false,
            GenerationRule::OnChangeOf(paths) | GenerationRule::FromAbsentOnChangeOf(paths) => {
                paths
            }
        };
        paths.iter().any(|path| !object.is_same_at(stored, path))
    }

    fn refuse(&self, name: &str, errors: &ErrorList) -> Result<(), Box<Status>> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Box::new(Status::invalid_object(
            &self.definition,
            name,
            errors.kept(),
        )))
    }
}

fn warnings_of(
    function: Option<WarningsFunction>,
    object: &Object,
    stored: Option<&Object>,
) -> Vec<String> {
    function.map_or_else(Vec::new, |warnings| warnings(object, stored))
}

/// Fills in what the writer of an object of this version left out (http.md 7).
pub fn fill_in(object: &mut Object, definition: &ResourceDefinition) {
    let Some(defaults) = definition.defaults else {
        return;
    };
    if let Some((schema, id)) = definition.object_type.found() {
        schema.add_structs(id, &mut object.0);
    }
    defaults(object);
}

/// Restores the members of `metadata` that no update changes (http.md 5.1).
fn keep_system_fields(object: &mut Object, stored: &Object) {
    if object.uid().is_empty() {
        object.set_meta("uid", stored.uid());
    }
    object.set_meta("creationTimestamp", stored.meta("creationTimestamp"));
    if stored.is_being_deleted() {
        object.set_meta("deletionTimestamp", stored.meta("deletionTimestamp"));
    }
    let grace = &["metadata", "deletionGracePeriodSeconds"];
    if let (None, Some(stored)) = (object.at(grace), stored.at(grace)) {
        put(object, grace, stored.clone());
    }
}

/// `metadata.generation`, or 0 when absent.
pub fn generation_of(object: &Object) -> i64 {
    let generation = object.at(&["metadata", "generation"]);
    generation.and_then(Value::as_i64).unwrap_or(0)
}

/// Sets `metadata.generation`.
pub fn set_generation(object: &mut Object, generation: i64) {
    put(object, &["metadata", "generation"], generation.into());
}

#[cfg(test)]
mod tests;
