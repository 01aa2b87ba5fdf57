//! Webhooks that decide about requests and identify the users of tokens.
//!
//! A kubeconfig says where a webhook is ([`super::kubeconfigs`]), a [`Caller`] posts reviews to it,
//! and [`WebhookAuthorizer`] decides by its answers, [`WebhookTokens`] finds users by them. Answers
//! are kept for some time, so that not every request waits for the webhook. The credentials of
//! users do not go to webhooks that authorize.

mod access_review;
mod answer;
mod authorizer;
mod call;
mod conditions;
mod metrics;
mod review_version;
#[cfg(test)]
pub(in crate::auth) mod tests;
mod tokens;

pub use answer::successful_body;
pub use authorizer::{FailurePolicy, WebhookAuthorizer, WebhookSettings};
pub use call::Caller;
pub use conditions::MatchConditions;
pub use review_version::{ReviewVersion, unregistered};
pub use tokens::WebhookTokens;
