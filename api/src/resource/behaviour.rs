//! The behaviour of a kind.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Declared, FormerVersion, JsonSchema, Rules, Scaling, SelectableField};
use crate::completeness::Completeness;
use crate::error_list::{ErrorList, Ratchet};
use crate::field_validation::StrictDecodingError;
use crate::object::Object;
use crate::schema::{Empty, ObjectType};
use crate::typed::ValueType;
use crate::user_info::UserInfo;

/// The behaviour of a kind: defaulting, validation, conversion and printing of its objects.
/// Built-in kinds implement it over their rows, custom resources over the schemas of their
/// definitions.
///
/// Methods with a default implementation are for features of only some kinds. None of them may
/// block or do I/O, because registries call them on the thread of a request. `subresource` is the
/// endpoint of an update as in the path; it is empty for the endpoint of the object itself.
pub trait Behaviour: Send + Sync {
    /// Returns the declared part: rules, type, columns and selectable fields.
    fn declared(&self) -> &Declared;

    /// Returns the declared rules.
    fn rules(&self) -> &Rules {
        &self.declared().rules
    }

    /// Returns whether new objects may be stored: not once a definition is being deleted (CRD-84).
    fn accepts_objects(&self) -> bool {
        true
    }

    /// Returns the type of its objects, on which decoding, pruning, the canonical form, ownership,
    /// protobuf and OpenAPI are based.
    fn object_type(&self) -> &ObjectType {
        &self.declared().object_type
    }

    /// Returns the type by which fields of its objects have owners (http.md 4.5). That of a custom
    /// resource follows from its schema.
    fn value_type(&self) -> ValueType<'_> {
        ValueType::of_objects(self.object_type())
    }

    /// Returns the JSON schema that documents show of its objects, if they have one instead of a
    /// type (CRD-105).
    fn json_schema(&self) -> Option<JsonSchema> {
        None
    }

    /// Returns the columns of its Tables, with their cells (API-68).
    fn columns(&self) -> &[Column] {
        &self.declared().columns
    }

    /// Returns the fields for field selectors, in addition to name and namespace (http.md 6.3).
    fn selectable_fields(&self) -> &[SelectableField] {
        &self.declared().selectable_fields
    }

    /// Returns the other versions that objects may have, and that are read as this one (KV-27).
    fn former_versions(&self) -> &[FormerVersion] {
        &[]
    }

    /// Returns where its objects have the numbers of a Scale, if a subresource shows one (API-223).
    fn scaling(&self) -> Option<&Scaling> {
        None
    }

    /// Returns the reason why an object has no Scale, if any (CRD-188).
    fn why_no_scale(&self, _object: &Object) -> Option<String> {
        None
    }

    /// Returns the selector of an object's pods as text, for its Scale (API-223).
    fn scale_selector(&self, _object: &Object) -> String {
        String::new()
    }

    // Reading.

    /// Drops members that the type has but the kind does not, and returns their paths. Strict field
    /// validation refuses them (API-90).
    fn prune(&self, _object: &mut Object) -> Vec<StrictDecodingError> {
        Vec::new()
    }

    /// Returns the reason why an object that fits the type still can't be decoded, if any.
    fn why_unreadable(&self, _object: &Object) -> Option<String> {
        None
    }

    /// Returns whether [`Behaviour::set_defaults`] does anything. If not, registries skip the work
    /// around it.
    fn has_defaults(&self) -> bool {
        false
    }

    /// Applies defaults to fields that a writer left out (http.md 7). A second call changes
    /// nothing.
    fn set_defaults(&self, _object: &mut Object) {}

    /// Applies defaults to an object that was read from storage (KV-30), as Kubernetes does on
    /// every read. Neither drops nor adds fields that only writes drop or add. `now` replaces a
    /// missing time.
    fn set_stored_defaults(&self, object: &mut Object, _now: Timestamp) {
        self.set_defaults(object);
    }

    /// Returns a description of the stored objects that [`Behaviour::set_stored_defaults`] leaves
    /// unchanged. Without it, every object that is read is defaulted.
    fn completeness(&self) -> Option<&Completeness> {
        None
    }

    /// Returns whether every stored value is brought into the form that clients see when it is
    /// read, as those of custom resources are (CRD-137). The text of a cached object may then
    /// differ from the stored one.
    fn completes_stored(&self) -> bool {
        false
    }

    /// Brings an object into the canonical form that keeps the empty lists and maps selected by
    /// `empty`. Returns whether it kept any.
    fn canonicalize(&self, object: &mut Object, empty: Empty) -> bool {
        let found = self.object_type().found();
        found.is_some_and(|(schema, id)| schema.canonicalize_with(id, &mut object.0, empty))
    }

    /// Completes the empty object of a bookmark (WA-41), because kube-apiserver's internal types
    /// print more values than the versioned ones.
    fn complete_empty(&self, _object: &mut Object) {}

    // Conversion. It is synchronous: a webhook converts before these are called (docs/design.md).

    /// Converts an object of this version, served or not, into the hub version, except apiVersion
    /// and kind.
    fn convert_to_hub(&self, _version: &str, _object: &mut Object) {}

    /// Converts an object from the hub version into this version, except apiVersion and kind.
    fn convert_from_hub(&self, _version: &str, _object: &mut Object) {}

    /// Applies the defaults of a former version, and converts the object to this version. The
    /// object was decoded by the type of the former version.
    fn convert_former(&self, _former: &FormerVersion, _object: &mut Object) {}

    // Writing, in this order.

    /// Records the user who creates an object. Returns whether the kind has fields for that.
    fn set_requester(&self, _object: &mut Object, _user: &UserInfo) -> bool {
        false
    }

    /// Returns whether [`Behaviour::complete_owned`] does anything.
    fn completes_owned(&self) -> bool {
        false
    }

    /// Adds fields of a new object that its writer owns although the server sets them later
    /// (API-231).
    fn complete_owned(&self, _object: &mut Object) {}

    /// Returns warnings about a new object before it is prepared, whether it is valid or not.
    fn warnings_before_create(&self, _object: &Object) -> Vec<String> {
        Vec::new()
    }

    /// Drops fields of disabled features, unless the stored object uses them. Returns whether it
    /// dropped any.
    fn drop_disabled(&self, _object: &mut Object, _stored: Option<&Object>) -> bool {
        false
    }

    /// Normalizes a new object. Returns whether the kind does that; if so, the object is defaulted
    /// again.
    fn prepare_for_create(&self, _object: &mut Object) -> bool {
        false
    }

    /// Returns whether [`Behaviour::prepare_for_update`] does anything at this endpoint.
    fn prepares_for_update(&self, _subresource: &str) -> bool {
        false
    }

    /// Normalizes an object that replaces the stored one. It is defaulted again afterwards.
    fn prepare_for_update(&self, _subresource: &str, _object: &mut Object, _stored: &Object) {}

    /// Sets the times of a change after it was prepared. Returns whether the kind has any.
    fn stamp_update(
        &self,
        _subresource: &str,
        _object: &mut Object,
        _stored: &Object,
        _now: Timestamp,
    ) -> bool {
        false
    }

    /// Validates a new object, except its metadata.
    fn validate(&self, _object: &Object, _errors: &mut ErrorList) {}

    /// Validates a change, except its metadata.
    fn validate_update(
        &self,
        _subresource: &str,
        _object: &Object,
        _stored: &Object,
        _errors: &mut ErrorList,
    ) {
    }

    /// Returns the errors that a change may keep if the stored object has them (API-146).
    fn ratchets(&self) -> &[Ratchet] {
        &[]
    }

    /// Returns warnings about a valid new object.
    fn warnings_on_create(&self, _object: &Object) -> Vec<String> {
        Vec::new()
    }

    /// Returns warnings about a valid change.
    fn warnings_on_update(
        &self,
        _subresource: &str,
        _object: &Object,
        _stored: &Object,
    ) -> Vec<String> {
        Vec::new()
    }

    // Deletion.

    /// Returns the reason why an object of this name can't be deleted, if any.
    fn deletion_refusal(&self, _name: &str) -> Option<String> {
        None
    }

    /// Returns the grace period in seconds from the requested one, for a kind with graceful
    /// deletion (API-112).
    fn grace(&self, _object: &Object, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Returns whether anything other than finalizers keeps an object that is marked for deletion.
    fn is_held(&self, _object: &Object) -> bool {
        false
    }

    /// Marks an object for deletion for the first time, for a kind with the
    /// [`DeletionRule`](super::DeletionRule) `OwnMark`.
    fn mark(&self, _object: &mut Object, _now: Timestamp) {}

    // Tables.

    /// Returns the conditions of an object's row, by which clients hide or grey it (API-76).
    fn row_conditions(&self, _object: &Object) -> Option<Value> {
        None
    }
}
