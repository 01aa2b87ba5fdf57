//! Other versions that are read as the version of a definition.

use super::ResourceDefinition;
use crate::object::Object;
use crate::schema::ObjectType;

/// A version that an object may have in storage or after a patch instead of the version of a
/// definition. Most are no longer served.
#[derive(Clone, Debug)]
pub struct FormerVersion {
    /// The apiVersion: `extensions/v1beta1`. The group may differ from that of the resource.
    pub api_version: String,
    /// The type of its objects.
    pub object_type: ObjectType,
    /// The name of members, wherever they are, that are objects with an optional `description` and
    /// that conversion copies without reading them.
    pub copied_member: Option<&'static str>,
}

impl FormerVersion {
    /// Converts an object of this version, decoded by its type, to the version of a definition.
    pub fn apply(&self, object: &mut Object, definition: &ResourceDefinition) {
        if let Some((schema, id)) = self.object_type.found() {
            schema.add_structs(id, &mut object.0);
        }
        definition.behaviour.convert_former(self, object);
        object.set_type(&definition.kind, &definition.api_version());
    }
}

impl ResourceDefinition {
    /// Returns the former version with this kind and apiVersion, if there is one.
    pub fn former_version(&self, kind: &str, api_version: &str) -> Option<&FormerVersion> {
        let is_this = |former: &&FormerVersion| former.api_version == api_version;
        let versions = self.behaviour.former_versions();
        versions.iter().find(is_this).filter(|_| kind == self.kind)
    }

    /// Returns whether all versions that its objects may have are known. For an open type they are
    /// not, because versions of it may have been served in the past.
    pub fn knows_its_versions(&self) -> bool {
        let found = self.object_type().found();
        let of = found.and_then(|(schema, id)| schema.get(id));
        of.is_some_and(|of| !of.is_open)
    }
}
