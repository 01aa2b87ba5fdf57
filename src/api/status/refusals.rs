//! The refusals of the API, one constructor each (http.md 3.10).

use actors::engine::Revision;
use serde_json::Value;

use super::{Status, StatusCause, StatusDetails};
use crate::api::field_error::{FieldError, MAX_FIELD_ERRORS, go_quote, joined};
use crate::api::resource::ResourceDefinition;

/// Whose request was denied what, for the text of a 403 (9.4, API-290).
#[derive(Clone, Copy, Debug, Default)]
pub struct Denied<'d> {
    /// The user's name.
    pub user: &'d str,
    /// `list`, `create`, ….
    pub verb: &'d str,
    /// The API group; empty for the core group.
    pub group: &'d str,
    /// The resource's plural.
    pub resource: &'d str,
    /// The subresource, if any.
    pub subresource: &'d str,
    /// The namespace; empty at the cluster scope.
    pub namespace: &'d str,
    /// The object's name, if any.
    pub name: &'d str,
    /// Why, if an authorizer said so.
    pub reason: &'d str,
}

/// The refusals, one constructor each (http.md 3.10).
impl Status {
    /// `configmaps "a" not found` (API-117).
    pub fn not_found(definition: &ResourceDefinition, name: &str) -> Status {
        let message = format!("{} {} not found", definition.qualified(), go_quote(name));
        Status::failure(404, "NotFound", message).about(definition, name)
    }

    /// The namespace of a write is absent (API-261).
    pub fn namespace_not_found(name: &str) -> Status {
        let message = format!("namespaces {} not found", go_quote(name));
        Status::failure(404, "NotFound", message).with_details(StatusDetails {
            name: name.to_owned(),
            kind: "namespaces".to_owned(),
            ..StatusDetails::default()
        })
    }

    /// A path that no route matches, in a group that is served (API-12).
    pub fn route_not_found() -> Status {
        let message = "the server could not find the requested resource";
        Status::failure(404, "NotFound", message).with_details(StatusDetails::default())
    }

    /// `configmaps "a" already exists` (API-97).
    pub fn already_exists(definition: &ResourceDefinition, name: &str) -> Status {
        let message = format!(
            "{} {} already exists",
            definition.qualified(),
            go_quote(name)
        );
        Status::failure(409, "AlreadyExists", message).about(definition, name)
    }

    /// As [`Status::already_exists`] for an object that is on its way out (API-97, RG-3).
    pub fn already_exists_deleting(definition: &ResourceDefinition, name: &str) -> Status {
        let mut status = Status::already_exists(definition, name);
        status.message.insert_str(0, "object is being deleted: ");
        status
    }

    /// Every generated name was taken (API-199).
    pub fn generate_name_exhausted(definition: &ResourceDefinition, name: &str) -> Status {
        let mut status = Status::already_exists(definition, name);
        status
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        status.retrying_after(1)
    }

    /// `Operation cannot be fulfilled on configmaps "a": <why>` (ST-12).
    pub fn conflict(definition: &ResourceDefinition, name: &str, why: &str) -> Status {
        let (resource, name_shown) = (definition.qualified(), go_quote(name));
        let message = format!("Operation cannot be fulfilled on {resource} {name_shown}: {why}");
        Status::failure(409, "Conflict", message).about(definition, name)
    }

    /// The object was changed since the version in the body (API-102).
    pub fn stale(definition: &ResourceDefinition, name: &str) -> Status {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Status::conflict(definition, name, why)
    }

    /// A precondition on the stored object does not hold (API-100, ST-12). `text` is what the
    /// storage says: `Precondition failed: UID in precondition: …, UID in object meta: …`.
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

    /// A deletion's UID precondition does not hold; names the Kind (API-111).
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

    /// A deletion's resourceVersion precondition does not hold; names the Kind (API-111).
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
        let kind = qualified(definition.kind, definition.group);
        let name_shown = go_quote(name);
        let message = format!("Operation cannot be fulfilled on {kind} {name_shown}: {why}");
        Status::failure(409, "Conflict", message).with_details(StatusDetails {
            name: name.to_owned(),
            group: definition.group.to_owned(),
            kind: definition.kind.to_owned(),
            ..StatusDetails::default()
        })
    }

    /// `ConfigMap "a" is invalid: …` with a cause for each fault (API-148). The kind is the Kind,
    /// or whatever else the rule names.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Status {
        let errors = errors.get(..MAX_FIELD_ERRORS).unwrap_or(errors);
        let mut message = format!("{} {} is invalid", qualified(kind, group), go_quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&joined(errors));
        }
        Status::failure(422, "Invalid", message).with_details(StatusDetails {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..StatusDetails::default()
        })
    }

    /// [`Status::invalid`] for an object of a resource.
    pub fn invalid_object(
        definition: &ResourceDefinition,
        name: &str,
        errors: &[FieldError],
    ) -> Status {
        Status::invalid(definition.group, definition.kind, name, errors)
    }

    /// An update without a version where one is needed; its kind is the plural (API-102).
    pub fn version_required(definition: &ResourceDefinition, name: &str) -> Status {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            0,
            "must be specified for an update",
        );
        Status::invalid(definition.group, definition.plural, name, &[error])
    }

    /// An operation of a JSON patch that failed: a constant text (API-160).
    pub fn patch_failed() -> Status {
        let message = "the server rejected our request due to an error in our request";
        Status::failure(422, "Invalid", message).with_details(StatusDetails::default())
    }

    /// A patch whose result is no object of the kind; it names neither (API-162).
    pub fn patch_result_invalid(patched: &Value, detail: &str) -> Status {
        let error = FieldError::invalid("patch", patched.to_string(), detail);
        Status::invalid("", "", "", &[error])
    }

    /// A request that can't be understood.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::failure(400, "BadRequest", message)
    }

    /// No credentials, or wrong ones (API-20).
    pub fn unauthorized() -> Status {
        Status::failure(401, "Unauthorized", "Unauthorized")
    }

    /// An update whose body has no name (API-99).
    pub fn name_missing(name_in_url: &str) -> Status {
        Status::bad_request(format!(
            "the name of the object ({name_in_url} based on URL) was undeterminable: name must be \
             provided"
        ))
    }

    /// An update whose body has another name (API-99, API-154).
    pub fn name_mismatch(name_in_body: &str, name_in_url: &str) -> Status {
        Status::bad_request(format!(
            "the name of the object ({name_in_body}) does not match the name on the URL \
             ({name_in_url})"
        ))
    }

    /// A body of another namespace (API-92, API-154).
    pub fn namespace_mismatch() -> Status {
        let message = "the namespace of the provided object does not match the namespace sent on \
                       the request";
        Status::bad_request(message)
    }

    /// A create with a resourceVersion (API-96).
    pub fn version_on_create() -> Status {
        Status::unknown("resourceVersion should not be set on objects to be created")
    }

    /// `configmaps "a" is forbidden: <why>`, as admission says it (3.10). An empty name stays out
    /// of the details and reads `Unknown` in the text.
    pub fn forbidden(definition: &ResourceDefinition, name: &str, why: &str) -> Status {
        let shown = if name.is_empty() { "Unknown" } else { name };
        let (resource, shown) = (definition.qualified(), go_quote(shown));
        let message = format!("{resource} {shown} is forbidden: {why}");
        Status::failure(403, "Forbidden", message).about(definition, name)
    }

    /// Creating in a namespace that is being deleted (API-261).
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

    /// Deleting a namespace that the system needs (API-261).
    pub fn namespace_undeletable(definition: &ResourceDefinition, name: &str) -> Status {
        Status::forbidden(definition, name, "this namespace may not be deleted")
    }

    /// A request to a resource that its user may not make (API-290).
    pub fn forbidden_request(denied: &Denied<'_>) -> Status {
        let mut message = qualified(denied.resource, denied.group);
        if !denied.name.is_empty() {
            message.push(' ');
            message.push_str(&go_quote(denied.name));
        }
        let mut path = denied.resource.to_owned();
        if !denied.subresource.is_empty() {
            path.push('/');
            path.push_str(denied.subresource);
        }
        message.push_str(&format!(
            " is forbidden: User {} cannot {} resource {} in API group {} {}",
            go_quote(denied.user),
            denied.verb,
            go_quote(&path),
            go_quote(denied.group),
            match denied.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", go_quote(namespace)),
            },
        ));
        if !denied.reason.is_empty() {
            message.push_str(": ");
            message.push_str(denied.reason);
        }
        Status::failure(403, "Forbidden", message).with_details(StatusDetails {
            name: denied.name.to_owned(),
            group: denied.group.to_owned(),
            kind: denied.resource.to_owned(),
            ..StatusDetails::default()
        })
    }

    /// A request to another path that its user may not make (API-290).
    pub fn forbidden_path(user: &str, verb: &str, path: &str) -> Status {
        let message = format!(
            "forbidden: User {} cannot {verb} path {}",
            go_quote(user),
            go_quote(path)
        );
        Status::failure(403, "Forbidden", message).with_details(StatusDetails::default())
    }

    /// A known path, but not with this method (API-12).
    pub fn method_not_allowed_route() -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::failure(405, "MethodNotAllowed", message).with_details(StatusDetails::default())
    }

    /// A verb that a resource does not have (3.10).
    pub fn method_not_allowed(definition: &ResourceDefinition, action: &str) -> Status {
        let kind = go_quote(&definition.qualified());
        let message = format!("{action} is not supported on resources of kind {kind}");
        Status::failure(405, "MethodNotAllowed", message).about(definition, "")
    }

    /// Nothing that Accept asks for can be produced (API-55).
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        Status::not_acceptable_because(format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        ))
    }

    /// What Accept asks for can't be produced of this answer (API-71, API-72).
    pub fn not_acceptable_because(message: impl Into<String>) -> Status {
        Status::failure(406, "NotAcceptable", message)
    }

    /// A body in a form that can't be read here (API-56).
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::failure(415, "UnsupportedMediaType", message)
    }

    /// A patch in a form that the resource doesn't take; unlike other bodies with empty details
    /// (4.1).
    pub fn unsupported_patch_type(accepted: &[&str]) -> Status {
        Status::unsupported_media_type(accepted).with_details(StatusDetails::default())
    }

    /// The past that was asked for is forgotten (ST-14).
    pub fn expired(message: impl Into<String>) -> Status {
        Status::failure(410, "Expired", message)
    }

    /// An exact version of a list that is compacted (API-123, LI-50).
    pub fn expired_list() -> Status {
        Status::expired("The resourceVersion for the provided list is too old.")
    }

    /// A continue token that is too old, with one that goes on at the newest state (API-125,
    /// LI-51).
    pub fn expired_continue(fresh_token: Option<String>) -> Status {
        let mut message = "The provided continue parameter is too old to go on with a consistent \
                           list. Start the list anew without it"
            .to_owned();
        if fresh_token.is_some() {
            message.push_str(
                ", or go on with the token in this answer: what was created, changed or deleted \
                 since the first page may then be seen or missed",
            );
        }
        message.push('.');
        let mut status = Status::expired(message);
        status.metadata.continue_token = fresh_token.unwrap_or_default();
        status
    }

    /// A watch from a version that is no longer held (API-131, WA-30).
    pub fn expired_watch(requested: Revision, oldest: Revision) -> Status {
        Status::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// What was asked for is gone for good.
    pub fn gone(message: impl Into<String>) -> Status {
        Status::failure(410, "Gone", message)
    }

    /// A body over the limit (API-21).
    pub fn request_too_large(limit: usize) -> Status {
        Status::request_too_large_because(format!("limit is {limit}"))
    }

    /// A request that is too large in another way (API-159).
    pub fn request_too_large_because(why: impl std::fmt::Display) -> Status {
        let message = format!("Request entity too large: {why}");
        Status::failure(413, "RequestEntityTooLarge", message)
    }

    /// Try again later (ST-16).
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::failure(429, "TooManyRequests", message).retrying_after(retry_after_seconds)
    }

    /// The store did not answer in time; HTTP 500 (ST-11).
    pub fn server_timeout(
        definition: &ResourceDefinition,
        operation: &str,
        retry_after_seconds: u32,
    ) -> Status {
        let resource = definition.qualified();
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, \
             please try again."
        );
        Status::failure(500, "ServerTimeout", message)
            .about(definition, operation)
            .retrying_after(retry_after_seconds)
    }

    /// A fault of ours.
    pub fn internal(error: impl std::fmt::Display) -> Status {
        let message = format!("Internal error occurred: {error}");
        Status::failure(500, "InternalError", message).because(StatusCause {
            message: error.to_string(),
            ..StatusCause::default()
        })
    }

    /// An error that is none of the API's: code 500 and its text, no reason (ST-10).
    pub fn unknown(message: impl Into<String>) -> Status {
        Status::failure(500, "", message)
    }

    /// Nothing was done, and the same request may work soon.
    pub fn unavailable(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::failure(503, "ServiceUnavailable", message).retrying_after(retry_after_seconds)
    }

    /// `Timeout: <text>` (ST-13).
    pub fn timeout(text: impl std::fmt::Display) -> Status {
        Status::failure(504, "Timeout", format!("Timeout: {text}"))
            .with_details(StatusDetails::default())
    }

    /// A write that took longer than the limit for writes (API-17).
    pub fn write_timeout() -> Status {
        Status::timeout(
            "request did not complete within requested timeout - context deadline exceeded",
        )
    }

    /// A request that took longer than the limit for all (API-17).
    pub fn request_timeout() -> Status {
        Status::timeout("request did not complete within the allotted timeout")
    }

    /// A version that the store has not reached (ST-13, API-122).
    pub fn too_large_version(
        asked: Revision,
        current: Revision,
        retry_after_seconds: u32,
    ) -> Status {
        Status::timeout(format!(
            "Too large resource version: {asked}, current: {current}"
        ))
        .because(StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            ..StatusCause::default()
        })
        .retrying_after(retry_after_seconds)
    }
}

/// `deployments.apps`, or the name alone for the core group.
fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}
