//! Errors about a request: it is malformed, not allowed, about data that does not exist any more or
//! not yet, or made at a time when the server can't handle it.

use actors::engine::Revision;

use super::{Status, StatusCause, StatusDetails, StatusReason, qualified};
use crate::resource::ResourceDefinition;
use crate::text::quoting::go_quote;
use crate::text::truncation::truncated_display;

/// The limit on repeated parts of a request, in bytes. The longest valid path has about 700, the
/// longest name 253.
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
    /// The reason from the authorizer, empty if it returned none.
    pub reason: &'d str,
}

/// Returns a part of a request as an error repeats it. It is cut, because the user is not trusted.
fn repeated(text: &str) -> String {
    truncated_display(text, MAX_ASKED_BYTES)
}

/// Escapes the characters that mean something in HTML, because a browser may show the text
/// (AC-30).
fn for_html(text: String) -> String {
    match text.contains(['&', '<', '>']) {
        true => text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;"),
        false => text,
    }
}

impl Denied<'_> {
    fn said_of_path(&self, path: &str) -> (String, StatusDetails) {
        let (user, path) = (go_quote(self.user), go_quote(&repeated(path)));
        let said = format!("User {user} cannot {} path {path}", self.verb);
        let message = format!("forbidden: {}", for_html(said));
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
        .map(repeated);
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
        let said = format!(
            "User {} cannot {} resource {} in API group {} {place}",
            go_quote(self.user),
            self.verb,
            go_quote(&path),
            go_quote(&group),
        );
        let resource_and_group = qualified(&resource, &group);
        let message = format!(
            "{resource_and_group}{named} is forbidden: {}",
            for_html(said)
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
    /// Returns the 404 for a path that no route matches, in a served group (API-12).
    pub fn route_not_found() -> Status {
        let message = "the server could not find the requested resource";
        Status::failure(404, StatusReason::NOT_FOUND, message)
            .with_details(StatusDetails::default())
    }

    /// Returns the 400 for a malformed request.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::failure(400, StatusReason::BAD_REQUEST, message)
    }

    /// Returns the 401 for missing or wrong credentials (API-20).
    pub fn unauthorized() -> Status {
        Status::failure(401, StatusReason::UNAUTHORIZED, "Unauthorized")
    }

    /// Returns the 403 for a request that its user is not allowed (API-290).
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

    /// Returns the 405 for a known path with an unsupported method (API-12).
    pub fn method_not_allowed_route() -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::failure(405, StatusReason::METHOD_NOT_ALLOWED, message)
            .with_details(StatusDetails::default())
    }

    /// Returns the 405 for a verb that a resource does not support (http.md 3.10).
    pub fn method_not_allowed(definition: &ResourceDefinition, action: &str) -> Status {
        let kind = go_quote(&definition.qualified());
        let message = format!("{action} is not supported on resources of kind {kind}");
        Status::failure(405, StatusReason::METHOD_NOT_ALLOWED, message).about(definition, "")
    }

    /// Returns the 406 if no media type in Accept is supported (API-55).
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        Status::not_acceptable_because(format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        ))
    }

    /// Returns the 406 if no media type in Accept is one of the endpoint's, regardless of
    /// parameters (API-55). Unlike in [`Status::not_acceptable`], the details are empty.
    pub fn not_acceptable_route(offered: &[&str]) -> Status {
        Status::not_acceptable_because(format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            offered.join(", ")
        ))
        .with_details(StatusDetails::default())
    }

    /// Returns the 406 if no media type in Accept is supported for this response (API-71, API-72).
    pub fn not_acceptable_because(message: impl Into<String>) -> Status {
        Status::failure(406, StatusReason::NOT_ACCEPTABLE, message)
    }

    /// Returns the 415 for a body in an unsupported format (API-56).
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::failure(415, StatusReason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// Returns the 415 for a patch type that the resource doesn't accept. Unlike for other bodies,
    /// the details are empty (http.md 4.1).
    pub fn unsupported_patch_type() -> Status {
        let message = "415: Unsupported Media Type";
        Status::failure(415, StatusReason::UNSUPPORTED_MEDIA_TYPE, message)
            .with_details(StatusDetails::default())
    }

    /// Returns the 410 for a past state that is compacted (ST-14).
    pub fn expired(message: impl Into<String>) -> Status {
        Status::failure(410, StatusReason::EXPIRED, message)
    }

    /// Returns the 410 for a list at an exact resourceVersion that is compacted (API-123, LI-50).
    pub fn expired_list() -> Status {
        Status::expired("The resourceVersion for the provided list is too old.")
    }

    /// Returns the 410 for a continue token that is too old. It contains a token that continues at
    /// the newest state (API-125, LI-51).
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

    /// Returns the 410 for a watch from a resourceVersion whose events are no longer kept (API-131,
    /// WA-30).
    pub fn expired_watch(requested: Revision, oldest: Revision) -> Status {
        Status::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// Returns the 410 for data that no longer exists.
    pub fn gone(message: impl Into<String>) -> Status {
        Status::failure(410, StatusReason::GONE, message)
    }

    /// Returns the 413 for a body over the limit (API-21).
    pub fn request_too_large(limit: usize) -> Status {
        Status::request_too_large_because(format!("limit is {limit}"))
    }

    /// Returns the 413 for a request that is too large in another way (API-159).
    pub fn request_too_large_because(why: impl std::fmt::Display) -> Status {
        let message = format!("Request entity too large: {why}");
        Status::failure(413, StatusReason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// Returns the 429 that asks the client to try again later (ST-16).
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::failure(429, StatusReason::TOO_MANY_REQUESTS, message)
            .retrying_after(retry_after_seconds)
    }

    /// Returns the 500 for a store that did not respond in time (ST-11).
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

    /// Returns the 500 for an internal error of the daemon.
    pub fn internal(error: impl std::fmt::Display) -> Status {
        let message = format!("Internal error occurred: {error}");
        Status::failure(500, StatusReason::INTERNAL_ERROR, message).because(StatusCause {
            message: error.to_string(),
            ..StatusCause::default()
        })
    }

    /// Returns the plain 500 for an error that has no API reason: only its text (ST-10).
    pub fn unknown(message: impl Into<String>) -> Status {
        Status::failure(500, StatusReason::UNKNOWN, message)
    }

    /// Returns the 503 for a request that had no effect and that may soon succeed.
    pub fn unavailable(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::failure(503, StatusReason::SERVICE_UNAVAILABLE, message)
            .retrying_after(retry_after_seconds)
    }

    /// Returns the 503 for another server that cannot be reached (CN-34, CN-75).
    pub fn unreachable(why: impl std::fmt::Display) -> Status {
        let message = format!("error trying to reach service: {why}");
        Status::failure(503, StatusReason::SERVICE_UNAVAILABLE, message)
    }

    /// Returns the 504 `Timeout: <text>` (ST-13).
    pub fn timeout(text: impl std::fmt::Display) -> Status {
        Status::failure(504, StatusReason::TIMEOUT, format!("Timeout: {text}"))
            .with_details(StatusDetails::default())
    }

    /// Returns the 504 for a write that exceeded the time limit of writes (API-17).
    pub fn write_timeout() -> Status {
        Status::timeout(
            "request did not complete within requested timeout - context deadline exceeded",
        )
    }

    /// Returns the 504 for a request that exceeded the time limit of all requests (API-17).
    pub fn request_timeout() -> Status {
        Status::timeout("request did not complete within the allotted timeout")
    }

    /// Returns the 504 for a resourceVersion that the store has not reached (ST-13, API-122).
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
