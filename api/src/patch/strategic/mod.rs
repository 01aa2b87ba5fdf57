//! Strategic merge patches (http.md 4.4).
//!
//! Contains the merging of a patch into an object by the types of its fields, with the directives
//! of patches and the errors of both. Input is a document and an object; the result is an object of
//! the type with its unknown members. Nothing here knows kinds, storage or retries. The result
//! agrees with Kubernetes as far as clients can see: kubectl and controllers depend on the order of
//! merged lists and on error texts.

mod directives;
mod lists;
mod lookup;
mod merge;
mod order;
mod printed;
mod refusal;

use serde_json::{Map, Value};

use self::lookup::Of;
use self::printed::Members;
use super::{PatchError, Patched};
use crate::decode::{BodyFormat, decode_value, from_unstructured};
use crate::field_validation::{FieldValidation, StrictDecodingError, strict_decoding_error};
use crate::go_json;
use crate::object::Object;
use crate::resource::ResourceDefinition;

/// A parsed strategic merge patch.
#[derive(Clone, Debug)]
pub struct StrategicPatch {
    members: Map<String, Value>,
    /// Duplicate members.
    duplicates: Vec<StrictDecodingError>,
}

impl StrategicPatch {
    /// Parses a patch.
    ///
    /// # Errors
    /// 400 for a body that is not a JSON object (API-166).
    pub fn parse(body: &[u8]) -> Result<StrategicPatch, PatchError> {
        let (value, duplicates) = decode_value(body, BodyFormat::Json)
            .map_err(|why| PatchError::Unreadable(go_json::object_error(body).unwrap_or(why)))?;
        let members = match value {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            _ => {
                let why = go_json::object_error(body).unwrap_or_default();
                return Err(PatchError::Unreadable(why));
            }
        };
        Ok(StrategicPatch {
            members,
            duplicates,
        })
    }

    /// Returns whether the result may depend on a member of the object's metadata.
    pub(super) fn touches(&self, member: &str) -> bool {
        const DIRECTIVES: [&str; 2] = ["$patch", "$retainKeys"];
        let has_directive = |members: &Map<String, Value>| {
            DIRECTIVES.iter().any(|name| members.contains_key(*name))
        };
        let of_metadata = match self.members.get("metadata") {
            Some(Value::Object(metadata)) => {
                metadata.contains_key(member) || has_directive(metadata)
            }
            other => other.is_some(),
        };
        of_metadata || has_directive(&self.members)
    }

    /// Merges the patch into an object and checks the types of the result. Kind and apiVersion stay
    /// as they are, even if the patch changes them. Unknown members are dropped.
    ///
    /// # Errors
    /// 500, 400 or 422 for a patch that can't be merged (API-164 to API-166); 422 for a result of a
    /// wrong type, and under strict validation for unknown and duplicate members (API-156).
    pub fn apply(
        &self,
        object: &Object,
        definition: &ResourceDefinition,
        validation: FieldValidation,
    ) -> Result<Patched, PatchError> {
        let found = definition.object_type().found();
        let found = found.and_then(|(schema, id)| Some((schema, id, schema.get(id)?)));
        let Some((schema, id, of)) = found else {
            return Err(PatchError::UnknownType);
        };
        let mut patch = self.members.clone();
        let mut members = object.0.clone();
        merge::merge(&mut members, &mut patch, Of::Struct(schema, of, false))?;
        let refused = |why: &str| PatchError::invalid_result(Members(&patch), why);
        let forgets_managers = has_no_managers(&members);
        let unknown = from_unstructured(schema, id, &mut members).map_err(|why| refused(&why))?;
        let mut faults = self.duplicates.clone();
        faults.extend(unknown);
        let mut object = Object::of(members);
        object.set_type(&definition.kind, &definition.api_version());
        faults.extend(definition.behaviour.prune(&mut object));
        if validation == FieldValidation::Strict && !faults.is_empty() {
            return Err(refused(&strict_decoding_error(&faults)));
        }
        if let Some(why) = definition.behaviour.why_unreadable(&object) {
            return Err(PatchError::Unmergeable(why));
        }
        if forgets_managers {
            let metadata = object.metadata_mut();
            metadata.insert("managedFields".to_owned(), Value::Array(Vec::new()));
        }
        Ok(Patched { object, faults })
    }
}

/// Returns whether an object resets its managedFields (API-188), as opposed to not mentioning them.
fn has_no_managers(members: &Map<String, Value>) -> bool {
    let metadata = members.get("metadata");
    let managers = metadata.and_then(|metadata| metadata.get("managedFields"));
    managers
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
}
