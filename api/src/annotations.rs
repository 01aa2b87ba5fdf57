//! The annotations of the audit events of a request.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The annotations of a request's audit events. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Annotations(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    all: Mutex<Vec<(Name, String)>>,
    has_bodies: AtomicBool,
}

/// The name of an annotation: borrowed for built-in names, owned for names from configured
/// policies.
type Name = Cow<'static, str>;

impl Annotations {
    /// Adds an annotation.
    pub fn add(&self, name: impl Into<Name>, text: String) {
        self.0.all.lock().push((name.into(), text));
    }

    /// Notes that the events contain the bodies of requests.
    pub fn record_bodies(&self) {
        self.0.has_bodies.store(true, Ordering::Relaxed);
    }

    /// Whether the events contain the bodies of requests. Only then annotations may contain parts
    /// of objects.
    pub fn has_bodies(&self) -> bool {
        self.0.has_bodies.load(Ordering::Relaxed)
    }

    /// Returns the annotations added so far.
    pub fn all(&self) -> Vec<(Cow<'static, str>, String)> {
        self.0.all.lock().clone()
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
