//! The Lessor: hands out leases for objects that are to expire, and lets the engine delete what
//! has outlived its lease.
//!
//! Objects created within a window share a lease, up to a number of them (OP-1 to OP-3): `reuse.rs`
//! decides. Who wants a lease asks the [`LessorHandle`], which answers by itself, without a
//! mailbox; the engine is asked only where a new lease must be granted, by one at a time. The actor
//! does the rest: once the daemon says so it has the engine expire in small steps, at a pace that
//! leaves room for writers (`pace.rs`), when the next lease runs out. It remembers nothing that
//! the engine does not tell it anew.

mod drive;
mod handle;
mod handlers;
pub(crate) mod messages;
mod pace;
mod reuse;
#[cfg(test)]
mod tests;

use actix::fut::wrap_future;
use actix::{Actor, AsyncContext, Context};

pub use handle::LessorHandle;
pub use reuse::LeaseReuse;

use crate::exit::ExitGuard;
use crate::mailbox;

/// Whether the last step of expiry failed.
const FAILING: &str = "taffrail_lease_expiry_failing";
/// Whether keys are waiting that have outlived their lease.
const BEHIND: &str = "taffrail_lease_expiry_behind";
/// Keys deleted.
const EXPIRED: &str = "taffrail_lease_expired_objects_total";
/// How often leases were shared (ME-6).
const OBJECT_COUNTS: &str = "etcd_lease_object_counts";

/// See the module's documentation.
pub(crate) struct Lessor {
    /// The name of the store, for metrics and logs.
    store: String,
    handle: LessorHandle,
    _exit: ExitGuard,
}

impl Lessor {
    /// The Lessor of the store behind this handle.
    pub(crate) fn new(store: String, handle: LessorHandle, exit: ExitGuard) -> Lessor {
        Lessor {
            store,
            handle,
            _exit: exit,
        }
    }
}

impl Actor for Lessor {
    type Context = Context<Lessor>;

    fn started(&mut self, context: &mut Context<Lessor>) {
        context.set_mailbox_capacity(mailbox::LESSOR);
        let work = drive::drive(self.store.clone(), self.handle.clone());
        // Ends with the actor; a step that is under way then is the engine's.
        context.spawn(wrap_future(work));
    }
}

/// Gives the Lessor's metrics their units and help texts.
pub(crate) fn describe_metrics() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_histogram!(
        OBJECT_COUNTS,
        "Number of objects attached to a single lease, observed when the next one is granted"
    );
    describe_counter!(EXPIRED, "Objects deleted because their lease ran out");
    describe_gauge!(
        BEHIND,
        "1 while objects are waiting to be deleted whose lease has run out; else 0"
    );
    describe_gauge!(
        FAILING,
        "1 while what has outlived its lease can't be deleted, which the log explains; else 0"
    );
}
