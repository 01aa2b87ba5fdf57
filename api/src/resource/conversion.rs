//! Conversion between the versions of a stored resource.

use std::sync::Arc;

use super::{Behaviour, ResourceDefinition};
use crate::object::Object;
use crate::schema::Empty;

/// How objects are converted between a version and the other versions of its stored resource.
/// Conversion goes through the hub: one version is converted into it, and it into the other
/// version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConversionStrategy {
    /// Not at all. Objects are stored in this version only.
    #[default]
    Unsupported,
    /// The version has the schema of the hub. Only `apiVersion` changes, as with the strategy
    /// `None` of custom resources.
    TypeOnly,
    /// The version has a schema of its own. Its [`Behaviour`] converts it.
    OwnForm,
}

/// A version that objects may be stored in, but that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedVersion {
    /// The name: `v1beta1`.
    pub version: String,
    /// The conversion of its objects.
    pub conversion: ConversionStrategy,
}

/// The conversion of one version, served or not.
#[derive(Clone)]
pub struct Conversion {
    strategy: ConversionStrategy,
    version: String,
    behaviour: Arc<dyn Behaviour>,
}

impl Conversion {
    /// Returns the conversion of the version of a definition.
    pub fn of(definition: &ResourceDefinition) -> Conversion {
        Conversion {
            strategy: definition.rules().conversion,
            version: definition.version.clone(),
            behaviour: definition.behaviour.clone(),
        }
    }

    /// Returns the conversion of a version that is not served.
    pub fn of_unserved(definition: &ResourceDefinition, version: &UnservedVersion) -> Conversion {
        Conversion {
            strategy: version.conversion,
            version: version.version.clone(),
            behaviour: definition.behaviour.clone(),
        }
    }

    /// Returns whether objects of this version can be converted.
    pub fn is_supported(&self) -> bool {
        self.strategy != ConversionStrategy::Unsupported
    }

    /// Returns whether objects of this version have the schema of the hub.
    pub fn is_type_only(&self) -> bool {
        self.strategy == ConversionStrategy::TypeOnly
    }

    /// Converts an object of this version into the hub version, except apiVersion and kind.
    pub fn convert_to_hub(&self, object: &mut Object) {
        if self.strategy == ConversionStrategy::OwnForm {
            self.behaviour.convert_to_hub(&self.version, object);
        }
    }

    /// Converts an object from the hub version into this version, except apiVersion and kind.
    pub fn convert_from_hub(&self, object: &mut Object) {
        if self.strategy == ConversionStrategy::OwnForm {
            self.behaviour.convert_from_hub(&self.version, object);
        }
    }
}

impl std::fmt::Debug for Conversion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {}", self.strategy, self.version)
    }
}

/// Converts an object from one version of a stored resource into another.
pub fn convert(object: &mut Object, from: &ResourceDefinition, to: &ResourceDefinition) {
    if from.has_own_form() {
        from.behaviour.convert_to_hub(&from.version, object);
    }
    to.convert_from_hub(object);
    object.set_type(&to.kind, &to.api_version());
}

/// Returns an object converted into another version, in the canonical form that keeps the empty
/// lists and maps selected by `empty`.
pub fn converted(
    object: &Object,
    from: &ResourceDefinition,
    to: &ResourceDefinition,
    empty: Empty,
) -> Object {
    let mut object = object.clone();
    convert(&mut object, from, to);
    to.canonicalize_with(&mut object, empty);
    object
}
