//! One Lessor for each store hands out leases for objects that expire, and lets the engine delete
//! keys whose lease has expired.
//!
//! It owns which lease objects share, and when the next step of expiry is due. Callers get leases
//! through [`LessorHandle`]. It must know nothing of keys, objects or resources.
//!
//! Objects created within a window share a lease, up to a number of objects (OP-1 to OP-3):
//! `lease_manager.rs` decides. The [`LessorHandle`] answers by itself, without a mailbox. It asks
//! the engine only for a new lease, one request at a time where the lease can be shared. The actor
//! does the expiry: once the daemon is ready, it lets the engine expire in small steps, with pauses
//! that leave time for writers (`pace.rs`), and waits for the next lease that runs out. The engine
//! keeps all leases, so a restarted Lessor loses nothing.

mod expiry;
mod handle;
mod handlers;
mod lease_manager;
pub(crate) mod messages;
mod metrics;
mod pace;
#[cfg(test)]
mod tests;

use actix::fut::wrap_future;
use actix::{Actor, AsyncContext, Context};

pub use handle::LessorHandle;
pub use lease_manager::LeaseReuse;
pub(crate) use metrics::describe as describe_metrics;

use crate::exit::ExitGuard;
use crate::mailbox;

/// The actor that expires the leases of one store.
pub(crate) struct Lessor {
    /// The name of the store, for metrics and logs.
    store: String,
    handle: LessorHandle,
    exit: ExitGuard,
}

impl Lessor {
    /// The Lessor of the store of this handle.
    pub(crate) fn new(store: String, handle: LessorHandle, exit: ExitGuard) -> Lessor {
        Lessor {
            store,
            handle,
            exit,
        }
    }
}

impl Actor for Lessor {
    type Context = Context<Lessor>;

    fn started(&mut self, context: &mut Context<Lessor>) {
        context.set_mailbox_capacity(mailbox::LESSOR);
        let work = expiry::run(self.store.clone(), self.handle.clone());
        // This ends with the actor. The engine completes a running step.
        context.spawn(wrap_future(self.exit.pulse().clone().turning(work)));
    }
}
