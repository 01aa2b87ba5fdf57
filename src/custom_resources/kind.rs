//! The behaviour of a version of a custom resource, over the schema of its definition. Pure.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::Value;

use super::form::Form;
use super::life::Closing;
use crate::api::custom::{finalizer_warnings, printer_columns};
use crate::api::error_list::ErrorList;
use crate::api::field_validation::StrictDecodingError;
use crate::api::object::Object;
use crate::api::resource::{
    Behaviour, Column, Declared, FieldPath, FormerVersion, JsonSchema, Scaling, SelectableField,
};
use crate::api::schema::{Empty, ObjectType};
use crate::api::typed::ValueType;

/// The subresource with the observed state.
pub(super) const STATUS: &str = "status";

/// A version of a custom resource.
pub(super) struct CustomKind {
    pub declared: Declared,
    /// Whether its definition is being deleted.
    pub closing: Closing,
    /// The schema of the version.
    pub form: Arc<Form>,
    /// The schema of the version in which objects are stored.
    pub hub: Arc<Form>,
    /// The columns of its definition.
    pub additional_columns: Vec<Value>,
    pub columns: OnceLock<Vec<Column>>,
    pub selectable: Vec<SelectableField>,
    /// The paths of the fields that selectors may use, in the order of the definition.
    pub offered: Vec<String>,
    /// Whether a webhook makes its objects from stored ones.
    pub is_converted: bool,
    pub has_status: bool,
    pub scale: Option<ScaleFields>,
    /// The versions that stored objects may have, with their schemas. Only the hub has them.
    pub former: Vec<FormerVersion>,
    pub former_forms: Vec<Arc<Form>>,
}

/// The fields that a Scale shows.
pub(super) struct ScaleFields {
    pub scaling: Scaling,
    /// The path of the desired number of replicas, as the definition has it.
    pub replicas: String,
    pub selector: Option<FieldPath>,
}

impl Behaviour for CustomKind {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn accepts_objects(&self) -> bool {
        !self.closing.is_begun()
    }

    fn object_type(&self) -> &ObjectType {
        &self.declared.object_type
    }

    fn value_type(&self) -> ValueType<'_> {
        self.form.schema().value_type()
    }

    fn json_schema(&self) -> Option<JsonSchema> {
        Some(JsonSchema {
            schema: self.form.json(),
            keeps_unknown: self.form.keeps_unknown(),
            selectable: self.offered.clone(),
        })
    }

    fn columns(&self) -> &[Column] {
        let columns = || printer_columns(&self.additional_columns);
        self.columns.get_or_init(columns)
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &self.selectable
    }

    fn former_versions(&self) -> &[FormerVersion] {
        &self.former
    }

    fn scaling(&self) -> Option<&Scaling> {
        self.scale.as_ref().map(|scale| &scale.scaling)
    }

    fn why_no_scale(&self, object: &Object) -> Option<String> {
        let scale = self.scale.as_ref()?;
        let found = object.at(&scale.scaling.replicas);
        let path = &scale.replicas;
        found
            .is_none()
            .then(|| format!("the spec replicas field {path:?} does not exist"))
    }

    fn scale_selector(&self, object: &Object) -> String {
        let selector = self
            .scale
            .as_ref()
            .and_then(|scale| scale.selector.as_ref());
        selector.map_or_else(String::new, |path| object.text(path).to_owned())
    }

    fn prune(&self, object: &mut Object) -> Vec<StrictDecodingError> {
        self.form.schema().prune(object)
    }

    fn why_unreadable(&self, object: &Object) -> Option<String> {
        self.form.schema().why_unreadable(object)
    }

    fn has_defaults(&self) -> bool {
        self.form.schema().has_defaults()
    }

    fn set_defaults(&self, object: &mut Object) {
        self.form.schema().set_defaults(object);
    }

    fn set_stored_defaults(&self, object: &mut Object, _now: Timestamp) {
        self.form.schema().complete_stored(object);
    }

    /// An object that a webhook has made is pruned, but gets no defaults (HK-79).
    fn completes_stored(&self) -> bool {
        !self.is_converted
    }

    fn canonicalize(&self, object: &mut Object, empty: Empty) -> bool {
        self.form.schema().canonicalize(object, empty)
    }

    fn convert_to_hub(&self, _version: &str, object: &mut Object) {
        self.hub.schema().prune_converted(object);
    }

    fn convert_from_hub(&self, _version: &str, object: &mut Object) {
        self.form.schema().prune_converted(object);
    }

    fn convert_former(&self, former: &FormerVersion, object: &mut Object) {
        let mut forms = self.former.iter().zip(&self.former_forms);
        // linear: a resource has few versions.
        let found = forms.find(|(known, _)| known.api_version == former.api_version);
        let Some((_, form)) = found else {
            return;
        };
        form.schema().complete_stored(object);
        if !Arc::ptr_eq(form, &self.form) {
            self.form.schema().prune_converted(object);
        }
    }

    fn prepares_for_update(&self, subresource: &str) -> bool {
        subresource == STATUS && self.has_status
    }

    /// Keeps everything but the status, and the owners of fields (CRD-185).
    fn prepare_for_update(&self, _subresource: &str, object: &mut Object, stored: &Object) {
        let status = object.0.remove(STATUS);
        let owners = object.managed_fields().cloned();
        let version = object.resource_version().to_owned();
        let mut kept = stored.clone();
        match status {
            Some(status) => drop(kept.0.insert(STATUS.to_owned(), status)),
            None => drop(kept.0.remove(STATUS)),
        }
        kept.set_meta("resourceVersion", &version);
        kept.set_managed_fields(owners);
        *object = kept;
    }

    fn validate(&self, object: &Object, errors: &mut ErrorList) {
        self.form.validate(object, errors);
    }

    fn validate_update(
        &self,
        subresource: &str,
        object: &Object,
        stored: &Object,
        errors: &mut ErrorList,
    ) {
        self.form
            .validate_update(subresource, object, stored, errors);
    }

    fn warnings_on_create(&self, object: &Object) -> Vec<String> {
        finalizer_warnings(object, None)
    }

    fn warnings_on_update(
        &self,
        _subresource: &str,
        object: &Object,
        stored: &Object,
    ) -> Vec<String> {
        finalizer_warnings(object, Some(stored))
    }
}
