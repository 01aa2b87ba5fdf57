//! The answers to requests that policies refuse (HK-54, HK-57, HK-69). Pure.

use crate::admission::Attributes;
use crate::api::object::Object;
use crate::api::status::{Status, StatusCause, StatusReason};

/// A refusal by a validating policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub policy: String,
    /// The binding. `None` if the policy itself is wrong.
    pub binding: Option<String>,
    pub message: String,
    /// `Invalid`, `Forbidden` or `RequestEntityTooLarge`. Empty for the first.
    pub reason: String,
}

impl Refusal {
    /// Returns the answer to a request that is refused.
    pub(super) fn into_status(
        self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Box<Status> {
        let Refusal {
            policy,
            binding,
            message,
            reason,
        } = self;
        let message = match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: \
                 {message}"
            ),
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
        };
        let mut status = *attributes.forbidden(object, &message);
        (status.code, status.reason) = match reason.as_str() {
            "Forbidden" => (403, StatusReason::FORBIDDEN),
            "RequestEntityTooLarge" => (413, StatusReason::REQUEST_ENTITY_TOO_LARGE),
            _ => (422, StatusReason::INVALID),
        };
        Box::new(status.because(StatusCause {
            message,
            ..StatusCause::default()
        }))
    }
}

/// An error of a mutating policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyError {
    pub policy: String,
    /// The binding. `None` if the policy itself is wrong.
    pub binding: Option<String>,
    pub message: String,
    /// Whether an expression is wrong, and not the configuration.
    pub is_invalid: bool,
}

impl PolicyError {
    fn shown(&self) -> String {
        let PolicyError {
            policy, message, ..
        } = self;
        match &self.binding {
            Some(binding) => {
                format!("policy '{policy}' with binding '{binding}' denied request: {message}")
            }
            None => format!("policy {policy:?} denied request: {message}"),
        }
    }
}

/// Returns the answer to a request for which mutating policies fail. The first error is the
/// message, all are causes.
pub(super) fn failed(
    errors: &[PolicyError],
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Option<Box<Status>> {
    let first = errors.first()?;
    let mut status = *attributes.forbidden(object, "admission request denied by policy");
    status.message = first.shown();
    if first.is_invalid {
        status.reason = StatusReason::INVALID;
    }
    for error in errors {
        status = status.because(StatusCause {
            message: error.shown(),
            ..StatusCause::default()
        });
    }
    Some(Box::new(status))
}
