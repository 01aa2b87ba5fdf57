//! What the writer of a value knows of it already.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What the writer of a value knows of it already, for whoever reads the event in this process. An
/// engine passes it on unopened from a mutation to its event, and stores nothing of it. An event
/// that comes from the log or from another process has none.
#[derive(Clone, Default)]
pub struct Prepared(Option<Arc<dyn Any + Send + Sync>>);

impl Prepared {
    /// Passes this on.
    pub fn new(known: Arc<dyn Any + Send + Sync>) -> Prepared {
        Prepared(Some(known))
    }

    /// What was passed on, if it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Prepared" } else { "None" })
    }
}

/// It is no part of what happened, so events that differ in it are equal.
impl PartialEq for Prepared {
    fn eq(&self, _: &Prepared) -> bool {
        true
    }
}

impl Eq for Prepared {}
