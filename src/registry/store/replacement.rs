//! The object of a PUT, for any number of attempts.

use std::fmt;

use crate::api::object::Object;
use crate::api::status::Status;

/// Reads the object from the body again.
type Again = Box<dyn Fn() -> Result<Object, Box<Status>> + Send + Sync>;

/// The object of a PUT. The first attempt takes it. Later ones read the body again: most updates
/// need only one attempt, so a copy for each would be wasted.
pub struct Replacement {
    object: Option<Object>,
    again: Again,
}

impl Replacement {
    /// Creates a replacement from an object and a function that reads it again.
    pub fn read(
        object: Object,
        again: impl Fn() -> Result<Object, Box<Status>> + Send + Sync + 'static,
    ) -> Replacement {
        Replacement {
            object: Some(object),
            again: Box::new(again),
        }
    }

    /// Returns the object, if no attempt has taken it.
    pub(super) fn first(&mut self) -> Option<&mut Object> {
        self.object.as_mut()
    }

    /// Returns the object for an attempt.
    ///
    /// # Errors
    /// Those of reading the body again.
    pub fn take(&mut self) -> Result<Object, Box<Status>> {
        self.object.take().map_or_else(&self.again, Ok)
    }
}

impl From<Object> for Replacement {
    fn from(object: Object) -> Replacement {
        let copy = object.clone();
        Replacement::read(object, move || Ok(copy.clone()))
    }
}

impl fmt::Debug for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_first_attempt_takes_the_object_and_later_ones_have_it_read_again() {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let named = |name: &str| {
            let mut object = Object::default();
            object.set_meta("name", name);
            object
        };
        let mut replacement = Replacement::read(named("a"), move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(named("again"))
        });
        assert_eq!(
            replacement.first().map(|object| object.name().to_owned()),
            Some("a".to_owned())
        );
        assert_eq!(replacement.take().expect("the first").name(), "a");
        assert!(replacement.first().is_none());
        for attempt in 1..3 {
            assert_eq!(replacement.take().expect("another").name(), "again");
            assert_eq!(reads.load(Ordering::Relaxed), attempt);
        }
        let mut copied = Replacement::from(named("b"));
        for _ in 0..2 {
            assert_eq!(copied.take().expect("a copy").name(), "b");
        }
    }
}
