//! Access of plugins to objects of other resources.

use futures_util::future::{BoxFuture, FutureExt};

use crate::api::object::Object;
use crate::api::status::Status;

/// The result of a read or a change.
pub type Answering<'c, T> = BoxFuture<'c, Result<T, Box<Status>>>;

/// A change, which may refuse the request with a Status. It is called once for each attempt.
pub type Change<'c> = &'c mut (dyn FnMut(&mut Object) -> Result<(), Box<Status>> + Send);

/// The objects of one resource.
pub trait ResourceClient: Send + Sync + 'static {
    /// Returns an object: from the cache, or from the store if the cache does not have it.
    ///
    /// # Errors
    /// The lookup failed.
    fn get<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
    ) -> Answering<'c, Option<Object>>;

    /// Returns the version of the object that [`ResourceClient::get`] would return, if it is known
    /// without waiting.
    fn known_version(&self, _namespace: Option<&str>, _name: &str) -> Option<u64> {
        None
    }

    /// Returns the objects in a namespace, or all, sorted by name. They come from the cache. If it
    /// has none, the store is read, at most once in 30 seconds for each namespace.
    ///
    /// # Errors
    /// The lookup failed.
    fn list<'c>(&'c self, namespace: Option<&'c str>) -> Answering<'c, Vec<Object>>;

    /// Returns the objects in a namespace that have this value of a label, as
    /// [`ResourceClient::list`] does. Others need not be decoded.
    ///
    /// # Errors
    /// The lookup failed.
    fn labelled<'c>(
        &'c self,
        namespace: &'c str,
        label: (&'c str, &'c str),
    ) -> Answering<'c, Vec<Object>> {
        async move {
            let mut found = self.list(Some(namespace)).await?;
            found.retain(|object| {
                let labels = object
                    .metadata()
                    .and_then(|metadata| metadata.get("labels"));
                let value = labels.and_then(|labels| labels.get(label.0));
                value.is_some_and(|value| value == label.1)
            });
            Ok(found)
        }
        .boxed()
    }

    /// Changes the status of an object, without strategy and admission. If another client has
    /// changed the object meanwhile, the change starts again from the new state. The server becomes
    /// the field owner of the changes.
    ///
    /// # Errors
    /// 404 if the object is absent, and the Status that the change returns.
    fn change_status<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
        change: Change<'c>,
    ) -> Answering<'c, ()>;
}
