//! Objects as hooks see them: complete, in the version that a hook asks for (HK-10, HK-15, HK-22).
//! Pure.

use std::sync::Arc;

use crate::admission::Attributes;
use crate::api::object::Object;
use crate::api::resource::{ResourceDefinition, Scaling, convert};
use crate::api::schema::Empty;

/// The version of a resource in which a hook is asked.
#[derive(Clone, Debug)]
pub enum AskedIn {
    /// That of the request.
    Request,
    /// Another one, in which the objects are converted before the hook sees them.
    Other(Arc<ResourceDefinition>),
}

/// The form in which a hook sees the objects of a request.
#[derive(Clone, Copy)]
pub struct Form<'f> {
    attributes: &'f Attributes<'f>,
    /// The version of the resource.
    version: &'f ResourceDefinition,
}

impl<'f> Form<'f> {
    /// Returns the form of the objects in the version in which a hook is asked.
    pub fn new(attributes: &'f Attributes<'f>, asked_in: &'f AskedIn) -> Form<'f> {
        let version = match asked_in {
            AskedIn::Request => attributes.definition,
            AskedIn::Other(version) => version,
        };
        Form {
            attributes,
            version,
        }
    }

    /// Returns the request.
    pub fn attributes(&self) -> &'f Attributes<'f> {
        self.attributes
    }

    /// Returns the version of the resource.
    pub fn resource(&self) -> &'f ResourceDefinition {
        self.version
    }

    /// Returns the kind of the objects: that of the resource in this version, or that of the
    /// subresource.
    pub fn kind(&self) -> &'f ResourceDefinition {
        match self.has_own_kind() {
            true => self.attributes.kind,
            false => self.version,
        }
    }

    /// Whether the kind of the objects has no schema by which they can be merged (HK-71).
    pub fn has_unmerged_kind(&self) -> bool {
        self.has_own_kind() && self.attributes.kind.kind != "Scale"
    }

    /// Whether the objects have a kind of their own, such as Scale or Eviction.
    fn has_own_kind(&self) -> bool {
        let Attributes {
            kind, definition, ..
        } = self.attributes;
        kind.kind != definition.kind || kind.group != definition.group
    }

    /// Whether the objects are shown as Scales.
    pub fn is_scale(&self) -> bool {
        self.scaling().is_some()
    }

    /// Returns the stored object as the request has it.
    pub fn old_object(&self) -> Option<&'f Object> {
        self.attributes.old_object
    }

    /// Returns how the objects are shown as Scales, if they are.
    fn scaling(&self) -> Option<&'f Scaling> {
        // Requests that store nothing have the kind of their objects.
        let is_scaled = self.has_own_kind() && self.attributes.stored.kind != self.kind().kind;
        let scaling = self.attributes.definition.behaviour.scaling();
        scaling.filter(|_| is_scaled)
    }

    /// Returns an object of the request in this form.
    pub fn show(&self, object: &Object) -> Object {
        if let Some(scaling) = self.scaling() {
            let version = self.attributes.definition;
            let object = self.converted(object, version);
            // The kind has Scales, as the path exists.
            let mut scale = version.scale_of(&object).unwrap_or_default();
            scaling.kind.canonicalize(&mut scale);
            return scale;
        }
        let mut shown = match self.has_own_kind() {
            true => object.clone(),
            false => self.converted(object, self.version),
        };
        let kind = self.kind();
        shown.set_type(&kind.kind, &kind.api_version());
        kind.canonicalize_with(&mut shown, Empty::Forgotten);
        shown
    }

    /// Applies defaults to an object that a hook has changed in this form (HK-26, HK-70).
    pub fn completed(&self, mut object: Object) -> Object {
        let kind = self.kind();
        object.set_type(&kind.kind, &kind.api_version());
        kind.fill_in(&mut object);
        kind.canonicalize_with(&mut object, Empty::Forgotten);
        object
    }

    fn converted(&self, object: &Object, to: &ResourceDefinition) -> Object {
        in_version(object.clone(), self.attributes.stored, to)
    }

    /// Writes an object that a hook has changed in this form back into the object of the request.
    pub fn take(&self, changed: Object, object: &mut Object) {
        if let Some(scaling) = self.scaling() {
            // A Scale writes the number of replicas alone.
            let version = self.attributes.definition;
            let mut whole = self.converted(object, version);
            scaling.write(&changed, &mut whole);
            *object = self.back(whole, version);
            return;
        }
        *object = match self.has_own_kind() {
            true => changed,
            false => self.back(changed, self.version),
        };
    }

    fn back(&self, object: Object, from: &ResourceDefinition) -> Object {
        in_version(object, from, self.attributes.stored)
    }
}

/// Converts an object between versions of its resource, unless they are the same.
fn in_version(mut object: Object, from: &ResourceDefinition, to: &ResourceDefinition) -> Object {
    if from.version != to.version || from.group != to.group {
        convert(&mut object, from, to);
    }
    object
}
