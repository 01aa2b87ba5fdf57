//! How the objects of a resource are scaled (API-223).

use std::sync::Arc;

use serde_json::Value;

use super::{FieldPath, ResourceDefinition};
use crate::object::{Object, put};

/// Where a Scale has the number of replicas that are wanted.
pub(crate) const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Where a Scale has the number of replicas that there are.
const CURRENT_REPLICAS: [&str; 2] = ["status", "replicas"];

/// Where a Scale has the selector of the pods.
const SELECTOR: [&str; 2] = ["status", "selector"];

/// The members of metadata that a Scale has of its object.
const IDENTITY: [&str; 5] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
];

/// What a Scale shows of its object, and writes of it.
#[derive(Clone)]
pub struct Scaling {
    /// The kind of the Scale.
    pub kind: Arc<ResourceDefinition>,
    /// Where the object has the number of replicas that are wanted. Nothing else is written.
    pub replicas: FieldPath,
    /// Where it has the number of replicas that there are.
    pub current_replicas: FieldPath,
    /// The selector of its pods as text.
    pub selector: fn(&Object) -> String,
}

impl Scaling {
    /// The Scale of an object in canonical form, without managedFields.
    pub fn scale_of(&self, object: &Object) -> Object {
        let mut scale = Object::default();
        scale.set_type(&self.kind.kind, &self.kind.api_version());
        for name in IDENTITY {
            scale.set_meta(name, object.meta(name));
        }
        put(&mut scale, &REPLICAS, number(object, &self.replicas));
        let current = number(object, &self.current_replicas);
        put(&mut scale, &CURRENT_REPLICAS, current);
        put(&mut scale, &SELECTOR, (self.selector)(object).into());
        self.kind.canonicalize(&mut scale);
        scale
    }

    /// Gives an object what its Scale says: the number of replicas, and the version that must be
    /// stored when it is written.
    pub fn write(&self, scale: &Object, object: &mut Object) {
        put(object, &self.replicas, number(scale, &REPLICAS));
        object.set_meta("resourceVersion", scale.resource_version());
    }
}

/// The whole number at a path, 0 when absent.
fn number(object: &Object, path: &[impl AsRef<str>]) -> Value {
    let number = object.at(path).and_then(Value::as_i64);
    number.unwrap_or_default().into()
}
