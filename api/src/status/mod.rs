//! Status objects, which report refusals and successful deletions.
//!
//! This folder owns one constructor for each refusal, with the shapes of http.md 3.10. The facts of
//! a refusal enter, a `v1` Status of limited size leaves. This folder must not know HTTP
//! connections or storage.

mod objects;
mod reason;
mod requests;

use serde::Serialize;

use crate::resource::ResourceDefinition;
use crate::truncated::{json_length, truncated};

pub use reason::StatusReason;
pub use requests::Denied;

/// The limit on a message, as JSON. Messages about ordinary requests have a few hundred bytes, and
/// an object with dozens of faults needs about ten thousand. Text from the request has no other
/// limit.
const MAX_MESSAGE_BYTES: usize = 40 * 1024;

/// The limit on all causes together, in bytes.
const MAX_CAUSES_BYTES: usize = 40 * 1024;
const MAX_CAUSES: usize = 100;

/// Longer names are cut. A DNS rule allows stored names of up to 253 bytes.
const MAX_NAME_BYTES: usize = 1024;

/// `metadata` of a Status. It is empty except for a fresh continue token in a 410 (LI-51).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusMeta {
    /// A token that continues a list at the newest state, which makes the list inconsistent.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// One cause of a refusal (API-148).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    /// Machine-readable: `FieldValueInvalid`, ….
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The human-readable text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The subject of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusDetails {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Group of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource's plural, or the Kind where http.md says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Seconds to wait before a retry, also sent as the header `Retry-After` (API-150).
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

impl StatusDetails {
    /// Limits the size: the cause that exceeds the limit is cut, and later causes are dropped.
    fn bounded(mut self, causes_bytes: usize) -> StatusDetails {
        for text in [&mut self.name, &mut self.kind, &mut self.uid] {
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
    /// Metadata.
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    pub status: &'static str,
    /// The human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Machine-readable.
    #[serde(skip_serializing_if = "StatusReason::is_unknown")]
    pub reason: StatusReason,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// HTTP status code.
    #[serde(skip_serializing_if = "is_zero_code")]
    pub code: u16,
}

fn is_zero_code(n: &u16) -> bool {
    *n == 0
}

impl Status {
    /// A failure without details.
    pub fn failure(code: u16, reason: StatusReason, message: impl Into<String>) -> Status {
        Status::long_failure(code, reason, message.into(), MAX_MESSAGE_BYTES)
    }

    /// A failure without details whose message has another limit.
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

    /// A success with details (RG-10). Its code stays out of the document.
    pub fn success(details: StatusDetails) -> Status {
        Status {
            status: "Success",
            details: Some(details),
            ..Status::failure(0, StatusReason::UNKNOWN, "")
        }
    }

    /// Something was done for an object, and there is nothing to show of it (API-219, API-220).
    pub fn created() -> Status {
        Status {
            status: "Success",
            ..Status::failure(201, StatusReason::UNKNOWN, "")
        }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Status {
        self.details = Some(details.bounded(MAX_CAUSES_BYTES));
        self
    }

    /// Seconds for the header `Retry-After`; 0 for none (API-150).
    pub fn retry_after_seconds(&self) -> u32 {
        self.details
            .as_ref()
            .map_or(0, |details| details.retry_after_seconds)
    }

    /// The document as compact JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Adds the group, plural and name of a resource's object to the details.
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

/// `deployments.apps`, or the name alone for the core group.
fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

#[cfg(test)]
mod tests;
