//! Scales of the objects of a resource (API-223).

use std::sync::Arc;

use serde_json::Value;

use super::{FieldPath, ResourceDefinition};
use crate::object::{Object, put};

/// The path of the desired number of replicas in a Scale.
pub(crate) const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// The path of the current number of replicas in a Scale.
const CURRENT_REPLICAS: [&str; 2] = ["status", "replicas"];

/// The path of the pods' selector in a Scale.
const SELECTOR: [&str; 2] = ["status", "selector"];

/// The members of metadata that a Scale shares with its object.
const IDENTITY: [&str; 5] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
];

/// The paths of the numbers in objects that their Scales show.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// The kind of the Scale.
    pub kind: Arc<ResourceDefinition>,
    /// The path of the desired number of replicas, the only field that a Scale writes.
    pub replicas: FieldPath,
    /// The path of the current number of replicas.
    pub current_replicas: FieldPath,
}

impl Scaling {
    /// Returns the Scale of an object in canonical form, without managedFields. `selector` is the
    /// selector of its pods as text.
    fn scale_of(&self, object: &Object, selector: String) -> Object {
        let mut scale = Object::default();
        scale.set_type(&self.kind.kind, &self.kind.api_version());
        for name in IDENTITY {
            scale.set_meta(name, object.meta(name));
        }
        put(&mut scale, &REPLICAS, number(object, &self.replicas));
        let current = number(object, &self.current_replicas);
        put(&mut scale, &CURRENT_REPLICAS, current);
        put(&mut scale, &SELECTOR, selector.into());
        self.kind.canonicalize(&mut scale);
        scale
    }

    /// Copies the number of replicas and the required resourceVersion from a Scale into its object.
    pub fn write(&self, scale: &Object, object: &mut Object) {
        put(object, &self.replicas, number(scale, &REPLICAS));
        object.set_meta("resourceVersion", scale.resource_version());
    }
}

impl ResourceDefinition {
    /// Returns the Scale of an object in canonical form, without managedFields, or `None` for a
    /// kind without Scales.
    pub fn scale_of(&self, object: &Object) -> Option<Object> {
        let selector = self.behaviour.scale_selector(object);
        let scaling = self.behaviour.scaling()?;
        Some(scaling.scale_of(object, selector))
    }
}

/// Returns the integer at a path, 0 if absent.
fn number(object: &Object, path: &[impl AsRef<str>]) -> Value {
    let number = object.at(path).and_then(Value::as_i64);
    number.unwrap_or_default().into()
}
