//! JSON patches and JSON merge patches (4.2, 4.3), with limits on what they may cost.

use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;

/// The form of a patch, by its media type (4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
}

/// A patch that was read.
#[derive(Clone, Debug)]
pub enum Patch {
    /// A list of operations (RFC 6902).
    Json(json_patch::Patch),
    /// A document to merge (RFC 7386).
    Merge(serde_json::Map<String, serde_json::Value>),
}

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    /// 400 for what is no patch (API-160, API-162), 413 for too many operations (API-159).
    pub fn parse(kind: PatchKind, body: &[u8]) -> Result<Patch, Box<Status>> {
        let bad = |error: serde_json::Error| Box::new(Status::bad_request(error.to_string()));
        match kind {
            PatchKind::Json => serde_json::from_slice(body).map(Patch::Json).map_err(bad),
            PatchKind::Merge => serde_json::from_slice(body).map(Patch::Merge).map_err(bad),
        }
    }

    /// The object after the patch, with its types checked.
    ///
    /// # Errors
    /// 422 for an operation that fails, a copy that grows too much, a result that is no object of
    /// the kind (API-159 to API-162).
    pub fn apply(
        &self,
        object: &Object,
        definition: &ResourceDefinition,
    ) -> Result<Object, Box<Status>> {
        let mut patched = serde_json::Value::Object(object.0.clone());
        match self {
            Patch::Json(patch) => {
                json_patch::patch(&mut patched, patch).map_err(|_| Status::patch_failed())?;
            }
            Patch::Merge(patch) => {
                json_patch::merge(&mut patched, &serde_json::Value::Object(patch.clone()));
            }
        }
        match patched {
            serde_json::Value::Object(members) => {
                let mut object = Object(members);
                super::decode::normalize(&mut object, definition)
                    .map_err(|why| Status::patch_result_invalid(&object.0.clone().into(), &why))?;
                Ok(object)
            }
            other => Err(Box::new(Status::patch_result_invalid(
                &other,
                "not an object",
            ))),
        }
    }
}
