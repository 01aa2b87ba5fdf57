//! What plugins read and change of other resources.

use futures_util::future::BoxFuture;

use crate::api::object::Object;
use crate::api::status::Status;

/// What became of a read or a change.
pub type Answering<'c, T> = BoxFuture<'c, Result<T, Box<Status>>>;

/// A change, or the refusal for the client. It is called once for each attempt.
pub type Change<'c> = &'c mut (dyn FnMut(&mut Object) -> Result<(), Box<Status>> + Send);

/// The objects of one resource.
pub trait ResourceClient: Send + Sync + 'static {
    /// An object: that of the cache, or that of the store if the cache does not have it.
    ///
    /// # Errors
    /// The lookup failed.
    fn get<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
    ) -> Answering<'c, Option<Object>>;

    /// The objects in a namespace, or all, by name. They are those of the cache. If there are none,
    /// the store is asked, every half a minute for each namespace.
    ///
    /// # Errors
    /// The lookup failed.
    fn list<'c>(&'c self, namespace: Option<&'c str>) -> Answering<'c, Vec<Object>>;

    /// Changes the status of an object, without strategy and admission, if nobody else has changed
    /// the object meanwhile; else the change starts again from what it is then. The server owns
    /// what changes.
    ///
    /// # Errors
    /// 404 when it is absent, and what the change refuses.
    fn change_status<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
        change: Change<'c>,
    ) -> Answering<'c, ()>;
}
