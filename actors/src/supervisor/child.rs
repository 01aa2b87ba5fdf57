//! One part of the house: how to start it, what its death means, how to stop it.

use futures_util::future::BoxFuture;

use super::policy::Deaths;
use crate::exit::ExitGuard;

/// Starts a new life of an actor, which takes the guard with it, and puts its address into its
/// slot.
pub(crate) type Factory = Box<dyn Fn(ExitGuard) + Send>;

/// A child of the Supervisor.
pub(crate) struct Child {
    /// `cacher/configmaps`.
    pub(crate) name: String,
    /// Its kind, for metrics: `cacher`.
    pub(crate) kind: &'static str,
    pub(crate) factory: Factory,
    /// Done as soon as its death is known, with a phrase that says why.
    pub(crate) bury: Box<dyn Fn(&str) + Send>,
    /// Tells it to stop and waits until it has heard.
    pub(crate) stop: Box<dyn Fn() -> BoxFuture<'static, ()> + Send>,
    pub(crate) life: u64,
    pub(crate) deaths: Deaths,
}
