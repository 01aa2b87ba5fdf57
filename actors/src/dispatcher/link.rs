//! The end of a Dispatcher that other threads hold: how a Cacher reaches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Addr;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::Dispatcher;
use super::messages::Hint;
use crate::cacher::Bell;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Link {
    address: ArcSwapOption<Addr<Dispatcher>>,
    /// Desks to look after; each is in here once at most, as its bell is not rung again before.
    due: Mutex<Vec<u32>>,
    /// Set while a hint is in the mailbox.
    is_hinted: AtomicBool,
}

impl Link {
    /// The Dispatcher lives here from now on. Hints sent to the one before are lost.
    pub(super) fn fill(&self, address: Addr<Dispatcher>) {
        self.address.store(Some(Arc::new(address)));
        self.is_hinted.store(false, Ordering::SeqCst);
    }

    /// The Dispatcher is gone.
    pub(super) fn clear(&self) {
        self.address.store(None);
    }

    /// Whether a Dispatcher lives here.
    pub(super) fn is_filled(&self) -> bool {
        self.address.load().is_some()
    }

    /// Takes the desks to look after.
    pub(super) fn take_due(&self) -> Vec<u32> {
        // In this order: a bell rung in between sends a hint too many, never one too few.
        self.is_hinted.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.due.lock())
    }

    fn hint(&self, desk: u32) {
        self.due.lock().push(desk);
        if self.is_hinted.swap(true, Ordering::SeqCst) {
            return;
        }
        let sent = self
            .address
            .load()
            .as_ref()
            .is_some_and(|address| address.try_send(Hint).is_ok());
        if !sent {
            // The next life looks after all desks, and every tick after those due.
            self.is_hinted.store(false, Ordering::SeqCst);
        }
    }
}

/// The bell of one desk.
pub(super) struct DeskBell {
    pub(super) link: Arc<Link>,
    pub(super) desk: u32,
}

impl Bell for DeskBell {
    fn ring(&self) {
        self.link.hint(self.desk);
    }
}
