//! Why a strategic merge patch can't be merged (API-165, API-166).

use serde_json::{Map, Value};

use super::printed::{AsText, List, Members, Printed, go_type, shown};
use crate::status::{Status, StatusReason};

/// Why a patch can't be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The form of a directive: a 400.
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
    /// `$retainKeys` that is no list, or that lacks a member of the patch.
    pub const RETAIN_KEYS: Refusal = Refusal::Format("invalid patch format of retainKeys");

    /// A directive that there is not.
    pub fn directive(directive: &Value, members: &Map<String, Value>) -> Refusal {
        let members = Members(members);
        let directive = shown(AsText(directive));
        Refusal::Other(shown(format_args!(
            "unknown patch type: {directive} in map: {members}"
        )))
    }

    /// An item without the member that identifies it.
    pub fn no_key(members: &Map<String, Value>, key: &str) -> Refusal {
        let members = shown(Members(members));
        Refusal::Other(format!(
            "map: {members} does not contain declared merge key: {key}"
        ))
    }

    /// A value of another type than is wanted.
    pub fn not_a(wanted: &str, found: &Value) -> Refusal {
        let found = go_type(found);
        Refusal::Other(format!("expected a {wanted}, but received a {found}"))
    }

    /// Lists whose items have different types.
    pub fn mixed(lists: [&[Value]; 2]) -> Refusal {
        let [first, second] = lists.map(List);
        Refusal::Other(shown(format_args!(
            "list element types are not identical: [{first} {second}]"
        )))
    }

    /// A list in another order than the one that the patch asks for.
    pub fn order(patch: &[Value], order: &Value) -> Refusal {
        let (patch, order) = (shown(List(patch)), shown(Printed(order)));
        Refusal::Other(format!(
            "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
        ))
    }

    /// Items that are compared and are no single values. It ends the request in kube-apiserver
    /// without an answer.
    pub fn incomparable() -> Refusal {
        Refusal::Other("an object or a list identifies no item of a list".to_owned())
    }
}

impl From<Refusal> for Box<Status> {
    fn from(refusal: Refusal) -> Box<Status> {
        Box::new(match refusal {
            Refusal::Format(why) => Status::bad_request(why),
            Refusal::ListOfLists => {
                let why = "lists of lists are not supported";
                Status::failure(422, StatusReason::UNKNOWN, why)
            }
            Refusal::Other(why) => Status::unknown(why),
        })
    }
}
