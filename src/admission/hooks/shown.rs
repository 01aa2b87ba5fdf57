//! Objects as hooks see them: complete, in the version that a hook asks for (HK-10, HK-15, HK-22).
//! Pure, except that a conversion may have to be waited for.

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
    ///
    /// # Errors
    /// The failure of a conversion.
    pub async fn show(&self, object: &Object) -> Result<Object, String> {
        if let Some(scaling) = self.scaling() {
            let version = self.attributes.definition;
            let object = self.converted(object, version).await?;
            // The kind has Scales, as the path exists.
            let mut scale = version.scale_of(&object).unwrap_or_default();
            scaling.kind.canonicalize(&mut scale);
            return Ok(scale);
        }
        let mut shown = match self.has_own_kind() {
            true => object.clone(),
            false => self.converted(object, self.version).await?,
        };
        let kind = self.kind();
        shown.set_type(&kind.kind, &kind.api_version());
        kind.canonicalize_with(&mut shown, Empty::Forgotten);
        Ok(shown)
    }

    /// Returns an object of the request, if there is one, in this form.
    ///
    /// # Errors
    /// The failure of a conversion.
    pub async fn show_any(&self, object: Option<&Object>) -> Result<Option<Object>, String> {
        match object {
            Some(object) => self.show(object).await.map(Some),
            None => Ok(None),
        }
    }

    /// Applies defaults to an object that a hook has changed in this form (HK-26, HK-70).
    pub fn completed(&self, mut object: Object) -> Object {
        let kind = self.kind();
        object.set_type(&kind.kind, &kind.api_version());
        kind.fill_in(&mut object);
        kind.canonicalize_with(&mut object, Empty::Forgotten);
        object
    }

    async fn converted(&self, object: &Object, to: &ResourceDefinition) -> Result<Object, String> {
        let stored = self.attributes.stored;
        self.in_version(object.clone(), stored, to).await
    }

    /// Writes an object that a hook has changed in this form back into the object of the request.
    ///
    /// # Errors
    /// The failure of a conversion.
    pub async fn take(&self, changed: Object, object: &mut Object) -> Result<(), String> {
        let stored = self.attributes.stored;
        if let Some(scaling) = self.scaling() {
            // A Scale writes the number of replicas alone.
            let version = self.attributes.definition;
            let mut whole = self.converted(object, version).await?;
            scaling.write(&changed, &mut whole);
            *object = self.in_version(whole, version, stored).await?;
            return Ok(());
        }
        *object = match self.has_own_kind() {
            true => changed,
            false => self.in_version(changed, self.version, stored).await?,
        };
        Ok(())
    }

    /// Converts an object between versions of its resource, unless they are the same.
    async fn in_version(
        &self,
        mut object: Object,
        from: &ResourceDefinition,
        to: &ResourceDefinition,
    ) -> Result<Object, String> {
        if from.version == to.version && from.group == to.group {
            return Ok(object);
        }
        let Some(converter) = self.attributes.converter else {
            convert(&mut object, from, to);
            return Ok(object);
        };
        // Converters get objects without their version.
        let version = object.resource_version().to_owned();
        object.set_meta("resourceVersion", "");
        let mut converted = converter.convert(vec![object], from, to, false).await?;
        let mut object = converted.pop().ok_or("a conversion returned no object")?;
        object.set_meta("resourceVersion", &version);
        Ok(object)
    }
}
