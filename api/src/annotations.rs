//! The annotations of the audit events of a request.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;

/// The annotations of a request's audit events. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Annotations(Arc<Mutex<Vec<(Name, String)>>>);

/// The name of an annotation: borrowed for built-in names, owned for names from configured
/// policies.
type Name = Cow<'static, str>;

impl Annotations {
    /// Adds an annotation.
    pub fn add(&self, name: impl Into<Name>, text: String) {
        self.0.lock().push((name.into(), text));
    }

    /// Returns the annotations added so far.
    pub fn all(&self) -> Vec<(Cow<'static, str>, String)> {
        self.0.lock().clone()
    }
}

/// Adds an annotation if the request has events.
pub fn annotate(
    annotations: Option<&Annotations>,
    name: impl Into<Cow<'static, str>>,
    text: impl FnOnce() -> String,
) {
    if let Some(annotations) = annotations {
        annotations.add(name, text());
    }
}
