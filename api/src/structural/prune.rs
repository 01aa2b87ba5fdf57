//! Pruning of members that a schema does not specify (CRD-125 to CRD-129), with reports of them
//! (CRD-225, CRD-227).

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use crate::field_validation::{Place, StrictDecodingError, StrictDecodingErrors};

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// Returns whether every object has a member of this name.
pub(super) fn is_object_member(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The result of pruning.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Whether anything was dropped.
    pub has_changes: bool,
    /// The members that were dropped, sorted by path, at most as many as a response reports.
    pub unknown: Vec<StrictDecodingError>,
}

/// Drops the members of a whole object that the schema does not specify, except apiVersion, kind
/// and metadata. Also drops each null that is neither valid nor replaced by a default (CRD-135).
pub fn prune_object(members: &mut Map<String, Value>, schema: Node<'_>) -> Pruned {
    let mut pruning = Pruning {
        drops_nulls: true,
        has_changes: false,
        errors: StrictDecodingErrors::default(),
    };
    pruning.members(members, Some(schema), true, &Place::Top);
    pruning.finish()
}

/// Drops the unspecified members of a value. `is_object` says that the value is a whole object.
/// Returns whether anything was dropped.
pub fn prune(value: &mut Value, schema: Node<'_>, is_object: bool) -> bool {
    let mut pruning = Pruning {
        drops_nulls: false,
        has_changes: false,
        errors: StrictDecodingErrors::default(),
    };
    match value {
        Value::Object(members) => {
            let is_object = is_object || schema.is_embedded();
            pruning.members(members, Some(schema), is_object, &Place::Top);
        }
        value => pruning.value(value, Some(schema), &Place::Top),
    }
    pruning.has_changes
}

struct Pruning {
    drops_nulls: bool,
    has_changes: bool,
    errors: StrictDecodingErrors,
}

impl Pruning {
    fn finish(self) -> Pruned {
        let mut unknown = self.errors.into_vec();
        unknown.sort_by_cached_key(StrictDecodingError::to_string);
        Pruned {
            has_changes: self.has_changes,
            unknown,
        }
    }

    /// Prunes a value. Objects without a schema become empty.
    fn value(&mut self, value: &mut Value, schema: Option<Node<'_>>, at: &Place<'_>) {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return;
        }
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match (value, schema) {
            (value, Some(schema)) if schema.keeps_unknown() => self.open(value, schema, at),
            (Value::Object(members), schema) => {
                let is_object = schema.is_some_and(|schema| schema.is_embedded());
                self.members(members, schema, is_object, at);
            }
            (Value::Array(items), schema) => {
                let of = schema.and_then(|schema| schema.items());
                for (place, item) in items.iter_mut().enumerate() {
                    self.value(item, of, &Place::Item(at, place));
                }
            }
            _ => {}
        });
    }

    /// Prunes a value that keeps unknown members: only its specified members are pruned. So are
    /// those of its items, if it is a list.
    fn open(&mut self, value: &mut Value, schema: Node<'_>, at: &Place<'_>) {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match (value, schema.items()) {
            (Value::Object(members), _) => {
                self.open_members(members, schema, schema.is_embedded(), at);
            }
            (Value::Array(items), Some(of)) => {
                for (place, item) in items.iter_mut().enumerate() {
                    self.open(item, of, &Place::Item(at, place));
                }
            }
            _ => {}
        });
    }

    fn members(
        &mut self,
        members: &mut Map<String, Value>,
        schema: Option<Node<'_>>,
        is_object: bool,
        at: &Place<'_>,
    ) {
        let Some(schema) = schema else {
            for name in members.keys() {
                let place = Place::Member(at, name);
                self.errors.note(StrictDecodingError::Unknown, place);
            }
            self.has_changes |= !members.is_empty();
            members.clear();
            return;
        };
        if schema.keeps_unknown() {
            self.open_members(members, schema, is_object, at);
            return;
        }
        let has_others = !matches!(schema.additional(), Additional::Unsaid);
        let is_top = matches!(at, Place::Top);
        members.retain(|name, value| {
            if is_object && is_object_member(name) {
                return is_top || !self.is_dropped_null(value, schema.property(name));
            }
            let place = Place::Member(at, name);
            let of = schema.member(name);
            if of.is_none() && !has_others {
                if !is_top || !is_object_member(name) {
                    self.errors.note(StrictDecodingError::Unknown, place);
                }
                self.has_changes = true;
                return false;
            }
            self.member(value, of, &place)
        });
    }

    /// Prunes the members of an object that keeps unknown ones: only specified ones are pruned.
    fn open_members(
        &mut self,
        members: &mut Map<String, Value>,
        schema: Node<'_>,
        is_object: bool,
        at: &Place<'_>,
    ) {
        let has_others = !matches!(schema.additional(), Additional::Unsaid);
        let is_top = matches!(at, Place::Top);
        members.retain(|name, value| {
            if is_object && is_object_member(name) {
                return is_top || !self.is_dropped_null(value, schema.property(name));
            }
            let of = schema.member(name);
            if of.is_none() && !has_others {
                return true;
            }
            self.member(value, of, &Place::Member(at, name))
        });
    }

    /// Returns whether a member is a null that is neither valid nor replaced by a default.
    fn is_dropped_null(&self, value: &Value, of: Option<Node<'_>>) -> bool {
        let is_invalid = |of: Node<'_>| !of.is_nullable() && of.default().is_none();
        self.drops_nulls && value.is_null() && of.is_some_and(is_invalid)
    }

    /// Prunes a member. Returns whether it stays.
    fn member(&mut self, value: &mut Value, of: Option<Node<'_>>, at: &Place<'_>) -> bool {
        if self.is_dropped_null(value, of) {
            self.has_changes = true;
            return false;
        }
        self.value(value, of, at);
        true
    }
}
