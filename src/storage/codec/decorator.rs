//! What happens to objects around the codec.

use std::fmt::Debug;

use crate::api::object::Object;

/// Changes objects on their way to and from their stored form: from one version to another, say.
/// What it does must be the same each time, as updates that change nothing are found by comparing
/// what is stored (KV-25).
pub trait Decorator: Debug + Send + Sync + 'static {
    /// The object as it is to be encoded.
    fn before_encode(&self, object: Object) -> Object;

    /// The object that was meant by what has been decoded.
    ///
    /// # Errors
    /// What is wrong with it.
    fn after_decode(&self, object: Object) -> Result<Object, String>;
}
