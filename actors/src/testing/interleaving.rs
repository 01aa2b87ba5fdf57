//! Runs a test's function at the points where another thread could run in between: where a
//! Dispatcher uses what it shares with a Cacher.

use std::cell::RefCell;

type Act = Box<dyn FnMut()>;

thread_local! {
    static ACT: RefCell<Option<Act>> = const { RefCell::new(None) };
}

/// While this exists, the function runs at each interleaving point of the calling thread.
pub struct Interleaving(());

impl Interleaving {
    /// Calls `act` at each interleaving point.
    pub fn with(act: impl FnMut() + 'static) -> Interleaving {
        ACT.set(Some(Box::new(act)));
        Interleaving(())
    }
}

impl Drop for Interleaving {
    fn drop(&mut self) {
        ACT.set(None);
    }
}

/// An interleaving point.
pub fn interleave() {
    // Nothing runs in between the function's own steps.
    if let Some(mut act) = ACT.take() {
        act();
        ACT.set(Some(act));
    }
}
