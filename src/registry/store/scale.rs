//! Scales of objects (API-223).

use actors::object::CachedObject;

use super::RegistryStore;
use crate::api::error_list::ErrorList;
use crate::api::managed_fields::FieldManager;
use crate::api::metadata;
use crate::api::object::Object;
use crate::api::resource::{ResourceDefinition, Scaling};
use crate::api::status::Status;
use crate::api::version::uid_mismatch;
use crate::registry::errors::decoded;

impl RegistryStore {
    /// The Scale of a cached object, as clients get it.
    ///
    /// # Errors
    /// A 500 for an object that is no JSON. Decoding has excluded that.
    pub fn scale_of(
        &self,
        cached: &CachedObject,
        scaling: &Scaling,
    ) -> Result<Object, Box<Status>> {
        let object = decoded(cached)?;
        Ok(scaling.scale_of(&self.in_version(&object)))
    }

    /// An object of this version with what a changed Scale of it says. `manager` is that of the
    /// object.
    pub(super) fn scaled(
        &self,
        manager: &FieldManager<'_>,
        scaling: &Scaling,
        scale: &Object,
        mut object: Object,
    ) -> Result<Object, Box<Status>> {
        let mut errors = ErrorList::new();
        errors.extend(metadata::validate_create(scale, &scaling.kind));
        if let Some(validate) = scaling.kind.create.validate {
            validate(scale, &mut errors);
        }
        if !errors.is_empty() {
            let refusal = Status::invalid_object(&scaling.kind, object.name(), errors.kept());
            return Err(Box::new(refusal));
        }
        if !scale.uid().is_empty() && scale.uid() != object.uid() {
            return Err(Box::new(self.wrong_uid(manager, scale, &object)));
        }
        manager.write_scale(scale, scaling, &mut object)?;
        Ok(object)
    }

    /// Another uid than that of the object, in what a patch makes of its Scale.
    fn wrong_uid(&self, manager: &FieldManager<'_>, scale: &Object, object: &Object) -> Status {
        let definition = self.definition();
        let of_scale = ResourceDefinition {
            plural: format!("{}/{}", definition.plural, manager.subresource),
            ..(**definition).clone()
        };
        let why = uid_mismatch(scale.uid(), object.uid());
        Status::conflict(&of_scale, object.name(), &why)
    }
}
