//! The only conversion of storage errors to a Status (storage.md 1.2, ST-10 to ST-17).

use actors::object::CachedObject;

use crate::api::deep;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::{Status, StatusCause};
use crate::storage::codec::object_of;
use crate::storage::{Expired, StorageError, StorageErrorKind};

/// The least retry delay when the store is unavailable.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The retry delay when the store cannot be reached (ST-11).
const UNREACHABLE_RETRY_SECONDS: u32 = 2;

/// Decodes a stored object, in the hub version. Only for kinds whose values have a bounded depth.
///
/// # Errors
/// 500 if the value cannot be decoded.
pub fn decoded(cached: &CachedObject) -> Result<Object, Box<Status>> {
    object_of(cached).map_err(|error| Box::new(Status::internal(error)))
}

/// Decodes a stored object of any kind, however deeply it is nested.
///
/// # Errors
/// 500 if the value cannot be decoded.
pub async fn decoded_with_room(cached: &CachedObject) -> Result<Object, Box<Status>> {
    deep::retry(|| decoded(cached)).await
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedOperation {
    /// Reading one object.
    Get,
    /// Reading many objects.
    List,
    /// Opening a watch.
    Watch,
    /// Storing a new object.
    Create,
    /// Changing an object.
    Update,
    /// Deleting an object.
    Delete,
}

/// Converts a storage error to a Status. `name` is the name of the object, or empty for lists.
pub fn interpret(
    error: StorageError,
    operation: FailedOperation,
    definition: &ResourceDefinition,
    name: &str,
) -> Box<Status> {
    let StorageError { key, kind } = error;
    Box::new(match kind {
        StorageErrorKind::Refused(status) => return status,
        StorageErrorKind::KeyNotFound => not_found(operation, definition, name, &key),
        StorageErrorKind::KeyExists => exists(operation, definition, name, &key),
        StorageErrorKind::InvalidObject(text) => match operation {
            FailedOperation::Update | FailedOperation::Delete => {
                Status::precondition_failed(definition, name, &key, &text)
            }
            _ => Status::unknown(text),
        },
        StorageErrorKind::VersionOnCreate
        | StorageErrorKind::InvalidKey(_)
        | StorageErrorKind::RequestTooLarge(_) => Status::unknown(kind.to_string()),
        StorageErrorKind::Expired { what } => expired(what),
        StorageErrorKind::TooLarge {
            requested,
            current,
            retry_after,
        } => Status::too_large_version(requested, current, retry_after),
        StorageErrorKind::NotReady { retry_after, .. } => {
            Status::too_many_requests(kind.to_string(), retry_after)
        }
        StorageErrorKind::BadRequest(text) => Status::bad_request(text),
        StorageErrorKind::OutcomeUnknown(_) => Status::timeout(kind),
        StorageErrorKind::Unavailable(text, retry_after) => {
            Status::unavailable(text, retry_after.max(RETRY_AFTER_SECONDS))
        }
        StorageErrorKind::Unreachable(message) => {
            let cause = StatusCause {
                message,
                ..StatusCause::default()
            };
            let seconds = UNREACHABLE_RETRY_SECONDS;
            Status::server_timeout(definition, operation_name(operation), seconds).because(cause)
        }
        StorageErrorKind::Unreadable(text) | StorageErrorKind::Internal(text) => {
            Status::internal(text)
        }
    })
}

/// Returns the name of the operation in a Status.
fn operation_name(operation: FailedOperation) -> &'static str {
    match operation {
        FailedOperation::Get => "get",
        FailedOperation::List => "list",
        FailedOperation::Watch => "watch",
        FailedOperation::Create => "create",
        FailedOperation::Update => "update",
        FailedOperation::Delete => "delete",
    }
}

fn not_found(
    operation: FailedOperation,
    definition: &ResourceDefinition,
    name: &str,
    key: &str,
) -> Status {
    match operation {
        FailedOperation::Get | FailedOperation::Update | FailedOperation::Delete => {
            Status::not_found(definition, name)
        }
        FailedOperation::List => Status::not_found(definition, ""),
        FailedOperation::Create | FailedOperation::Watch => {
            Status::unknown(text("key not found", 1, key))
        }
    }
}

fn exists(
    operation: FailedOperation,
    definition: &ResourceDefinition,
    name: &str,
    key: &str,
) -> Status {
    let text = || text("key exists", 2, key);
    match operation {
        FailedOperation::Create => Status::already_exists(definition, name),
        FailedOperation::Update | FailedOperation::Delete => {
            Status::conflict(definition, name, &text())
        }
        FailedOperation::Get | FailedOperation::List | FailedOperation::Watch => {
            Status::unknown(text())
        }
    }
}

/// Returns Kubernetes' text of a storage error (storage.md 1.2).
fn text(kind: &str, code: u8, key: &str) -> String {
    format!(
        "StorageError: {kind}, Code: {code}, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
    )
}

fn expired(what: Expired) -> Status {
    match what {
        Expired::List => Status::expired_list(),
        Expired::Continue { fresh_token } => Status::expired_continue(fresh_token),
        Expired::Watch { requested, oldest } => Status::expired_watch(requested, oldest),
    }
}

/// Returns whether an error while a watch opens is sent as an ERROR event in a 200 response. Other
/// errors are the response itself (WA-6).
pub fn goes_in_stream(kind: &StorageErrorKind) -> bool {
    match kind {
        StorageErrorKind::Expired { .. }
        | StorageErrorKind::TooLarge { .. }
        | StorageErrorKind::OutcomeUnknown(_)
        | StorageErrorKind::Unreachable(_)
        | StorageErrorKind::Unavailable(..)
        | StorageErrorKind::Unreadable(_)
        | StorageErrorKind::Internal(_) => true,
        StorageErrorKind::KeyNotFound
        | StorageErrorKind::KeyExists
        | StorageErrorKind::InvalidObject(_)
        | StorageErrorKind::VersionOnCreate
        | StorageErrorKind::NotReady { .. }
        | StorageErrorKind::BadRequest(_)
        | StorageErrorKind::RequestTooLarge(_)
        | StorageErrorKind::InvalidKey(_)
        | StorageErrorKind::Refused(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use actors::engine::Revision;

    use super::*;
    use crate::api::status::StatusReason;
    use crate::kinds::definitions::{coordination, core};

    fn status(kind: StorageErrorKind, operation: FailedOperation) -> Status {
        let error = StorageError {
            key: "/registry/configmaps/d/a".to_owned(),
            kind,
        };
        *interpret(error, operation, &core::configmaps(), "a")
    }

    fn parts(kind: StorageErrorKind, operation: FailedOperation) -> (u16, StatusReason, String) {
        let status = status(kind, operation);
        (status.code, status.reason, status.message)
    }

    /// storage.md 1.2, ST-10: the meaning of an error depends on the operation.
    #[test]
    fn the_operation_decides_what_an_absent_or_present_key_means() {
        let absent = || StorageErrorKind::KeyNotFound;
        for operation in [
            FailedOperation::Get,
            FailedOperation::Update,
            FailedOperation::Delete,
        ] {
            let text = "configmaps \"a\" not found".to_owned();
            assert_eq!(
                parts(absent(), operation),
                (404, StatusReason::NOT_FOUND, text)
            );
        }
        assert_eq!(parts(absent(), FailedOperation::Create).0, 500);
        let present = || StorageErrorKind::KeyExists;
        let text = "configmaps \"a\" already exists".to_owned();
        assert_eq!(
            parts(present(), FailedOperation::Create),
            (409, StatusReason::ALREADY_EXISTS, text)
        );
        let text = "Operation cannot be fulfilled on configmaps \"a\": StorageError: key exists, \
                    Code: 2, Key: /registry/configmaps/d/a, ResourceVersion: 0, \
                    AdditionalErrorMsg: ";
        assert_eq!(
            parts(present(), FailedOperation::Update),
            (409, StatusReason::CONFLICT, text.to_owned())
        );
    }

    /// ST-12, API-100.
    #[test]
    fn a_failed_precondition_is_a_conflict_with_the_storages_text() {
        let text = "Precondition failed: UID in precondition: x, UID in object meta: y";
        let kind = StorageErrorKind::InvalidObject(text.to_owned());
        let expected = format!(
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, \
             Code: 4, Key: /registry/configmaps/d/a, ResourceVersion: 0, AdditionalErrorMsg: {text}"
        );
        assert_eq!(
            parts(kind, FailedOperation::Update),
            (409, StatusReason::CONFLICT, expected)
        );
    }

    /// API-96, PF-22.
    #[test]
    fn a_version_on_create_is_a_plain_500() {
        let text = "resourceVersion should not be set on objects to be created".to_owned();
        assert_eq!(
            parts(StorageErrorKind::VersionOnCreate, FailedOperation::Create),
            (500, StatusReason::UNKNOWN, text)
        );
    }

    /// ST-13, ST-14, ST-16.
    #[test]
    fn versions_that_cannot_be_served_say_why() {
        let kind = StorageErrorKind::TooLarge {
            requested: Revision(9),
            current: Revision(7),
            retry_after: 1,
        };
        let status = status(kind, FailedOperation::List);
        assert_eq!(
            status.message,
            "Timeout: Too large resource version: 9, current: 7"
        );
        assert_eq!(
            (
                status.code,
                status.reason.clone(),
                status.retry_after_seconds()
            ),
            (504, StatusReason::TIMEOUT, 1)
        );
        let kind = StorageErrorKind::Expired {
            what: Expired::List,
        };
        assert_eq!(parts(kind, FailedOperation::List).0, 410);
        let what = Expired::Continue {
            fresh_token: Some("t".to_owned()),
        };
        let error = StorageError {
            key: String::new(),
            kind: StorageErrorKind::Expired { what },
        };
        let status = interpret(error, FailedOperation::List, &coordination::leases(), "");
        assert!(
            status
                .message
                .contains("provided continue parameter is too old")
        );
        assert_eq!(status.metadata.continue_token, "t");
    }

    /// ST-16, WC-42; docs/design.md 6: a write that may have happened is not reported as failed.
    #[test]
    fn what_may_work_later_says_when() {
        let kind = StorageErrorKind::NotReady {
            retry_after: 2,
            last_error: None,
        };
        let status = self::status(kind, FailedOperation::List);
        assert_eq!(
            (status.code, status.reason.clone()),
            (429, StatusReason::TOO_MANY_REQUESTS)
        );
        assert_eq!(status.retry_after_seconds(), 2);
        let kind = StorageErrorKind::Unavailable("no space left".to_owned(), 5);
        let status = self::status(kind, FailedOperation::Create);
        assert_eq!((status.code, status.retry_after_seconds()), (503, 5));
        let kind = StorageErrorKind::OutcomeUnknown("late".to_owned());
        assert_eq!(parts(kind, FailedOperation::Create).0, 504);
    }

    #[test]
    fn a_store_that_can_not_be_reached_is_a_server_timeout_st_11_pf_21() {
        let operations = [
            (FailedOperation::Get, "get"),
            (FailedOperation::List, "list"),
            (FailedOperation::Create, "create"),
            (FailedOperation::Update, "update"),
            (FailedOperation::Delete, "delete"),
        ];
        for (operation, name) in operations {
            let why = "no etcd answers".to_owned();
            let status = self::status(StorageErrorKind::Unreachable(why.clone()), operation);
            let text = format!(
                "The {name} operation against configmaps could not be completed at this time, \
                 please try again."
            );
            assert_eq!(
                (status.code, status.reason.clone()),
                (500, StatusReason::SERVER_TIMEOUT)
            );
            assert_eq!((&status.message, status.retry_after_seconds()), (&text, 2));
            let causes = status.details.map(|details| details.causes);
            assert_eq!(causes.unwrap()[0].message, why);
        }
    }

    /// WA-6.
    #[test]
    fn only_errors_known_before_the_watch_are_answers() {
        let what = Expired::Watch {
            requested: Revision(1),
            oldest: Revision(5),
        };
        assert!(goes_in_stream(&StorageErrorKind::Expired { what }));
        let not_ready = StorageErrorKind::NotReady {
            retry_after: 1,
            last_error: None,
        };
        assert!(!goes_in_stream(&not_ready));
    }
}
