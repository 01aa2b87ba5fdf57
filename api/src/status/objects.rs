//! Errors about an object: it is absent, exists already, was changed, is invalid or is protected.

use super::{MAX_MESSAGE_BYTES, Status, StatusCause, StatusDetails, StatusReason, qualified};
use crate::field_error::{FieldError, MAX_DOCUMENT_BYTES, MAX_FIELD_ERRORS, joined};
use crate::resource::ResourceDefinition;
use crate::text::quoting::go_quote;

impl Status {
    /// Returns the 404 `configmaps "a" not found` (API-117).
    pub fn not_found(definition: &ResourceDefinition, name: &str) -> Status {
        let message = format!("{} {} not found", definition.qualified(), go_quote(name));
        Status::failure(404, StatusReason::NOT_FOUND, message).about(definition, name)
    }

    /// Returns the 404 for a write in a namespace that does not exist (API-261).
    pub fn namespace_not_found(name: &str) -> Status {
        let message = format!("namespaces {} not found", go_quote(name));
        Status::failure(404, StatusReason::NOT_FOUND, message).with_details(StatusDetails {
            name: name.to_owned(),
            kind: "namespaces".to_owned(),
            ..StatusDetails::default()
        })
    }

    /// Returns the 409 `configmaps "a" already exists` (API-97).
    pub fn already_exists(definition: &ResourceDefinition, name: &str) -> Status {
        let message = format!(
            "{} {} already exists",
            definition.qualified(),
            go_quote(name)
        );
        Status::failure(409, StatusReason::ALREADY_EXISTS, message).about(definition, name)
    }

    /// As [`Status::already_exists`], for an object that is being deleted (API-97, RG-3).
    #[must_use]
    pub fn of_deleted(mut self) -> Status {
        self.message.insert_str(0, "object is being deleted: ");
        self
    }

    /// Returns the error of a create for which every generated name already exists (API-199).
    pub fn generate_name_exhausted(definition: &ResourceDefinition, name: &str) -> Status {
        let mut status = Status::already_exists(definition, name);
        status
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        status.retrying_after(1)
    }

    /// Returns the 409 `Operation cannot be fulfilled on configmaps "a": <why>` (ST-12).
    pub fn conflict(definition: &ResourceDefinition, name: &str, why: &str) -> Status {
        let (resource, name_shown) = (definition.qualified(), go_quote(name));
        let message = format!("Operation cannot be fulfilled on {resource} {name_shown}: {why}");
        Status::failure(409, StatusReason::CONFLICT, message).about(definition, name)
    }

    /// Returns the 409 for an object that was changed after the resourceVersion in the body
    /// (API-102).
    pub fn stale(definition: &ResourceDefinition, name: &str) -> Status {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Status::conflict(definition, name, why)
    }

    /// Returns the 409 for a precondition that the stored object does not meet (API-100, ST-12).
    /// `text` is the message of the storage, such as [`crate::version::uid_mismatch`].
    pub fn precondition_failed(
        definition: &ResourceDefinition,
        name: &str,
        key: &str,
        text: &str,
    ) -> Status {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: {text}"
        );
        Status::conflict(definition, name, &why)
    }

    /// Returns the 409 for a deletion whose UID precondition does not hold. The message names the
    /// Kind (API-111).
    pub fn delete_precondition_uid(
        definition: &ResourceDefinition,
        name: &str,
        asked: &str,
        found: &str,
    ) -> Status {
        let why = format!(
            "the UID in the precondition ({asked}) does not match the UID in record ({found}). \
             The object might have been deleted and then recreated"
        );
        Status::kind_conflict(definition, name, &why)
    }

    /// Returns the 409 for a deletion whose resourceVersion precondition does not hold. The message
    /// names the Kind (API-111).
    pub fn delete_precondition_version(
        definition: &ResourceDefinition,
        name: &str,
        asked: &str,
        found: &str,
    ) -> Status {
        let why = format!(
            "the ResourceVersion in the precondition ({asked}) does not match the \
             ResourceVersion in record ({found}). The object might have been modified"
        );
        Status::kind_conflict(definition, name, &why)
    }

    fn kind_conflict(definition: &ResourceDefinition, name: &str, why: &str) -> Status {
        let kind = qualified(&definition.kind, &definition.group);
        let name_shown = go_quote(name);
        let message = format!("Operation cannot be fulfilled on {kind} {name_shown}: {why}");
        Status::failure(409, StatusReason::CONFLICT, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: definition.group.to_owned(),
            kind: definition.kind.to_owned(),
            ..StatusDetails::default()
        })
    }

    /// Returns the 422 `ConfigMap "a" is invalid: …`, with a cause for each error (API-148). `kind`
    /// is the Kind unless the rule names something else.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Status {
        let errors = errors.get(..MAX_FIELD_ERRORS).unwrap_or(errors);
        let mut message = format!("{} {} is invalid", qualified(kind, group), go_quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&joined(errors));
        }
        Status::failure(422, StatusReason::INVALID, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.iter().map(StatusCause::from).collect(),
            ..StatusDetails::default()
        })
    }

    /// Returns [`Status::invalid`] for an object of a resource.
    pub fn invalid_object(
        definition: &ResourceDefinition,
        name: &str,
        errors: &[FieldError],
    ) -> Status {
        Status::invalid(definition.internal_group(), &definition.kind, name, errors)
    }

    /// Returns the 422 for an update without the required resourceVersion. The kind in its details
    /// is the plural (API-102).
    pub fn version_required(definition: &ResourceDefinition, name: &str) -> Status {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            0,
            "must be specified for an update",
        );
        Status::invalid(&definition.group, &definition.plural, name, &[error])
    }

    /// Returns the 422 for a failed operation of a JSON patch. Its text is constant (API-160).
    pub fn patch_failed() -> Status {
        let message = "the server rejected our request due to an error in our request";
        Status::failure(422, StatusReason::INVALID, message).with_details(StatusDetails::default())
    }

    /// Returns the 422 for a patch whose result is not an object of the kind. The message names
    /// neither, and shows the result with a higher limit than other messages, because objects are
    /// long (API-162).
    pub fn patch_result_invalid(error: &FieldError) -> Status {
        let message = format!(" \"\" is invalid: {error}");
        let limit = MAX_DOCUMENT_BYTES + MAX_MESSAGE_BYTES;
        let details = StatusDetails {
            causes: vec![error.into()],
            ..StatusDetails::default()
        };
        Status {
            details: Some(details.bounded(limit)),
            ..Status::long_failure(422, StatusReason::INVALID, message, limit)
        }
    }

    /// Returns the 400 for an update whose body has no name (API-99).
    pub fn name_missing(name_in_url: &str) -> Status {
        Status::bad_request(format!(
            "the name of the object ({name_in_url} based on URL) was undeterminable: name must be \
             provided"
        ))
    }

    /// Returns the 400 for an update whose body has another name (API-99, API-154).
    pub fn name_mismatch(name_in_body: &str, name_in_url: &str) -> Status {
        Status::bad_request(format!(
            "the name of the object ({name_in_body}) does not match the name on the URL \
             ({name_in_url})"
        ))
    }

    /// Returns the 400 for a body with another namespace (API-92, API-154).
    pub fn namespace_mismatch() -> Status {
        let message = "the namespace of the provided object does not match the namespace sent on \
                       the request";
        Status::bad_request(message)
    }

    /// Returns the 403 `configmaps "a" is forbidden: <why>` of admission (http.md 3.10). An empty
    /// name is omitted from the details and becomes `Unknown` in the message.
    pub fn forbidden(definition: &ResourceDefinition, name: &str, why: &str) -> Status {
        let shown = if name.is_empty() { "Unknown" } else { name };
        let (resource, shown) = (definition.qualified(), go_quote(shown));
        let message = format!("{resource} {shown} is forbidden: {why}");
        Status::failure(403, StatusReason::FORBIDDEN, message).about(definition, name)
    }

    /// Returns the 403 for a create in a namespace that is being deleted (API-261).
    pub fn namespace_terminating(
        definition: &ResourceDefinition,
        name: &str,
        namespace: &str,
    ) -> Status {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        Status::forbidden(definition, name, &why).because(StatusCause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        })
    }

    /// Returns the 403 for the deletion of a namespace that the system needs (API-261).
    pub fn namespace_undeletable(definition: &ResourceDefinition, name: &str) -> Status {
        Status::forbidden(definition, name, "this namespace may not be deleted")
    }
}
