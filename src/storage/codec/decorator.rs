//! A hook that changes objects around the codec.

use std::fmt::Debug;

use crate::api::object::Object;

/// Changes objects on their way to and from their stored form, for example from one version to
/// another. It must be deterministic, because updates that change nothing are found by comparing
/// stored bytes (KV-25).
pub trait Decorator: Debug + Send + Sync + 'static {
    /// The object to encode.
    fn before_encode(&self, object: Object) -> Object;

    /// The object to serve, from the decoded one.
    ///
    /// # Errors
    /// A description of what is wrong with it.
    fn after_decode(&self, object: Object) -> Result<Object, String>;
}
