//! Kinds that need no code.

use std::sync::Arc;

use super::{Behaviour, Column, Rules, SelectableField};
use crate::schema::{ObjectType, untyped};

/// The behaviour of a kind that needs no code: rules, a type, columns and selectable fields.
/// Behaviours with code contain one for their declared part.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The rules.
    pub rules: Rules,
    /// The type of its objects.
    pub object_type: ObjectType,
    /// The columns of its Tables.
    pub columns: Vec<Column>,
    /// The fields for field selectors.
    pub selectable_fields: Vec<SelectableField>,
}

impl Default for Declared {
    /// Returns a kind of which only the metadata is known.
    fn default() -> Declared {
        Declared {
            rules: Rules::default(),
            object_type: untyped(),
            columns: vec![Column::name(), Column::age()],
            selectable_fields: Vec::new(),
        }
    }
}

impl Behaviour for Declared {
    fn declared(&self) -> &Declared {
        self
    }
}

impl From<Declared> for Arc<dyn Behaviour> {
    fn from(declared: Declared) -> Arc<dyn Behaviour> {
        Arc::new(declared)
    }
}
