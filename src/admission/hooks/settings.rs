//! Settings that webhooks and policies share. Pure.

use serde::Deserialize;

/// The meaning of a webhook's failed call and of a policy's failed expression.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    #[default]
    Fail,
    /// The request goes on without the webhook or policy.
    Ignore,
}

/// Whether a webhook or a policy may run again after later changes (HK-29).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum ReinvocationPolicy {
    /// It runs once.
    #[default]
    Never,
    /// It runs again if the object has changed since.
    IfNeeded,
}
