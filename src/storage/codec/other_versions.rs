//! Values that are stored in other versions of their kind than the one that is stored today.

use actors::engine::{Key, Revision};
use actors::object::DecodeError;
use jiff::Timestamp;
use serde::Deserialize;

use super::Codec;
use crate::api::deep;
use crate::api::object::Object;

/// The beginning of a value that was converted from a former version on its way up, complete and in
/// the version of today. No stored value begins like this.
pub(in crate::storage) const CONVERTED: &[u8] = b" ";

/// The type of a value.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    kind: String,
    api_version: String,
}

impl Codec {
    /// Returns the stored form of the object in a value, if the value has another version than the
    /// configured one, or lacks defaults. Returns `None` for other values.
    ///
    /// # Errors
    /// [`DecodeError`] for a value of another version that is not an object of the resource.
    pub fn renewed(
        &self,
        key: &Key,
        revision: Revision,
        value: &[u8],
        now: Timestamp,
    ) -> Result<Option<Vec<u8>>, DecodeError> {
        let is_other = value.starts_with(CONVERTED)
            || !value.starts_with(&self.head) && self.is_of_other_version(value);
        if !is_other && !self.definition.behaviour.has_defaults() {
            return Ok(None);
        }
        let (object, is_filled) = match self.read(key, revision, value, false) {
            Ok(read) => read,
            Err(error) if is_other => return Err(error),
            // A read of the object reports it.
            Err(_) => return Ok(None),
        };
        if is_other {
            return Ok(Some(self.stored_form(&object)));
        }
        let lacks = !is_filled && !self.is_complete(&object);
        let filled = lacks.then(|| self.filled_in(key, &object, now).ok());
        let filled = filled.flatten().flatten();
        Ok(filled.map(|object| self.stored_form(&object)))
    }

    /// Returns the object in a value of another version of its kind, with its `apiVersion`.
    pub(in crate::storage) fn other_version(&self, value: &[u8]) -> Option<(String, Object)> {
        if value.starts_with(&self.head) {
            return None;
        }
        let found = serde_json::from_slice::<Typed>(value).ok()?;
        let is_other = found.kind == self.definition.kind
            && found.api_version != self.definition.api_version();
        if !is_other {
            return None;
        }
        let reading = || Object::read(value).map_err(|error| error.to_string());
        let object = deep::retry_with_room(reading).ok()?;
        Some((found.api_version, object))
    }

    /// Returns whether a value has a former version of its kind that is not the configured one.
    fn is_of_other_version(&self, value: &[u8]) -> bool {
        let found = deep::retry_with_room(|| self.type_of(value));
        let stored = self.form.as_ref().map(|form| &form.stored);
        found.is_ok_and(|found| self.former(&found).is_some() && stored != Some(&found))
    }
}
