//! Status objects, which report errors and successful deletions.
//!
//! Contains one constructor for each error, with the forms of http.md 3.10. Input is the facts of
//! an error; the result is a `v1` Status of limited size. Nothing here knows HTTP connections or
//! storage.

mod conversions;
mod objects;
mod reason;
mod requests;

use serde::Serialize;

use crate::resource::ResourceDefinition;
use crate::text::truncation::{json_length, truncated};

pub use reason::StatusReason;
pub use requests::Denied;

/// The limit on a message, as JSON. Messages about ordinary requests have a few hundred bytes, and
/// those about an object with dozens of errors about ten thousand. Text from the request has no
/// other limit.
const MAX_MESSAGE_BYTES: usize = 40 * 1024;

/// The limit on all causes together, in bytes.
const MAX_CAUSES_BYTES: usize = 40 * 1024;
const MAX_CAUSES: usize = 100;

/// Longer names are cut. Stored names have at most 253 bytes under a DNS rule.
const MAX_NAME_BYTES: usize = 1024;

/// The `metadata` of a Status. Empty except for a fresh continue token in a 410 (LI-51).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusMeta {
    /// A token that continues a list at the newest state, so that the list is inconsistent.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// A cause of an error (API-148).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    /// The machine-readable reason: `FieldValueInvalid`, ….
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The human-readable text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The subject of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusDetails {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource's plural, or the Kind where http.md says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Seconds to wait before a retry, also sent as the header `Retry-After` (API-150).
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

impl StatusDetails {
    /// Limits the size: cuts the cause that exceeds the limit, and drops later ones.
    fn bounded(mut self, causes_bytes: usize) -> StatusDetails {
        for text in [
            &mut self.name,
            &mut self.group,
            &mut self.kind,
            &mut self.uid,
        ] {
            *text = truncated(std::mem::take(text), MAX_NAME_BYTES);
        }
        let mut left = causes_bytes;
        let cut = |cause: &mut StatusCause| {
            let has_room = left > 0;
            for text in [&mut cause.reason, &mut cause.field, &mut cause.message] {
                *text = truncated(std::mem::take(text), left);
                left = left.saturating_sub(json_length(text));
            }
            has_room
        };
        self.causes.truncate(MAX_CAUSES);
        self.causes.retain_mut(cut);
        self
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A `v1` Status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    /// The metadata.
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    pub status: &'static str,
    /// The human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The machine-readable reason.
    #[serde(skip_serializing_if = "StatusReason::is_unknown")]
    pub reason: StatusReason,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status code.
    #[serde(skip_serializing_if = "is_zero_code")]
    pub code: u16,
}

fn is_zero_code(n: &u16) -> bool {
    *n == 0
}

impl Status {
    /// Returns a failure without details.
    pub fn failure(code: u16, reason: StatusReason, message: impl Into<String>) -> Status {
        Status::long_failure(code, reason, message.into(), MAX_MESSAGE_BYTES)
    }

    /// Returns a failure without details, with another limit on the message.
    fn long_failure(code: u16, reason: StatusReason, message: String, limit: usize) -> Status {
        Status {
            kind: "Status",
            api_version: "v1",
            metadata: StatusMeta::default(),
            status: "Failure",
            message: truncated(message, limit),
            reason,
            details: None,
            code,
        }
    }

    /// Returns a success with details (RG-10). Its code is not part of the document.
    pub fn success(details: StatusDetails) -> Status {
        Status {
            status: "Success",
            details: Some(details),
            ..Status::failure(0, StatusReason::UNKNOWN, "")
        }
    }

    /// Returns the response to a create that has no object to return (API-219, API-220).
    pub fn created() -> Status {
        Status {
            status: "Success",
            ..Status::failure(201, StatusReason::UNKNOWN, "")
        }
    }

    /// Sets the details.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Status {
        self.details = Some(details.bounded(MAX_CAUSES_BYTES));
        self
    }

    /// Returns the seconds for the header `Retry-After`, or 0 for no header (API-150).
    pub fn retry_after_seconds(&self) -> u32 {
        self.details
            .as_ref()
            .map_or(0, |details| details.retry_after_seconds)
    }

    /// Returns the document as compact JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Adds group, plural and name of a resource's object to the details.
    fn about(self, definition: &ResourceDefinition, name: &str) -> Status {
        self.with_details(StatusDetails {
            name: name.to_owned(),
            group: definition.group.to_owned(),
            kind: definition.plural.to_owned(),
            ..StatusDetails::default()
        })
    }

    /// Asks the client to retry after this many seconds.
    #[must_use]
    pub fn retrying_after(mut self, seconds: u32) -> Status {
        if seconds > 0 {
            self.details.get_or_insert_default().retry_after_seconds = seconds;
        }
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: StatusCause) -> Status {
        let mut details = self.details.take().unwrap_or_default();
        details.causes.push(cause);
        self.with_details(details)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// Returns `deployments.apps`, or the name alone for the core group.
fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

#[cfg(test)]
mod tests;
