//! Knowledge of a writer about the value that it writes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Knowledge of a writer about the value that it writes, for readers of the event in this process.
/// An engine passes it on unopened from a mutation to its event, and does not store it. An event
/// that comes from the log or from another process has none.
#[derive(Clone, Default)]
pub struct Prepared(Option<Arc<dyn Any + Send + Sync>>);

impl Prepared {
    /// Passes this on.
    pub fn new(known: Arc<dyn Any + Send + Sync>) -> Prepared {
        Prepared(Some(known))
    }

    /// The value that was passed on, if it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Prepared" } else { "None" })
    }
}

/// It does not belong to the content of an event, so events that differ only in it are equal.
impl PartialEq for Prepared {
    fn eq(&self, _: &Prepared) -> bool {
        true
    }
}

impl Eq for Prepared {}
