//! The stages of a write, as types (http.md section 7).
//!
//! An object on its way into the store is [`Decoded`], [`Defaulted`], [`Admitted`], [`Prepared`]
//! and [`Valid`], in this order. Each type can only be made from the one before, and a store
//! accepts only a valid object, so no write skips a stage. The types remember whether the object
//! has changed since defaulting and canonicalization, which are repeated only then.

use crate::api::object::{Object, keep};
use crate::api::resource::{FieldPath, ResourceDefinition};
use crate::api::schema::Empty;

/// An object in the version of the request, before defaulting.
pub struct Decoded(pub Object);

/// An object with defaults and managedFields, in the hub version.
pub struct Defaulted(Draft);

/// An object after mutating admission.
#[derive(Clone)]
pub struct Admitted(pub(super) Draft);

/// An object after the strategy has set its fields, in the canonical form that distinguishes empty
/// lists and maps from absent ones.
pub struct Prepared {
    pub(super) object: Object,
    pub(super) has_empties: bool,
}

/// A valid object, in the canonical form in which it is stored.
pub struct Valid(Object);

/// An object that stages change, and whether it is canonical.
#[derive(Clone)]
pub(super) struct Draft {
    object: Object,
    form: Form,
}

/// Whether a draft is in canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The object has changed since it was canonicalized.
    Unknown,
    /// The canonical form that keeps empty values for validation ([`Empty::Distinguished`]).
    Canonical {
        /// Whether the object has empty lists or maps.
        has_empties: bool,
    },
}

impl Defaulted {
    /// Returns an object that was defaulted and canonicalized. `has_empties` says whether it has
    /// empty lists or maps.
    pub fn canonical(object: Object, has_empties: bool) -> Defaulted {
        let form = Form::Canonical { has_empties };
        Defaulted(Draft { object, form })
    }

    /// Returns an object that was defaulted, but has changed since it was canonicalized.
    pub fn changed(object: Object) -> Defaulted {
        let form = Form::Unknown;
        Defaulted(Draft { object, form })
    }

    /// Returns the object for mutating admission. The caller must pass to [`Defaulted::admitted`]
    /// whether a plugin may have changed it.
    pub fn for_admission(&mut self) -> &mut Object {
        &mut self.0.object
    }

    /// Returns the object, for plugins that need its name.
    pub fn object(&self) -> &Object {
        &self.0.object
    }

    /// Ends mutating admission. If a plugin may have changed the object, it is defaulted and
    /// canonicalized again.
    pub fn admitted(mut self, may_have_changed: bool, hub: &ResourceDefinition) -> Admitted {
        if may_have_changed {
            hub.fill_in(&mut self.0.object);
            let has_empties = hub.canonicalize_with(&mut self.0.object, Empty::Distinguished);
            self.0.form = Form::Canonical { has_empties };
        }
        Admitted(self.0)
    }
}

impl Admitted {
    /// The object.
    pub fn object(&self) -> &Object {
        &self.0.object
    }

    /// Returns the object for changes of strings and numbers in its metadata, which keep the
    /// canonical form.
    pub fn for_metadata(&mut self) -> &mut Object {
        self.0.for_metadata()
    }

    /// Returns the object for any change.
    pub fn for_change(&mut self) -> &mut Object {
        self.0.for_change()
    }
}

impl Draft {
    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    pub(super) fn for_metadata(&mut self) -> &mut Object {
        &mut self.object
    }

    pub(super) fn for_change(&mut self) -> &mut Object {
        self.form = Form::Unknown;
        &mut self.object
    }

    /// Notes that a change through [`Draft::for_metadata`] has broken the canonical form.
    pub(super) fn has_changed(&mut self) {
        self.form = Form::Unknown;
    }

    /// Restores a field from the stored object.
    pub(super) fn keep(&mut self, stored: &Object, path: &FieldPath) {
        if self.object.is_same_at(stored, path) {
            return;
        }
        keep(&mut self.object, stored, path);
        // The stored object is canonical, and so is each of its fields. A nested field may leave an
        // empty struct around itself.
        if path.len() > 1 {
            self.has_changed();
        }
    }

    /// Canonicalizes the object, if it has changed. Notes whether it has empty lists or maps.
    pub(super) fn prepared(mut self, hub: &ResourceDefinition) -> Prepared {
        let has_empties = match self.form {
            Form::Canonical { has_empties } => has_empties,
            Form::Unknown => hub.canonicalize_with(&mut self.object, Empty::Distinguished),
        };
        Prepared {
            object: self.object,
            has_empties,
        }
    }
}

impl Prepared {
    /// The object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Ends validation. The result is what reading the object from the store would return: without
    /// empty lists and maps, and with the defaults of the hub. An object that was sent in another
    /// version gets those defaults only now, because it was validated without them (API-255).
    pub(super) fn valid(mut self, hub: &ResourceDefinition, is_of_hub: bool) -> Valid {
        let object = &mut self.object;
        if self.has_empties {
            hub.canonicalize(object);
        }
        if (self.has_empties || !is_of_hub) && hub.behaviour.has_defaults() {
            hub.fill_in(object);
            hub.canonicalize(object);
        }
        Valid(self.object)
    }
}

impl Valid {
    /// Returns an object that the server itself has made from a stored one. It is not validated.
    pub fn of_server(mut object: Object, hub: &ResourceDefinition) -> Valid {
        hub.canonicalize(&mut object);
        Valid(object)
    }

    /// Returns a stored object after it was marked for deletion. Only its metadata has changed, so
    /// it stays canonical.
    pub fn marked(object: Object) -> Valid {
        Valid(object)
    }

    /// The object.
    pub fn object(&self) -> &Object {
        &self.0
    }

    /// Returns the object for allocated addresses and ports, and for times that depend on what has
    /// changed. Both are set after validation.
    pub fn for_completion(&mut self) -> &mut Object {
        &mut self.0
    }

    /// Returns the object itself.
    pub fn into_object(self) -> Object {
        self.0
    }
}
