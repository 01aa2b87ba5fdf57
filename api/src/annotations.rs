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
    all: Mutex<All>,
    has_bodies: AtomicBool,
}

#[derive(Debug, Default)]
struct All {
    texts: Vec<(Name, String)>,
    /// The bytes of the annotations of hooks.
    bytes: usize,
}

/// The most bytes of the annotations that hooks add to the events of one request. Further ones are
/// dropped.
pub const HOOK_BYTES_MAX: usize = 1 << 20;

/// The name of an annotation: borrowed for built-in names, owned for names from configured
/// policies.
type Name = Cow<'static, str>;

impl Annotations {
    /// Adds an annotation.
    pub fn add(&self, name: impl Into<Name>, text: String) {
        self.0.all.lock().texts.push((name.into(), text));
    }

    /// Adds an annotation whose size a hook decides.
    pub fn add_of_hook(&self, name: String, text: String) {
        let mut all = self.0.all.lock();
        let bytes = all.bytes.saturating_add(name.len() + text.len());
        if bytes <= HOOK_BYTES_MAX {
            all.bytes = bytes;
            all.texts.push((name.into(), text));
        }
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
        self.0.all.lock().texts.clone()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_hooks_are_bounded_together_and_others_are_not_hk_97() {
        let annotations = Annotations::default();
        let half = "x".repeat(HOOK_BYTES_MAX / 2);
        for name in ["a", "b", "c"] {
            annotations.add_of_hook(name.to_owned(), half.clone());
        }
        annotations.add_of_hook("d".to_owned(), "short".to_owned());
        annotations.add("e", half);
        let names: Vec<Name> = annotations
            .all()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["a", "d", "e"]);
    }
}
