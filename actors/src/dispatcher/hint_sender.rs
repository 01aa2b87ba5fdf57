//! How Cachers on other threads reach a Dispatcher: at most one hint is in its mailbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Recipient;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::messages::Hint;
use crate::cacher::EventSignal;

/// Sends hints to the Dispatcher of one thread.
#[derive(Default)]
pub(super) struct HintSender {
    dispatcher: ArcSwapOption<Recipient<Hint>>,
    /// Numbers of the resources whose rings are to be read. Each is in here at most once, because
    /// it is not signalled again before its ring was read.
    due: Mutex<Vec<u32>>,
    /// Set while a hint is in the mailbox.
    is_hinted: AtomicBool,
}

impl HintSender {
    /// Sets the address of a Dispatcher that has just started. Hints to its predecessor are lost.
    pub(super) fn set(&self, dispatcher: Recipient<Hint>) {
        self.dispatcher.store(Some(Arc::new(dispatcher)));
        self.is_hinted.store(false, Ordering::SeqCst);
    }

    /// Removes the address. The Dispatcher has ended.
    pub(super) fn clear(&self) {
        self.dispatcher.store(None);
    }

    /// Whether a Dispatcher is running.
    pub(super) fn is_set(&self) -> bool {
        self.dispatcher.load().is_some()
    }

    /// Takes the numbers of the resources whose rings are to be read.
    pub(super) fn take_due(&self) -> Vec<u32> {
        // In this order, a signal in between sends one hint too many and never one too few.
        self.is_hinted.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.due.lock())
    }

    fn hint(&self, resource: u32) {
        self.due.lock().push(resource);
        if self.is_hinted.swap(true, Ordering::SeqCst) {
            return;
        }
        let sent = self
            .dispatcher
            .load()
            .as_ref()
            .is_some_and(|dispatcher| dispatcher.try_send(Hint).is_ok());
        if !sent {
            // A restarted Dispatcher begins with new resources, and every tick reads due rings.
            self.is_hinted.store(false, Ordering::SeqCst);
        }
    }
}

/// The signal of one resource on one thread.
pub(super) struct ResourceSignal {
    pub(super) hint_sender: Arc<HintSender>,
    pub(super) resource: u32,
}

impl EventSignal for ResourceSignal {
    fn signal(&self) {
        self.hint_sender.hint(self.resource);
    }
}
