//! Checks and defaults of values that another program may have written.
//!
//! The fields of such a value may have other types than those of its kind, and it may lack defaults
//! that this program would have stored (KV-30). One scan of the JSON finds both. Only an object
//! that may lack something becomes a tree.

use actors::engine::{Key, Revision};
use actors::object::{CachedObject, DecodeError};
use jiff::Timestamp;
use serde_json::Value;

use super::{Codec, fault, object_of};
use crate::api::decode::type_value;
use crate::api::deep;
use crate::api::protobuf::{check_complete, check_json};

impl Codec {
    /// Decodes stored bytes as [`Codec::decode_stored`] does, and applies missing defaults (KV-30).
    /// With `is_foreign` it also checks the types of fields.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not an object of the resource, or if a field has another
    /// type, or a text that its type does not allow.
    pub fn decode_foreign(
        &self,
        key: &Key,
        revision: Revision,
        value: &[u8],
        is_foreign: bool,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<CachedObject, DecodeError> {
        let (object, is_filled) = self.read(key, revision, value, false)?;
        let has_defaults = !is_filled && self.definition.behaviour.has_defaults();
        let is_complete = match (is_foreign, has_defaults) {
            (true, _) => self.check(key, &object)? || !has_defaults,
            (false, true) => self.is_complete(&object),
            (false, false) => true,
        };
        if is_complete {
            return Ok(object);
        }
        let filled = self.filled_in(key, &object, now())?;
        Ok(filled.unwrap_or(object))
    }

    /// Returns whether an object certainly has all defaults.
    pub(super) fn is_complete(&self, object: &CachedObject) -> bool {
        let completeness = self.definition.behaviour.completeness();
        let found = self.definition.object_type().found();
        let (Some(completeness), Some((schema, id))) = (completeness, found) else {
            return false;
        };
        check_complete(schema, id, &object.wire(), completeness).unwrap_or(false)
    }

    /// Returns an object with its defaults, as it would be if it had been stored with them, or
    /// `None` if it has them.
    pub(super) fn filled_in(
        &self,
        key: &Key,
        object: &CachedObject,
        now: Timestamp,
    ) -> Result<Option<CachedObject>, DecodeError> {
        let fill_in = || -> Result<CachedObject, DecodeError> {
            let mut tree = self.object_of(object)?;
            self.definition.fill_in_stored(&mut tree, now);
            self.served(key, object.revision, &tree)
                .map_err(|reason| fault(key, object.revision, reason))
        };
        let filled = deep::retry_with_room(fill_in)?;
        Ok((filled.wire() != object.wire()).then_some(filled))
    }

    /// Checks that the fields of an object that another server has stored have the types of its
    /// kind. Returns whether it certainly has all defaults.
    fn check(&self, key: &Key, object: &CachedObject) -> Result<bool, DecodeError> {
        let Some((schema, id)) = self.definition.object_type().found() else {
            return Ok(false);
        };
        let of = schema.get(id);
        if of.is_none_or(|of| of.is_open) {
            return Ok(false);
        }
        if of.is_some_and(|of| !of.is_message_throughout) {
            return self.check_types_of_tree(key, object).map(|()| false);
        }
        let checked = match self.definition.behaviour.completeness() {
            Some(completeness) => check_complete(schema, id, &object.wire(), completeness),
            None => check_json(schema, id, &object.wire()).map(|()| false),
        };
        checked.map_err(|error| {
            // Show no part of the value, which may be a secret.
            let at = error.column();
            let reason =
                format!("the field at byte {at} of its JSON is not of the type of its kind");
            fault(key, object.revision, reason)
        })
    }

    /// As [`Codec::check`], for types that have no form in protobuf.
    fn check_types_of_tree(&self, key: &Key, object: &CachedObject) -> Result<(), DecodeError> {
        let tree = Value::Object(object_of(object)?.into_document());
        let read = type_value(&tree, self.definition.object_type());
        match read.map(|read| read.refusal) {
            Ok(None) => Ok(()),
            // Show no part of the value, which may be a secret.
            Ok(Some(_)) | Err(_) => {
                let reason = "one of its fields is not of the type of its kind".to_owned();
                Err(fault(key, object.revision, reason))
            }
        }
    }
}
