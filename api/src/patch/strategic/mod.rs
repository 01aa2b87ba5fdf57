//! Strategic merge patches (http.md 4.4).
//!
//! This folder owns the merging of a patch into an object by the types of its fields, with the
//! directives that patches may have, and the refusals of both. A document and an object enter; an
//! object of the type leaves, with the members that the type doesn't have. It must not know kinds,
//! storage or retries. It is as exact as clients can see: kubectl and controllers depend on the
//! order of merged lists, and on the texts of refusals.

mod lists;
mod lookup;
mod maps;
mod order;
mod printed;
mod refusal;

use serde_json::{Map, Value};

use self::lookup::Of;
use self::printed::Members;
use crate::decode::{
    BodyFormat, FieldFault, decode_value, from_unstructured, strict_decoding_error,
};
use crate::go_json;
use crate::object::Object;
use crate::options::FieldValidation;
use crate::patch::Patched;
use crate::resource::ResourceDefinition;
use crate::status::Status;

/// A strategic merge patch that was read.
#[derive(Clone, Debug)]
pub struct StrategicPatch {
    members: Map<String, Value>,
    /// Members that were given more than once.
    duplicates: Vec<FieldFault>,
}

impl StrategicPatch {
    /// Reads a patch.
    ///
    /// # Errors
    /// 400 for what is no JSON object (API-166).
    pub fn parse(body: &[u8]) -> Result<StrategicPatch, Box<Status>> {
        let bad = |why: String| Box::new(Status::bad_request(why));
        let (value, duplicates) = decode_value(body, BodyFormat::Json)
            .map_err(|why| bad(go_json::object_error(body).unwrap_or(why)))?;
        let members = match value {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            _ => return Err(bad(go_json::object_error(body).unwrap_or_default())),
        };
        Ok(StrategicPatch {
            members,
            duplicates,
        })
    }

    /// Whether the result may depend on a member of the metadata of the object that is patched.
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
    /// what they are, whatever the patch says. Unknown members are dropped.
    ///
    /// # Errors
    /// 500, 400 or 422 for a patch that can't be merged (API-164 to API-166), 422 for a result of
    /// a wrong type, and for unknown and duplicate members if validation is strict (API-156).
    pub fn apply(
        &self,
        object: &Object,
        definition: &ResourceDefinition,
        validation: FieldValidation,
    ) -> Result<Patched, Box<Status>> {
        let found = definition.object_type.found();
        let found = found.and_then(|(schema, id)| Some((schema, id, schema.get(id)?)));
        let Some((schema, id, of)) = found else {
            return Err(Box::new(Status::internal(
                "the type of the object is unknown",
            )));
        };
        let mut patch = self.members.clone();
        let mut members = object.0.clone();
        maps::merge(&mut members, &mut patch, Of::Struct(schema, of, false))?;
        let refused = |why: &str| Box::new(Status::patch_result_invalid(Members(&patch), why));
        let forgets_managers = has_no_managers(&members);
        let unknown = from_unstructured(schema, id, &mut members).map_err(|why| refused(&why))?;
        let mut faults = self.duplicates.clone();
        faults.extend(unknown);
        if validation == FieldValidation::Strict && !faults.is_empty() {
            return Err(refused(&strict_decoding_error(&faults)));
        }
        let mut object = Object::of(members);
        object.set_type(&definition.kind, &definition.api_version());
        if let Some(why) = definition.why_unreadable(&object) {
            return Err(Box::new(Status::unknown(why)));
        }
        if forgets_managers {
            let metadata = object.metadata_mut();
            metadata.insert("managedFields".to_owned(), Value::Array(Vec::new()));
        }
        Ok(Patched { object, faults })
    }
}

/// Whether an object says that nobody manages its fields (API-188), which is told from saying
/// nothing.
fn has_no_managers(members: &Map<String, Value>) -> bool {
    let metadata = members.get("metadata");
    let managers = metadata.and_then(|metadata| metadata.get("managedFields"));
    managers
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
}
