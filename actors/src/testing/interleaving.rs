//! Other threads, played by a test: they act where a Dispatcher turns to what it shares with them,
//! which is where they could get in between.

use std::cell::RefCell;

type Acts = Box<dyn FnMut()>;

thread_local! {
    static OTHERS: RefCell<Option<Acts>> = const { RefCell::new(None) };
}

/// As long as this lives, the others of the calling thread act.
pub struct Interleaving(());

impl Interleaving {
    /// Calls `acts` each time that others could get in between.
    pub fn with(acts: impl FnMut() + 'static) -> Interleaving {
        OTHERS.set(Some(Box::new(acts)));
        Interleaving(())
    }
}

impl Drop for Interleaving {
    fn drop(&mut self) {
        OTHERS.set(None);
    }
}

/// Others get in between here.
pub fn interleave() {
    // What they do is not interrupted itself.
    if let Some(mut acts) = OTHERS.take() {
        acts();
        OTHERS.set(Some(acts));
    }
}
