//! Structs as faults show them.

pub use crate::types::internal::{
    any_json, html_safe, internal_json, internal_list_json, internal_schemas_json, invalid_struct,
};
