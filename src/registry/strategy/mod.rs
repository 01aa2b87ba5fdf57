//! What happens to an object of a kind before it is stored: who owns which part of it, what the
//! server fills in, how its generation is counted (API-94, API-103, http.md 6.2). Rules are data;
//! what no rule can say is a hook, kept in `special`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::special;
use crate::api::metadata::{self, FieldError};
use crate::api::object::Object;
use crate::api::resource::{GenerationRule, Lifetime, ResourceDefinition};
use crate::api::status::Status;

/// A place in an object.
pub type Path = &'static [&'static str];

/// The endpoint that a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The object itself.
    Main,
    /// `/status` (API-212 to API-214).
    Status,
    /// `/finalize` of namespaces (API-224).
    Finalize,
}

impl Endpoint {
    /// The endpoint of a subresource in a URL; `None` for one that stores nothing of its own.
    pub fn of(subresource: Option<&str>) -> Option<Endpoint> {
        match subresource {
            None => Some(Endpoint::Main),
            Some("status") => Some(Endpoint::Status),
            Some("finalize") => Some(Endpoint::Finalize),
            Some(_) => None,
        }
    }

    /// Its name in a URL.
    pub fn subresource(self) -> Option<&'static str> {
        match self {
            Endpoint::Main => None,
            Endpoint::Status => Some("status"),
            Endpoint::Finalize => Some("finalize"),
        }
    }
}

/// Which part of an object each endpoint may write; the rest comes from the stored object
/// (http.md 6.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Ownership {
    /// What a create drops.
    pub dropped_on_create: &'static [Path],
    /// What the main endpoint leaves as stored.
    pub kept_by_main: &'static [Path],
    /// What `/status` leaves as stored.
    pub kept_by_status: &'static [Path],
    /// What `/finalize` leaves as stored.
    pub kept_by_finalize: &'static [Path],
}

/// What is wrong with a change of the second object into the first.
type ValidateUpdate = fn(&Object, &Object, Endpoint) -> Vec<FieldError>;

/// What rules can't say; every hook is a pure function.
#[derive(Clone, Copy, Default)]
pub struct Hooks {
    /// Fills in and normalizes what is about to be created.
    pub fill_create: Option<fn(&mut Object)>,
    /// Fills in and normalizes what is about to replace the second object.
    pub fill_update: Option<fn(&mut Object, &Object, Endpoint)>,
    /// What a kind refuses to create.
    pub validate_create: Option<fn(&Object) -> Vec<FieldError>>,
    /// What a kind refuses to change.
    pub validate_update: Option<ValidateUpdate>,
    /// Seconds of grace for an object of a kind that is deleted gracefully, from those that the
    /// request names (API-112).
    pub grace: Option<fn(&Object, Option<i64>) -> i64>,
    /// Whether something else than finalizers in its metadata keeps an object that is marked.
    pub is_held: Option<fn(&Object) -> bool>,
    /// The first marking for deletion, for kinds that do it in a way of their own.
    pub mark: Option<fn(&mut Object, Timestamp)>,
}

/// The strategy of one kind.
#[derive(Clone, Copy)]
pub struct Strategy {
    definition: &'static ResourceDefinition,
    ownership: Ownership,
    /// The hooks of the kind.
    pub hooks: Hooks,
}

impl Strategy {
    /// The strategy of a resource: what its row implies, then what is special about it.
    pub fn of(definition: &'static ResourceDefinition) -> Strategy {
        let mut strategy = Strategy {
            definition,
            ownership: default_ownership(definition),
            hooks: Hooks::default(),
        };
        special::adapt(definition, &mut strategy.ownership, &mut strategy.hooks);
        strategy
    }

    /// The resource.
    pub fn definition(&self) -> &'static ResourceDefinition {
        self.definition
    }

    /// Seconds that an object lives after it was created or changed, where events live for so long
    /// (OP-4); `None` for ever.
    pub fn time_to_live(&self, event_ttl: Duration) -> Option<u64> {
        match self.definition.lifetime {
            Lifetime::Unlimited => None,
            Lifetime::OfEvents => Some(event_ttl.as_secs()).filter(|seconds| *seconds > 0),
        }
    }

    /// Gives an object what the server decides of it when it is created (API-94, API-91).
    ///
    /// # Errors
    /// 422 with everything that is wrong with it.
    pub fn prepare_create(
        &self,
        object: &mut Object,
        uid: &str,
        now: Timestamp,
    ) -> Result<(), Box<Status>> {
        object.set_meta("uid", uid);
        object.set_meta("creationTimestamp", &whole_seconds(now));
        for path in self.ownership.dropped_on_create {
            remove(object, path);
        }
        if let GenerationRule::OnChangeOf(_) = self.definition.generation {
            set_generation(object, 1);
        }
        if let Some(fill) = self.hooks.fill_create {
            fill(object);
        }
        let mut errors = metadata::validate_create(object, self.definition);
        errors.extend(
            self.hooks
                .validate_create
                .iter()
                .flat_map(|check| check(object)),
        );
        self.refuse(object.name(), &errors)
    }

    /// Gives an object what comes from the one it replaces (API-103).
    ///
    /// # Errors
    /// 422 with everything that is wrong with the change.
    pub fn prepare_update(
        &self,
        object: &mut Object,
        stored: &Object,
        endpoint: Endpoint,
    ) -> Result<(), Box<Status>> {
        match stored.at(&["metadata", "generation"]) {
            Some(generation) => put(object, &["metadata", "generation"], generation.clone()),
            None => remove(object, &["metadata", "generation"]),
        }
        self.keep_owned(object, stored, endpoint);
        if let Some(fill) = self.hooks.fill_update {
            fill(object, stored, endpoint);
        }
        if endpoint == Endpoint::Main && self.raises_generation(object, stored) {
            set_generation(object, generation_of(stored) + 1);
        }
        keep_system_fields(object, stored);
        let mut errors = metadata::validate_update(object, stored, self.definition);
        let check = self.hooks.validate_update.iter();
        errors.extend(check.flat_map(|check| check(object, stored, endpoint)));
        self.refuse(object.name(), &errors)
    }

    /// Restores what an endpoint does not own.
    fn keep_owned(&self, object: &mut Object, stored: &Object, endpoint: Endpoint) {
        let kept = match endpoint {
            Endpoint::Main => self.ownership.kept_by_main,
            Endpoint::Status => self.ownership.kept_by_status,
            Endpoint::Finalize => self.ownership.kept_by_finalize,
        };
        for path in kept {
            match stored.at(path) {
                Some(value) => put(object, path, value.clone()),
                None => remove(object, path),
            }
        }
    }

    fn raises_generation(&self, object: &Object, stored: &Object) -> bool {
        let GenerationRule::OnChangeOf(members) = self.definition.generation else {
            return false;
        };
        members.iter().any(|member| {
            let path: Vec<&str> = member.split('.').collect();
            object.at(&path) != stored.at(&path)
        })
    }

    fn refuse(&self, name: &str, errors: &[FieldError]) -> Result<(), Box<Status>> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Box::new(Status::invalid_object(
            self.definition,
            name,
            errors,
        )))
    }
}

/// With a status subresource the main endpoint leaves `status` alone and `/status` leaves `spec`.
fn default_ownership(definition: &ResourceDefinition) -> Ownership {
    if definition.subresources.iter().any(|s| s.name == "status") {
        return Ownership {
            dropped_on_create: &[&["status"]],
            kept_by_main: &[&["status"]],
            kept_by_status: &[&["spec"]],
            kept_by_finalize: &[],
        };
    }
    Ownership::default()
}

/// The members of `metadata` that no update changes (http.md 5.1).
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

/// `metadata.generation`; 0 when absent.
pub fn generation_of(object: &Object) -> i64 {
    let generation = object.at(&["metadata", "generation"]);
    generation.and_then(Value::as_i64).unwrap_or(0)
}

/// Sets `metadata.generation`.
pub fn set_generation(object: &mut Object, generation: i64) {
    put(object, &["metadata", "generation"], generation.into());
}

/// A time as `metadata` shows it: RFC 3339, whole seconds, UTC.
pub fn whole_seconds(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or(time);
    seconds.to_string()
}

/// Sets the value at a path; what is missing above it is made.
pub fn put(object: &mut Object, path: &[&str], value: Value) {
    let Some((last, above)) = path.split_last() else {
        return;
    };
    let mut members = &mut object.0;
    for name in above {
        let slot = members.entry((*name).to_owned()).or_insert(Value::Null);
        if !slot.is_object() {
            *slot = Value::Object(serde_json::Map::new());
        }
        let Value::Object(inner) = slot else {
            return;
        };
        members = inner;
    }
    members.insert((*last).to_owned(), value);
}

/// Removes the value at a path, if there is one.
pub fn remove(object: &mut Object, path: &[&str]) {
    let Some((last, above)) = path.split_last() else {
        return;
    };
    let mut members = &mut object.0;
    for name in above {
        let Some(Value::Object(inner)) = members.get_mut(*name) else {
            return;
        };
        members = inner;
    }
    members.remove(*last);
}

#[cfg(test)]
mod tests;
