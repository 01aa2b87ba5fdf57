//! The rounds of the first stage.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::hooks::reinvocation::Reinvocations;

/// The rounds of the first stage: one, and a second one if a hook has changed the object, because
/// plugins and hooks that ran before have not seen the change (HK-29).
#[derive(Debug, Default)]
pub struct Rounds {
    has_changed: AtomicBool,
    is_again: AtomicBool,
    reinvocations: Mutex<Reinvocations>,
}

impl Rounds {
    /// Notes that a hook has changed the object. In the first round this asks for a second one.
    pub fn changed(&self) {
        self.has_changed.store(true, Ordering::Relaxed);
    }

    /// Whether this is the second round.
    pub fn is_again(&self) -> bool {
        self.is_again.load(Ordering::Relaxed)
    }

    /// Returns what hooks note for the second round.
    pub fn reinvocations(&self) -> MutexGuard<'_, Reinvocations> {
        self.reinvocations.lock()
    }

    pub(super) fn has_changed(&self) -> bool {
        self.has_changed.load(Ordering::Relaxed)
    }

    /// Begins the second round if a hook changed the object in the first one.
    pub(super) fn begin_another(&self) -> bool {
        let begins = self.has_changed() && !self.is_again();
        self.is_again.store(begins, Ordering::Relaxed);
        begins
    }
}
