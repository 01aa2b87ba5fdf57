//! The changes and checks of an object before it is stored, as data (http.md 6.2): the parts that a
//! writer owns, and pure functions for everything that a rule can't express.

use jiff::Timestamp;

use super::FieldPath;
use crate::field_error::FieldError;
use crate::object::Object;
use crate::user_info::UserInfo;

/// What the writer of a valid object is warned of, from the object and the stored one that it
/// replaces.
pub type WarningsFunction = fn(&Object, Option<&Object>) -> Vec<String>;

/// Drops fields of an object, unless the stored one uses their feature, and says whether there were
/// any.
pub type DropFunction = fn(&mut Object, Option<&Object>) -> bool;

/// The rules for creating an object.
#[derive(Clone, Default)]
pub struct CreateStrategy {
    /// The parts of the body that are dropped.
    pub drops: Vec<FieldPath>,
    /// Says in the new object who asks for it.
    pub requester: Option<fn(&mut Object, &UserInfo)>,
    /// Fills in what its writer owns of it, although it is made later.
    pub fill_in_owned: Option<fn(&mut Object)>,
    /// Fills in and normalizes the new object.
    pub prepare: Option<fn(&mut Object)>,
    /// The faults in the object, apart from its metadata.
    pub validate: Option<fn(&Object) -> Vec<FieldError>>,
    /// What its writer is warned of.
    pub warnings: Option<WarningsFunction>,
    /// What the writer is warned of before the object is prepared, whether it is valid or not.
    pub warnings_before: Option<WarningsFunction>,
}

/// The rules for updating an object at one endpoint, its own or that of a subresource.
#[derive(Clone, Default)]
pub struct UpdateStrategy {
    /// The parts that stay as stored, whatever the body contains.
    pub keeps: Vec<FieldPath>,
    /// The parts that managedFields leave out of what is written here, because the endpoint writes
    /// them for nobody (API-179).
    pub resets: Vec<FieldPath>,
    /// Fills in and normalizes the first object, which replaces the second.
    pub prepare: Option<fn(&mut Object, &Object)>,
    /// Sets the times of what a change of the second object into the first brings.
    pub stamp: Option<fn(&mut Object, &Object, Timestamp)>,
    /// The faults in a change of the second object into the first, apart from metadata.
    pub validate: Option<fn(&Object, &Object) -> Vec<FieldError>>,
    /// What stored objects may keep that is refused of new ones.
    pub ratchets: &'static [Ratchet],
    /// What the writer is warned of.
    pub warnings: Option<WarningsFunction>,
}

impl UpdateStrategy {
    /// Takes away the faults of a change that the stored object may keep. `before` finds those of
    /// the stored object, as if it were new.
    pub fn ratchet(&self, faults: &mut Vec<FieldError>, before: impl FnOnce() -> Vec<FieldError>) {
        let covers = |fault: &FieldError| self.ratchets.iter().any(|rule| (rule.covers)(fault));
        if !faults.iter().any(covers) {
            return;
        }
        let before = before();
        faults.retain(|fault| {
            let mut rules = self.ratchets.iter();
            !rules.any(|rule| rule.allows(fault, &before))
        });
    }
}

/// Faults that an object may keep if it was stored with such a fault.
#[derive(Clone, Copy)]
pub struct Ratchet {
    covers: fn(&FieldError) -> bool,
    is_same_only: bool,
}

impl Ratchet {
    /// All of these faults, if there was any of them.
    pub const fn any(covers: fn(&FieldError) -> bool) -> Ratchet {
        Ratchet {
            covers,
            is_same_only: false,
        }
    }

    /// Those of these faults that were there.
    pub const fn same(covers: fn(&FieldError) -> bool) -> Ratchet {
        Ratchet {
            covers,
            is_same_only: true,
        }
    }

    /// Whether a fault may stay beside those of the stored object.
    fn allows(&self, fault: &FieldError, stored: &[FieldError]) -> bool {
        let is_like = |other: &FieldError| match self.is_same_only {
            true => other == fault,
            false => (self.covers)(other),
        };
        (self.covers)(fault) && stored.iter().any(is_like)
    }
}

/// The rules for deleting an object.
#[derive(Clone, Default)]
pub struct DeleteStrategy {
    /// The grace period in seconds for a kind with graceful deletion, from the requested seconds
    /// (API-112).
    pub grace: Option<fn(&Object, Option<i64>) -> i64>,
    /// Whether something other than finalizers keeps an object that is marked for deletion.
    pub is_held: Option<fn(&Object) -> bool>,
    /// The first marking for deletion, for kinds with their own way of marking.
    pub mark: Option<fn(&mut Object, Timestamp)>,
    /// Why an object of this name can't be deleted by itself.
    pub refusal: Option<fn(&str) -> Option<&'static str>>,
    /// The warning for who does not say what becomes of dependents.
    pub warning_of_default: Option<&'static str>,
}
