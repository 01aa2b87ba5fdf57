//! Conversion between the versions of a stored resource.

use std::fmt;

use super::ResourceDefinition;
use crate::object::Object;
use crate::schema::Empty;

/// How objects are converted between a version and the other versions of its stored resource.
/// Versions are converted through a common form, the hub: one version is converted into it, and it
/// into the other version.
#[derive(Clone, Copy, Default)]
pub enum ConversionStrategy {
    /// They are not. Objects are stored in this version only.
    #[default]
    Unsupported,
    /// The version has the common form. Only `apiVersion` changes, as with the strategy `None` of
    /// custom resources.
    TypeOnly,
    /// Functions convert between the version and the common form.
    Functions {
        /// From this version into the common form.
        to_hub: fn(&mut Object),
        /// From the common form into this version.
        from_hub: fn(&mut Object),
    },
}

/// A version that objects may be stored in, though nobody can ask for it: its name, and how its
/// objects are converted.
pub type UnservedVersion = (&'static str, ConversionStrategy);

impl ConversionStrategy {
    /// Whether objects of this version can be converted.
    pub fn is_supported(self) -> bool {
        !matches!(self, ConversionStrategy::Unsupported)
    }

    /// Whether objects of this version have the common form.
    pub fn is_type_only(self) -> bool {
        matches!(self, ConversionStrategy::TypeOnly)
    }

    /// Converts an object of this version into the common form, but for its type.
    pub fn to_hub(self, object: &mut Object) {
        if let ConversionStrategy::Functions { to_hub, .. } = self {
            to_hub(object);
        }
    }

    /// Converts an object from the common form into this version, but for its type.
    pub fn from_hub(self, object: &mut Object) {
        if let ConversionStrategy::Functions { from_hub, .. } = self {
            from_hub(object);
        }
    }
}

impl fmt::Debug for ConversionStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConversionStrategy::Unsupported => "Unsupported",
            ConversionStrategy::TypeOnly => "TypeOnly",
            ConversionStrategy::Functions { .. } => "Functions",
        })
    }
}

/// Converts an object from one version of a stored resource into another one.
pub fn convert(object: &mut Object, from: &ResourceDefinition, to: &ResourceDefinition) {
    from.conversion.to_hub(object);
    to.conversion.from_hub(object);
    object.set_type(&to.kind, &to.api_version());
}

/// An object of a version in another version, in the canonical form in which these empty lists and
/// maps stay.
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
