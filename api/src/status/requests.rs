//! Refusals because of a request: it is malformed, not allowed, about data that is gone or not
//! there yet, or made at a time when the server can't handle it.

use actors::engine::Revision;

use super::{Status, StatusCause, StatusDetails, StatusReason, qualified};
use crate::field_error::go_quote;
use crate::resource::ResourceDefinition;
use crate::truncated::truncated_display;

/// The longest valid path has about 700 bytes, the longest name 253.
const MAX_ASKED_BYTES: usize = 1024;

/// The user and the denied request, for the text of a 403 (http.md 9.4, API-290).
#[derive(Clone, Copy, Debug, Default)]
pub struct Denied<'d> {
    /// The user's name.
    pub user: &'d str,
    /// `list`, `create`, ….
    pub verb: &'d str,
    /// The path of a request that is not about a resource.
    pub path: Option<&'d str>,
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
    /// The reason, if an authorizer gave one.
    pub reason: &'d str,
}

/// The part of a request that a refusal repeats. It is cut, because the user is not trusted.
fn asked(text: &str) -> String {
    truncated_display(text, MAX_ASKED_BYTES)
}

impl Denied<'_> {
    fn said_of_path(&self, path: &str) -> (String, StatusDetails) {
        let (user, path) = (go_quote(self.user), go_quote(&asked(path)));
        let message = format!("forbidden: User {user} cannot {} path {path}", self.verb);
        (message, StatusDetails::default())
    }

    fn said_of_resource(&self) -> (String, StatusDetails) {
        let [group, resource, subresource, namespace, name] = [
            self.group,
            self.resource,
            self.subresource,
            self.namespace,
            self.name,
        ]
        .map(asked);
        let named = match name.as_str() {
            "" => String::new(),
            name => format!(" {}", go_quote(name)),
        };
        let path = match subresource.as_str() {
            "" => resource.clone(),
            subresource => format!("{resource}/{subresource}"),
        };
        let place = match namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", go_quote(namespace)),
        };
        let message = format!(
            "{}{named} is forbidden: User {} cannot {} resource {} in API group {} {place}",
            qualified(&resource, &group),
            go_quote(self.user),
            self.verb,
            go_quote(&path),
            go_quote(&group),
        );
        let details = StatusDetails {
            name,
            group,
            kind: resource,
            ..StatusDetails::default()
        };
        (message, details)
    }
}

impl Status {
    /// A path that no route matches, in a served group (API-12).
    pub fn route_not_found() -> Status {
        let message = "the server could not find the requested resource";
        Status::failure(404, StatusReason::NOT_FOUND, message)
            .with_details(StatusDetails::default())
    }

    /// A malformed request.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::failure(400, StatusReason::BAD_REQUEST, message)
    }

    /// Missing or wrong credentials (API-20).
    pub fn unauthorized() -> Status {
        Status::failure(401, StatusReason::UNAUTHORIZED, "Unauthorized")
    }

    /// A request that is not allowed to its user (API-290).
    pub fn forbidden_request(denied: &Denied<'_>) -> Status {
        let (message, details) = match denied.path {
            Some(path) => denied.said_of_path(path),
            None => denied.said_of_resource(),
        };
        let reason = match denied.reason {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        Status::failure(403, StatusReason::FORBIDDEN, message + &reason).with_details(details)
    }

    /// A known path with an unsupported method (API-12).
    pub fn method_not_allowed_route() -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::failure(405, StatusReason::METHOD_NOT_ALLOWED, message)
            .with_details(StatusDetails::default())
    }

    /// A verb that a resource does not support (http.md 3.10).
    pub fn method_not_allowed(definition: &ResourceDefinition, action: &str) -> Status {
        let kind = go_quote(&definition.qualified());
        let message = format!("{action} is not supported on resources of kind {kind}");
        Status::failure(405, StatusReason::METHOD_NOT_ALLOWED, message).about(definition, "")
    }

    /// No media type in Accept is supported (API-55).
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        Status::not_acceptable_because(format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        ))
    }

    /// No media type in Accept is one of the endpoint's, whatever its parameters (API-55). Unlike
    /// for a form that is not offered, the details are empty.
    pub fn not_acceptable_route(offered: &[&str]) -> Status {
        Status::not_acceptable_because(format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            offered.join(", ")
        ))
        .with_details(StatusDetails::default())
    }

    /// No media type in Accept is supported for this answer (API-71, API-72).
    pub fn not_acceptable_because(message: impl Into<String>) -> Status {
        Status::failure(406, StatusReason::NOT_ACCEPTABLE, message)
    }

    /// A body in an unsupported form (API-56).
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::failure(415, StatusReason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// A patch in a form that the resource doesn't accept. Unlike for other bodies, the details are
    /// empty (http.md 4.1).
    pub fn unsupported_patch_type() -> Status {
        let message = "415: Unsupported Media Type";
        Status::failure(415, StatusReason::UNSUPPORTED_MEDIA_TYPE, message)
            .with_details(StatusDetails::default())
    }

    /// The requested past state is compacted (ST-14).
    pub fn expired(message: impl Into<String>) -> Status {
        Status::failure(410, StatusReason::EXPIRED, message)
    }

    /// A list at an exact version that is compacted (API-123, LI-50).
    pub fn expired_list() -> Status {
        Status::expired("The resourceVersion for the provided list is too old.")
    }

    /// A continue token that is too old. The answer has a token that continues at the newest state
    /// (API-125, LI-51).
    pub fn expired_continue(fresh_token: Option<String>) -> Status {
        let mut message = "The provided continue parameter is too old to display a consistent \
                           list result. You can start a new list without the continue parameter"
            .to_owned();
        if fresh_token.is_some() {
            message.push_str(
                ", or use the continue token in this response to retrieve the remainder of the \
                 results. Continuing with the provided token results in an inconsistent list - \
                 objects that were created, modified, or deleted between the time the first chunk \
                 was returned and now may show up in the list",
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

    /// The requested data is gone permanently.
    pub fn gone(message: impl Into<String>) -> Status {
        Status::failure(410, StatusReason::GONE, message)
    }

    /// A body over the limit (API-21).
    pub fn request_too_large(limit: usize) -> Status {
        Status::request_too_large_because(format!("limit is {limit}"))
    }

    /// A request that is too large in another way (API-159).
    pub fn request_too_large_because(why: impl std::fmt::Display) -> Status {
        let message = format!("Request entity too large: {why}");
        Status::failure(413, StatusReason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// Try again later (ST-16).
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::failure(429, StatusReason::TOO_MANY_REQUESTS, message)
            .retrying_after(retry_after_seconds)
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
        Status::failure(500, StatusReason::SERVER_TIMEOUT, message)
            .about(definition, operation)
            .retrying_after(retry_after_seconds)
    }

    /// An internal error of the daemon.
    pub fn internal(error: impl std::fmt::Display) -> Status {
        let message = format!("Internal error occurred: {error}");
        Status::failure(500, StatusReason::INTERNAL_ERROR, message).because(StatusCause {
            message: error.to_string(),
            ..StatusCause::default()
        })
    }

    /// An error outside of the API's own: code 500 and its text, without a reason (ST-10).
    pub fn unknown(message: impl Into<String>) -> Status {
        Status::failure(500, StatusReason::UNKNOWN, message)
    }

    /// Nothing was done, and a retry may work soon.
    pub fn unavailable(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::failure(503, StatusReason::SERVICE_UNAVAILABLE, message)
            .retrying_after(retry_after_seconds)
    }

    /// `Timeout: <text>` (ST-13).
    pub fn timeout(text: impl std::fmt::Display) -> Status {
        Status::failure(504, StatusReason::TIMEOUT, format!("Timeout: {text}"))
            .with_details(StatusDetails::default())
    }

    /// A write that took longer than the limit for writes (API-17).
    pub fn write_timeout() -> Status {
        Status::timeout(
            "request did not complete within requested timeout - context deadline exceeded",
        )
    }

    /// A request that took longer than the limit for all requests (API-17).
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
