//! What plugins ask about users.

use crate::api::user_info::UserInfo;

/// A thing that a user may or may not do, which no request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    /// The verb: `approve`.
    pub verb: &'a str,
    /// The group of the resource.
    pub group: &'a str,
    /// The resource, which need not be served: `signers`.
    pub resource: &'a str,
    /// The name of the object.
    pub name: &'a str,
}

/// Tells what users may do.
pub trait Rights: Send + Sync + 'static {
    /// Whether a user may do this.
    fn allow(&self, user: &UserInfo, act: Act<'_>) -> bool;
}
