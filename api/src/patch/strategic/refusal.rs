//! Errors of strategic merge patches (API-165, API-166).

use serde_json::{Map, Value};

use super::PatchError;
use super::printed::{AsText, List, Members, Printed, go_type, shown};

/// The reason why a patch can't be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// An invalid directive: a 400.
    Format(&'static str),
    /// Lists of lists: a 422.
    ListOfLists,
    /// Anything else: a 500 with this text and no reason.
    Other(String),
}

impl Refusal {
    /// `$deleteFromPrimitiveList` without the name of a list.
    pub const PRIMITIVE_LIST: Refusal = Refusal::Format("invalid patch format of primitive list");
    /// `$setElementOrder` without the name of a list.
    pub const ELEMENT_ORDER: Refusal =
        Refusal::Format("invalid patch format of setElementOrder list");
    /// `$retainKeys` that is not a list, or that lacks a member of the patch.
    pub const RETAIN_KEYS: Refusal = Refusal::Format("invalid patch format of retainKeys");

    /// Returns the error for an unknown directive.
    pub fn directive(directive: &Value, members: &Map<String, Value>) -> Refusal {
        let members = Members(members);
        let directive = shown(AsText(directive));
        Refusal::Other(shown(format_args!(
            "unknown patch type: {directive} in map: {members}"
        )))
    }

    /// Returns the error for an item without the merge key.
    pub fn no_key(members: &Map<String, Value>, key: &str) -> Refusal {
        let members = shown(Members(members));
        Refusal::Other(format!(
            "map: {members} does not contain declared merge key: {key}"
        ))
    }

    /// Returns the error for a value of another type than expected.
    pub fn not_a(wanted: &str, found: &Value) -> Refusal {
        let found = go_type(found);
        Refusal::Other(format!("expected a {wanted}, but received a {found}"))
    }

    /// Returns the error for lists whose items have different types.
    pub fn mixed(lists: [&[Value]; 2]) -> Refusal {
        let [first, second] = lists.map(List);
        Refusal::Other(shown(format_args!(
            "list element types are not identical: [{first} {second}]"
        )))
    }

    /// Returns the error for a list whose order differs from the one that the patch gives.
    pub fn order(patch: &[Value], order: &Value) -> Refusal {
        let (patch, order) = (shown(List(patch)), shown(Printed(order)));
        Refusal::Other(format!(
            "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
        ))
    }

    /// Returns the error for items that are not scalars and therefore can't be compared.
    /// kube-apiserver ends such a request without a response.
    pub fn incomparable() -> Refusal {
        Refusal::Other("an object or a list cannot identify an item of a list".to_owned())
    }
}

impl From<Refusal> for PatchError {
    fn from(refusal: Refusal) -> PatchError {
        match refusal {
            Refusal::Format(why) => PatchError::Unreadable(why.to_owned()),
            Refusal::ListOfLists => PatchError::ListsOfLists,
            Refusal::Other(why) => PatchError::Unmergeable(why),
        }
    }
}
