//! The statuses of the errors of this crate.

use super::{Status, StatusCause, StatusDetails, StatusReason};
use crate::abandoned::Abandoned;
use crate::decode::{DecodeError, OtherKind};
use crate::field_error::FieldError;
use crate::managed_fields::ApplyError;
use crate::options::OptionsError;
use crate::patch::PatchError;
use crate::selector::SelectorError;
use crate::version::VersionError;

impl From<&FieldError> for StatusCause {
    /// Returns the cause of a field error (API-148).
    fn from(error: &FieldError) -> StatusCause {
        StatusCause {
            reason: error.kind.reason().to_owned(),
            message: error.body(),
            field: error.path.clone(),
        }
    }
}

/// Defines the status of each error, also in a box, which `?` needs.
macro_rules! statuses {
    ($($error:ident as $name:ident => $status:expr;)*) => {$(
        impl From<$error> for Status {
            fn from($name: $error) -> Status {
                $status
            }
        }

        impl From<$error> for Box<Status> {
            fn from(error: $error) -> Box<Status> {
                Box::new(error.into())
            }
        }
    )*};
}

/// Returns the 422 for an object of another kind, whose details have that kind.
fn other_kind(error: &OtherKind) -> Status {
    let cause = FieldError::invalid("kind", error.kind.as_str(), error.to_string());
    Status::invalid(&error.group, &error.kind, &error.name, &[cause])
}

statuses! {
    // Clients never see it.
    Abandoned as error => Status::timeout(error);
    DecodeError as error => match &error {
        DecodeError::OtherKind(error) => other_kind(error),
        _ => Status::bad_request(error.to_string()),
    };
    SelectorError as error => Status::bad_request(error.to_string());
    VersionError as error => match &error {
        VersionError::OfList(_) => Status::bad_request(error.to_string()),
        VersionError::OfOther(_) => Status::unknown(error.to_string()),
    };
    OptionsError as error => match error {
        OptionsError::Unreadable(why) => Status::bad_request(why),
        OptionsError::Invalid { group, kind, name, errors } => {
            Status::invalid(group, kind, &name, &errors)
        }
    };
    PatchError as error => match &error {
        PatchError::Unreadable(_) => Status::bad_request(error.to_string()),
        PatchError::TooManyOperations(_) => Status::request_too_large_because(error),
        PatchError::Failed => Status::patch_failed(),
        PatchError::InvalidResult(error) => Status::patch_result_invalid(error),
        PatchError::OtherKind(error) => other_kind(error),
        PatchError::ListsOfLists => {
            Status::failure(422, StatusReason::UNKNOWN, error.to_string())
        }
        PatchError::Unmergeable(_) => Status::unknown(error.to_string()),
        PatchError::UnknownType => Status::internal(error),
    };
    ApplyError as error => match &error {
        ApplyError::BadObject(_) => Status::bad_request(error.to_string()),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.causes().map(|(message, field)| StatusCause {
                reason: "FieldManagerConflict".to_owned(),
                message,
                field,
            });
            let details = StatusDetails {
                causes: causes.collect(),
                ..StatusDetails::default()
            };
            Status::failure(409, StatusReason::CONFLICT, error.to_string()).with_details(details)
        }
        ApplyError::UnreadableEntries(_) | ApplyError::Failed(_) => {
            Status::unknown(error.to_string())
        }
        ApplyError::NoScale => Status::internal(error),
    };
}
