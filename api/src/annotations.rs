//! The annotations of the audit events of a request.

use std::sync::Arc;

use parking_lot::Mutex;

/// The annotations of the audit events of a request. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Annotations(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Annotations {
    /// Adds one.
    pub fn add(&self, name: &'static str, text: String) {
        self.0.lock().push((name, text));
    }

    /// Those so far.
    pub fn all(&self) -> Vec<(&'static str, String)> {
        self.0.lock().clone()
    }
}

/// Adds an annotation if the request has events.
pub fn annotate(
    annotations: Option<&Annotations>,
    name: &'static str,
    text: impl FnOnce() -> String,
) {
    if let Some(annotations) = annotations {
        annotations.add(name, text());
    }
}
