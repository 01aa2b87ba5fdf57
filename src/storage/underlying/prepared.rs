//! An object that is decoded once: before it is stored. The response to its writer and the watch
//! cache of this process use it.

use std::sync::{Arc, Weak};

use actors::engine::{Event, Prepared, Revision};
use actors::object::CachedObject;
use parking_lot::Mutex;

use crate::api::resource::ResourceDefinition;

/// The version of an object while its own is not known. No client can name it.
const UNKNOWN: Revision = Revision(u64::MAX);

/// An object that is about to be stored.
#[derive(Clone)]
pub(super) struct PreparedObject(Arc<Inner>);

struct Inner {
    /// The version of the resource that the object is in.
    ///
    /// Engines may keep prepared objects in their history, which must not keep the kind of a
    /// removed resource alive.
    definition: Weak<ResourceDefinition>,
    /// The object, first with an [`UNKNOWN`] version, later as the cache holds it.
    object: Mutex<Arc<CachedObject>>,
}

impl PreparedObject {
    /// The version that the object shows until it is stored.
    pub(super) const VERSION: Revision = UNKNOWN;

    /// An object of this version of its resource, at [`PreparedObject::VERSION`].
    pub(super) fn new(
        definition: &Arc<ResourceDefinition>,
        object: Arc<CachedObject>,
    ) -> PreparedObject {
        let (definition, object) = (Arc::downgrade(definition), Mutex::new(object));
        PreparedObject(Arc::new(Inner { definition, object }))
    }

    /// The object now.
    pub(super) fn object(&self) -> Arc<CachedObject> {
        self.0.object.lock().clone()
    }

    /// The object as it travels with the mutation.
    pub(super) fn prepared(&self) -> Prepared {
        Prepared::new(self.0.clone())
    }

    /// The object as it was stored at a revision, for its writer.
    ///
    /// It does not become the cache's object, which the Cacher's own thread makes: a long-lived
    /// allocation would leave holes between the short-lived ones of the threads that serve
    /// requests.
    pub(super) fn stored_at(&self, revision: Revision) -> Arc<CachedObject> {
        let object = self.object();
        match object.revision == revision {
            true => object,
            false => Arc::new(object.at(revision)),
        }
    }
}

/// The object that an event stored, if it was prepared in this process and in this version.
pub(super) fn prepared_object(
    event: &Event,
    definition: &Arc<ResourceDefinition>,
) -> Option<Arc<CachedObject>> {
    let inner: &Inner = event.prepared.get()?;
    let is_same = inner.definition.as_ptr() == Arc::as_ptr(definition);
    is_same.then(|| {
        let mut object = inner.object.lock();
        if object.revision != event.revision {
            *object = Arc::new(object.at(event.revision));
        }
        object.clone()
    })
}
