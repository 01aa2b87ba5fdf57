//! Custom resources: the steps of reading and writing their objects that follow from the schema of
//! a version (crd.md 7 to 11).
//!
//! Contains pruning and defaulting of whole objects, validation of changes, metadata of embedded
//! objects, and the values of columns and selectable fields. Input is a compiled schema and
//! objects; results are changed objects, field errors and cells. Nothing here knows definitions,
//! requests or storage, and nothing runs rules in CEL.

mod cells;
mod embedded;
mod finalizers;
mod json_path;
mod scale;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error_list::ErrorList;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::field_validation::StrictDecodingError;
use crate::object::Object;
use crate::schema::{Empty, untyped};
use crate::structural::{
    Budget, NO_PATH, StructuralSchema, View, canonicalize_numbers, has_defaults, has_valid_lists,
    prune_object, set_defaults, validate_list_types, validate_value,
};
use crate::typed::ValueType;

pub use cells::{printer_columns, selectable_fields};
pub use embedded::{
    WrongTypes, coerce_embedded, coerce_metadata, validate_embedded_object,
    validate_embedded_objects, validate_metadata,
};
pub use finalizers::finalizer_warnings;
pub use json_path::{JsonPath, JsonPathError};
pub use scale::ScalePaths;

/// The message about rules in CEL that an invalid object prevents (CRD-174).
const RULES_NOT_CHECKED: &str = "some validation rules were not checked because the object was \
                                 invalid; correct the existing errors to complete validation";

/// The schema of a version of a custom resource, as its objects are read and written.
#[derive(Clone, Debug)]
pub struct CustomSchema {
    /// The compiled schema, which all users share.
    pub schema: Arc<StructuralSchema>,
    /// Whether unknown members are kept everywhere (`spec.preserveUnknownFields` of old
    /// definitions, CRD-129).
    pub keeps_unknown: bool,
    /// The fields that a Scale shows, if the version has that subresource.
    pub scale: Option<ScalePaths>,
}

/// Whether the errors of an object prevent the check of its rules in CEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// Rules can be checked.
    Valid,
    /// An error of the structure prevents it (CRD-174).
    Broken,
}

impl Structure {
    fn of(is_broken: bool) -> Structure {
        match is_broken {
            true => Structure::Broken,
            false => Structure::Valid,
        }
    }
}

/// Returns whether an error of this type prevents the check of rules in CEL (CRD-174).
pub fn prevents_rules(kind: FieldErrorKind) -> bool {
    matches!(
        kind,
        FieldErrorKind::NotSupported
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany
            | FieldErrorKind::TypeInvalid
    )
}

/// Returns the error that is added to those that prevent the check of rules.
pub fn rules_not_checked() -> FieldError {
    FieldError::invalid(NO_PATH, Value::Null, RULES_NOT_CHECKED)
}

impl CustomSchema {
    /// Returns a schema with the rules of current definitions, without a Scale.
    pub fn new(schema: Arc<StructuralSchema>) -> CustomSchema {
        CustomSchema {
            schema,
            keeps_unknown: false,
            scale: None,
        }
    }

    // Reading.

    /// Returns the reason why an object of a request can't be decoded, if any: embedded metadata
    /// with a wrong type (CRD-131). The metadata of the object itself has been checked.
    pub fn why_unreadable(&self, object: &Object) -> Option<String> {
        let root = self.schema.root();
        if !root.has_embedded() {
            return None;
        }
        let mut members = object.0.clone();
        if !self.keeps_unknown {
            prune_object(&mut members, root);
        }
        let coerced = coerce_embedded(&mut members, root, WrongTypes::Refused);
        coerced.err().map(|error| error.to_string())
    }

    /// Prunes an object of a request, and returns the unknown members in kube-apiserver's order:
    /// those of the schema, and those of embedded metadata (CRD-125, CRD-225).
    pub fn prune(&self, object: &mut Object) -> Vec<StrictDecodingError> {
        let root = self.schema.root();
        let mut unknown = match self.keeps_unknown {
            true => Vec::new(),
            false => prune_object(&mut object.0, root).unknown,
        };
        // Wrong types have been refused.
        let below = coerce_embedded(&mut object.0, root, WrongTypes::Dropped);
        unknown.extend(below.unwrap_or_default());
        unknown
    }

    /// Returns the type by which fields have owners (CRD-220).
    pub fn value_type(&self) -> ValueType<'_> {
        self.schema.value_type(self.keeps_unknown)
    }

    /// Returns whether [`CustomSchema::set_defaults`] may change anything.
    pub fn has_defaults(&self) -> bool {
        has_defaults(self.schema.root())
    }

    /// Applies the defaults of the schema (CRD-135). A second call changes nothing. Returns whether
    /// anything changed.
    pub fn set_defaults(&self, object: &mut Object) -> bool {
        set_defaults(&mut object.0, self.schema.root())
    }

    /// Brings an object that was read from storage, in the version in which it is stored, into the
    /// form that clients see: malformed metadata and unknown members are dropped, and defaults
    /// apply (CRD-131, CRD-137, CRD-121).
    pub fn complete_stored(&self, object: &mut Object) {
        let root = self.schema.root();
        if let Some(metadata) = object.0.get_mut("metadata") {
            // Members of wrong types are dropped; metadata of a wrong type becomes empty.
            if coerce_metadata(metadata, WrongTypes::Dropped).is_err() {
                *metadata = Value::Object(Map::new());
            }
            let metadata = metadata.as_object_mut();
            if let Some(metadata) = metadata {
                metadata.entry("generation").or_insert_with(|| 1.into());
            }
        }
        if !self.keeps_unknown {
            prune_object(&mut object.0, root);
        }
        // It drops wrong types, so it cannot fail.
        let _ = coerce_embedded(&mut object.0, root, WrongTypes::Dropped);
        set_defaults(&mut object.0, root);
    }

    /// Drops the members of a converted object that this version does not have (CRD-137, CRD-138,
    /// CRD-205). Does not apply defaults.
    pub fn prune_converted(&self, object: &mut Object) {
        let root = self.schema.root();
        if !self.keeps_unknown {
            prune_object(&mut object.0, root);
        }
        // It drops wrong types, so it cannot fail.
        let _ = coerce_embedded(&mut object.0, root, WrongTypes::Dropped);
    }

    /// Brings an object into the canonical form that keeps the empty lists and maps of metadata
    /// selected by `empty`. Returns whether it kept any. Numbers get the form in which they are
    /// stored and read again (CRD-117), but not before validation, which distinguishes `1.0` from
    /// `1`.
    pub fn canonicalize(&self, object: &mut Object, empty: Empty) -> bool {
        if empty != Empty::Distinguished {
            canonicalize_numbers(&mut object.0);
        }
        let of = untyped();
        let found = of.found();
        found.is_some_and(|(schema, id)| schema.canonicalize_with(id, &mut object.0, empty))
    }

    // Writing.

    /// Validates a new object, except kind, apiVersion, metadata, and rules in CEL (CRD-150 to
    /// CRD-159).
    pub fn validate(&self, object: &Object, errors: &mut ErrorList) -> Structure {
        let mut check = Check::new(errors);
        check.schema((&object.0).into(), None, self, None);
        check.scale(object, self, true);
        check.embedded(&object.0, self);
        check.lists(&object.0, None, self);
        check.result()
    }

    /// As [`CustomSchema::validate`], for an object that replaces the stored one. Errors of
    /// unchanged parts are exempt (CRD-160).
    pub fn validate_update(
        &self,
        object: &Object,
        stored: &Object,
        errors: &mut ErrorList,
    ) -> Structure {
        let mut check = Check::new(errors);
        let old = View::from(&stored.0);
        check.schema((&object.0).into(), Some(old), self, None);
        check.scale(object, self, true);
        check.embedded(&object.0, self);
        check.lists(&object.0, Some(&stored.0), self);
        check.result()
    }

    /// As [`CustomSchema::validate_update`], at the endpoint `status`: only the status is validated
    /// by the schema (CRD-186).
    pub fn validate_status_update(
        &self,
        object: &Object,
        stored: &Object,
        errors: &mut ErrorList,
    ) -> Structure {
        let mut check = Check::new(errors);
        if let Some(status) = object.0.get("status") {
            let old = stored.0.get("status").map(View::from);
            check.schema(status.into(), old, self, Some("status"));
        }
        check.scale(object, self, false);
        check.lists(&object.0, Some(&stored.0), self);
        check.result()
    }
}

/// The errors of an object, and whether any prevents the check of rules.
struct Check<'e> {
    errors: &'e mut ErrorList,
    is_broken: bool,
}

impl Check<'_> {
    fn new(errors: &mut ErrorList) -> Check<'_> {
        Check {
            errors,
            is_broken: false,
        }
    }

    fn result(&self) -> Structure {
        Structure::of(self.is_broken)
    }

    fn push(&mut self, error: FieldError) {
        self.is_broken |= prevents_rules(error.kind);
        self.errors.push(error);
    }

    /// Validates an object, or a part of it with this name, by its schema.
    fn schema(
        &mut self,
        value: View<'_>,
        old: Option<View<'_>>,
        custom: &CustomSchema,
        part: Option<&str>,
    ) {
        let root = custom.schema.root();
        let schema = match part {
            None => root,
            Some(name) => match root.property(name) {
                Some(schema) => schema,
                None => return,
            },
        };
        let budget = Budget::of_instance(value);
        for fault in validate_value(value, old, schema, &budget) {
            self.push(fault.into_error(part));
        }
        if let Some(why) = budget.refusal() {
            self.push(FieldError::forbidden(NO_PATH, why));
            // The rest of the object is unknown.
            self.is_broken = true;
        }
    }

    fn scale(&mut self, object: &Object, custom: &CustomSchema, with_spec: bool) {
        if let Some(paths) = &custom.scale {
            for error in paths.errors(object, with_spec) {
                self.push(error);
            }
        }
    }

    fn embedded(&mut self, members: &Map<String, Value>, custom: &CustomSchema) {
        let errors = ErrorList::of(|errors| {
            validate_embedded_objects(members, custom.schema.root(), errors);
        });
        for error in errors.iter() {
            self.push(error.clone());
        }
    }

    /// Validates sets and maps, unless the stored object has an invalid one anywhere (CRD-155).
    fn lists(
        &mut self,
        members: &Map<String, Value>,
        stored: Option<&Map<String, Value>>,
        custom: &CustomSchema,
    ) {
        let root = custom.schema.root();
        if stored.is_none_or(|stored| has_valid_lists(stored, root)) {
            validate_list_types(members, root, self.errors);
        }
    }
}

#[cfg(test)]
mod tests;
