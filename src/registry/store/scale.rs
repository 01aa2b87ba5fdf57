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
    /// Returns the Scale of a cached object, as clients get it.
    ///
    /// # Errors
    /// 500 for an object that cannot be decoded. The caller has already decoded it.
    pub fn scale_of(&self, cached: &CachedObject) -> Result<Object, Box<Status>> {
        let object = decoded(cached)?;
        let object = self.in_version(&object);
        if let Some(why) = self.definition().behaviour.why_no_scale(&object) {
            return Err(Box::new(Status::internal(why)));
        }
        let scale = self.definition().scale_of(&object);
        scale.ok_or_else(|| Box::new(Status::internal("the kind has no scale")))
    }

    /// Validates a changed Scale and writes it into its object, which has the version of this
    /// store. `manager` is the field manager of the object.
    ///
    /// # Errors
    /// 422 for an invalid Scale, 409 for another uid.
    pub(super) fn scaled(
        &self,
        manager: &FieldManager<'_>,
        scaling: &Scaling,
        scale: &Object,
        mut object: Object,
    ) -> Result<Object, Box<Status>> {
        let mut errors = ErrorList::new();
        errors.extend(metadata::validate_create(scale, &scaling.kind));
        self.validate_scale(scaling, scale, &mut errors);
        valid_scale(scaling, &object, &errors)?;
        if !scale.uid().is_empty() && scale.uid() != object.uid() {
            return Err(Box::new(self.wrong_uid(manager, scale, &object)));
        }
        manager.write_scale(scale, scaling, &mut object)?;
        Ok(object)
    }

    /// Validates the Scale of an object that mutating admission may have changed.
    ///
    /// # Errors
    /// 422 for an invalid Scale.
    pub(super) fn check_scale(
        &self,
        scaling: &Scaling,
        object: &Object,
    ) -> Result<(), Box<Status>> {
        let mut errors = ErrorList::new();
        if let Some(scale) = self.definition().scale_of(object) {
            self.validate_scale(scaling, &scale, &mut errors);
        }
        valid_scale(scaling, object, &errors)
    }

    /// The Scale of a custom resource follows from its object (CRD-159).
    fn validate_scale(&self, scaling: &Scaling, scale: &Object, errors: &mut ErrorList) {
        if !self.definition().rules().is_unstructured {
            scaling.kind.behaviour.validate(scale, errors);
        }
    }

    /// Returns the conflict of a patch that sets the uid of a Scale to another one than the
    /// object's.
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

fn valid_scale(scaling: &Scaling, object: &Object, errors: &ErrorList) -> Result<(), Box<Status>> {
    if errors.is_empty() {
        return Ok(());
    }
    let refusal = Status::invalid_object(&scaling.kind, object.name(), errors.kept());
    Err(Box::new(refusal))
}
