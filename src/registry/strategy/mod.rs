//! The changes to an object before it is stored (API-94, API-103, http.md 6.2).
//!
//! This folder owns the stages of a write as types ([`stages`]) and the application of a
//! definition's rules between them: the parts that an endpoint writes, the fields that the server
//! sets, and the generation. It takes an admitted object and the stored one, and returns a valid
//! object, or the `Status` of an invalid one. It must not know storage or admission.

mod stages;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::api::error_list::{ClusterPolicies, ErrorList};
use crate::api::metadata;
use crate::api::object::{Object, put, remove, whole_seconds};
use crate::api::resource::{GenerationRule, Lifetime, ResourceDefinition};
use crate::api::status::Status;
use crate::api::user_info::UserInfo;

pub use stages::{Admitted, Decoded, Defaulted, Prepared, Valid};

const GENERATION: [&str; 2] = ["metadata", "generation"];

/// The strategy of one kind.
#[derive(Clone)]
pub struct Strategy {
    definition: Arc<ResourceDefinition>,
    /// The version that objects are converted to before they get here.
    hub: Arc<ResourceDefinition>,
    policies: ClusterPolicies,
}

impl Strategy {
    /// Returns the strategy of a resource whose hub is this version.
    pub fn of(definition: impl Into<Arc<ResourceDefinition>>) -> Strategy {
        let definition = definition.into();
        let hub = definition.clone();
        Strategy::over(definition, hub, ClusterPolicies::default())
    }

    /// Returns the strategy of a version whose objects have been converted to another one, the hub.
    /// Its validation obeys these policies.
    pub fn over(
        definition: Arc<ResourceDefinition>,
        hub: Arc<ResourceDefinition>,
        policies: ClusterPolicies,
    ) -> Strategy {
        Strategy {
            definition,
            hub,
            policies,
        }
    }

    /// Returns the version of the resource.
    pub fn definition(&self) -> &Arc<ResourceDefinition> {
        &self.definition
    }

    /// Returns the lifetime of an object in seconds after its last change. Events live for
    /// `event_ttl` (OP-4). `None` means no limit.
    pub fn time_to_live(&self, event_ttl: Duration) -> Option<u64> {
        match self.definition.rules().lifetime {
            Lifetime::Unlimited => None,
            Lifetime::OfEvents => Some(event_ttl.as_secs()).filter(|seconds| *seconds > 0),
        }
    }

    /// Records the user who creates an object, if its kind has fields for that.
    pub fn set_requester(&self, admitted: &mut Admitted, user: &UserInfo) {
        let behaviour = &self.definition.behaviour;
        if behaviour.set_requester(admitted.0.for_metadata(), user) {
            admitted.0.has_changed();
        }
    }

    /// Sets the fields that the server decides on create (API-94, API-91).
    pub fn prepare_create(&self, admitted: Admitted, uid: &str, now: Timestamp) -> Prepared {
        let Admitted(mut draft) = admitted;
        let (rules, behaviour) = (self.definition.rules(), &self.definition.behaviour);
        let object = draft.for_metadata();
        object.set_meta("uid", uid);
        object.set_meta("creationTimestamp", &whole_seconds(now));
        for path in &rules.drops {
            // The canonical form has an empty struct at such a path.
            let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            if draft
                .object()
                .at(path)
                .is_some_and(|value| !is_empty(value))
            {
                remove(draft.for_change(), path);
            }
        }
        if behaviour.drop_disabled(draft.for_metadata(), None) {
            draft.has_changed();
        }
        if let GenerationRule::OnChangeOf(_) | GenerationRule::OnChangeBeside(_) = rules.generation
        {
            set_generation(draft.for_metadata(), 1);
        }
        if behaviour.prepare_for_create(draft.for_metadata()) {
            // Reading from storage would default the prepared fields, so they are defaulted here
            // too.
            self.hub.fill_in(draft.for_change());
        }
        draft.prepared(&self.hub)
    }

    /// Validates a new object. Returns it with warnings for the client.
    ///
    /// # Errors
    /// 422 with all field errors.
    pub fn validate_create(&self, prepared: Prepared) -> Result<(Valid, Vec<String>), Box<Status>> {
        let (object, behaviour) = (prepared.object(), &self.definition.behaviour);
        let mut errors = ErrorList::new();
        errors.obey(self.policies);
        errors.extend(metadata::validate_create(object, &self.definition));
        behaviour.validate(object, &mut errors);
        self.refuse(object.name(), &errors)?;
        let warnings = behaviour.warnings_on_create(object);
        Ok((prepared.valid(&self.hub, self.is_of_hub()), warnings))
    }

    /// Sets the fields that the stored object decides (API-103), for the resource's own endpoint or
    /// that of a subresource.
    pub fn prepare_update(
        &self,
        admitted: Admitted,
        stored: &Object,
        subresource: &str,
        now: Timestamp,
    ) -> Prepared {
        let Admitted(mut draft) = admitted;
        let (rules, behaviour) = (self.definition.rules(), &self.definition.behaviour);
        let endpoint = rules.endpoint(subresource);
        let object = draft.for_metadata();
        match stored.at(&GENERATION) {
            Some(generation) => put(object, &GENERATION, generation.clone()),
            None => remove(object, &GENERATION),
        }
        for part in &endpoint.keeps {
            draft.keep(stored, part);
        }
        if behaviour.drop_disabled(draft.for_metadata(), Some(stored)) {
            draft.has_changed();
        }
        if behaviour.prepares_for_update(subresource) {
            let object = draft.for_change();
            if subresource.is_empty() && !rules.empty_value_bumps_generation {
                // Preparation may depend on the changed fields, so empty values that differ from
                // absent ones only in the request are dropped first.
                self.hub.forget_same_empties(object, stored);
            }
            behaviour.prepare_for_update(subresource, object, stored);
            self.hub.fill_in(object);
        }
        if behaviour.stamp_update(subresource, draft.for_metadata(), stored, now) {
            draft.has_changed();
        }
        let mut prepared = draft.prepared(&self.hub);
        let Prepared {
            object,
            has_empties,
        } = &mut prepared;
        let counts = endpoint.raises_generation;
        let empty_counts = rules.empty_value_bumps_generation;
        let mut is_raised = counts && empty_counts && self.raises_generation(object, stored);
        if *has_empties {
            self.hub.forget_same_empties(object, stored);
        }
        is_raised |= counts && self.raises_generation(object, stored);
        if is_raised {
            set_generation(object, generation_of(stored) + 1);
        }
        keep_system_fields(object, stored);
        prepared
    }

    /// Validates an update of a stored object. Returns the object with warnings for the client.
    /// `warn` gets those about errors that the update may keep, even if it is refused for others
    /// (CRD-162).
    ///
    /// # Errors
    /// 422 with all field errors.
    pub fn validate_update(
        &self,
        prepared: Prepared,
        stored: &Object,
        subresource: &str,
        warn: impl Fn(&str),
    ) -> Result<(Valid, Vec<String>), Box<Status>> {
        let (object, behaviour) = (prepared.object(), &self.definition.behaviour);
        let checks = &self.definition.rules().endpoint(subresource).checks;
        let change = |errors: &mut ErrorList| {
            errors.obey(self.policies);
            let metadata = metadata::validate_update(object, stored, &self.definition, checks);
            errors.extend(metadata);
            behaviour.validate_update(subresource, object, stored, errors);
        };
        let of_stored = |errors: &mut ErrorList| {
            errors.obey(self.policies);
            behaviour.validate(stored, errors);
        };
        let errors = ErrorList::ratcheted(behaviour.ratchets(), change, of_stored);
        errors.warnings().iter().for_each(|warning| warn(warning));
        self.refuse(object.name(), &errors)?;
        let warnings = behaviour.warnings_on_update(subresource, object, stored);
        Ok((prepared.valid(&self.hub, self.is_of_hub()), warnings))
    }

    /// Returns whether this version is the hub.
    fn is_of_hub(&self) -> bool {
        self.definition.is_version_of(&self.hub)
    }

    fn raises_generation(&self, object: &Object, stored: &Object) -> bool {
        let paths = match &self.definition.rules().generation {
            GenerationRule::None => return false,
            GenerationRule::OnChangeBeside(names) => {
                let counts = |name: &str| {
                    // linear: at most the status.
                    !matches!(name, "metadata" | "kind" | "apiVersion")
                        && !names.iter().any(|known| known == name)
                };
                let differs = |one: &Object, other: &Object| {
                    let mut members = one.0.iter();
                    members.any(|(name, value)| counts(name) && other.0.get(name) != Some(value))
                };
                return differs(object, stored) || differs(stored, object);
            }
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

/// Restores the fields of `metadata` that an update cannot change (http.md 5.1).
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

/// Returns `metadata.generation`, or 0 if it is absent.
pub fn generation_of(object: &Object) -> i64 {
    let generation = object.at(&GENERATION);
    generation.and_then(Value::as_i64).unwrap_or(0)
}

/// Sets `metadata.generation`.
pub fn set_generation(object: &mut Object, generation: i64) {
    put(object, &GENERATION, generation.into());
}

/// The stages of a write without managedFields and admission.
#[cfg(test)]
impl Strategy {
    /// Returns a new object as it is stored.
    pub(crate) fn created(&self, object: Object, now: Timestamp) -> Result<Object, Box<Status>> {
        let prepared = self.prepare_create(self.admitted(object), "u", now);
        self.validate_create(prepared)
            .map(|(valid, _)| valid.into_object())
    }

    /// Returns an object that replaces a stored one, as it is stored.
    pub(crate) fn updated(
        &self,
        object: Object,
        stored: &Object,
        subresource: &str,
        now: Timestamp,
    ) -> Result<Object, Box<Status>> {
        let prepared = self.prepare_update(self.admitted(object), stored, subresource, now);
        self.validate_update(prepared, stored, subresource, |_| ())
            .map(|(valid, _)| valid.into_object())
    }

    fn admitted(&self, mut object: Object) -> Admitted {
        self.definition.fill_in(&mut object);
        Defaulted::changed(object).admitted(false, &self.hub)
    }
}

#[cfg(test)]
mod tests;
