//! A child of the Supervisor: how it is started, what its end means, how it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::policy::RecentExits;
use crate::exit::{ChildId, ExitGuard};

/// The kinds of children, in the order in which they are started. They are stopped in reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ActorKind {
    Cacher,
    Writer,
    Reflector,
    Lessor,
    Compactor,
}

impl ActorKind {
    /// Its name in metrics, and the first part of a child's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ActorKind::Cacher => "cacher",
            ActorKind::Writer => "writer",
            ActorKind::Reflector => "reflector",
            ActorKind::Lessor => "lessor",
            ActorKind::Compactor => "compactor",
        }
    }
}

/// Starts an incarnation of an actor, gives it the guard, and sets its address in its
/// [`ActorRef`](crate::actor_ref::ActorRef).
pub(crate) type Factory = Box<dyn Fn(ExitGuard) + Send>;

/// Requests an actor to stop and waits for its answer, for two seconds at most.
pub(crate) type StopActor = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A child of the Supervisor.
pub(crate) struct Child {
    pub(crate) id: ChildId,
    pub(crate) kind: ActorKind,
    /// `cacher/configmaps`.
    pub(crate) name: String,
    pub(crate) factory: Factory,
    /// Called when it has ended, with a phrase that says why.
    pub(crate) on_exit: Box<dyn Fn(&str) + Send>,
    pub(crate) stop: StopActor,
    /// How often it was started.
    pub(crate) incarnation: u64,
    pub(crate) is_running: bool,
    pub(crate) recent_exits: RecentExits,
    /// Set when the child is to be removed. It is sent to when the child has ended.
    pub(crate) removal: Option<oneshot::Sender<()>>,
}

/// The counter of [`ChildId`]s.
#[derive(Debug, Default)]
pub(crate) struct ChildIds(AtomicU64);

impl ChildIds {
    /// An id that no child has had.
    pub(crate) fn next(&self) -> ChildId {
        ChildId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}
