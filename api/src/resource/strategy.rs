//! The changes and checks of an object before it is stored, as data (http.md 6.2): the parts that a
//! writer owns, and pure functions for everything that a rule can't express.

use jiff::Timestamp;

use super::FieldPath;
use crate::error_list::{ErrorList, Exemptions, Ratchet};
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
    /// Adds the errors of the object, apart from those of its metadata.
    pub validate: Option<fn(&Object, &mut ErrorList)>,
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
    /// Adds the errors of a change of the second object into the first, apart from metadata.
    pub validate: Option<fn(&Object, &Object, &mut ErrorList)>,
    /// What stored objects may keep that is refused of new ones.
    pub ratchets: &'static [Ratchet],
    /// What the writer is warned of.
    pub warnings: Option<WarningsFunction>,
}

impl UpdateStrategy {
    /// The errors of a change that the stored object does not exempt. `change` finds those of the
    /// change, `stored` those of the stored object as if it were new.
    pub fn ratcheted(
        &self,
        change: impl Fn(&mut ErrorList),
        stored: impl FnOnce(&mut ErrorList),
    ) -> ErrorList {
        let errors = ErrorList::of(&change);
        // linear: a list of errors keeps a hundred.
        let is_covered = |ratchet: &Ratchet| errors.iter().any(|error| ratchet.covers(error));
        // If no ratchet covers an error that is kept, the change is refused whatever follows.
        if !self.ratchets.iter().any(is_covered) {
            return errors;
        }
        let mut remaining = ErrorList::except(Exemptions::of(self.ratchets, stored));
        change(&mut remaining);
        remaining
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
