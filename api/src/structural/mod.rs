//! The schemas of custom resources: structural JSON schemas, in which the type of each value is
//! known without looking at values (crd.md 2.3, 2.4).
//!
//! Contains their compiled form, and what a server does by them with objects: pruning, defaulting,
//! validation with ratcheting, and ownership of fields. The schemas have been checked to be
//! structural when their definition was validated; nothing here knows kinds. A compiled schema is
//! immutable and made once for each version of a definition.

mod budget;
mod canonical;
mod check;
mod classes;
mod compile;
mod defaults;
mod faults;
mod formats;
mod internet;
mod keyed_path;
mod kind;
mod list_types;
mod node;
mod numbers;
mod numeric;
mod owned;
pub mod pattern;
mod patterns;
mod prune;
mod ratchet;
mod values;
mod view;

pub use self::budget::Budget;
pub(crate) use self::budget::json_bytes;
pub use self::canonical::canonicalize_numbers;
pub(crate) use self::canonical::printed;
pub use self::defaults::{has_defaults, set_defaults};
pub use self::faults::{NO_PATH, Shown, ValueFault, ValueFaultKind};
pub use self::formats::is_text_format;
pub(crate) use self::keyed_path::KeyedPath;
pub use self::kind::SchemaKind;
pub use self::list_types::{has_valid_lists, validate_list_types};
pub use self::node::{Additional, ListType, Node, StructuralSchema, ValueRules};
pub(crate) use self::numbers::cut;
pub use self::prune::{Pruned, prune, prune_object};
pub use self::ratchet::{OldItems, is_same};
pub use self::values::{validate_default, validate_value};
pub use self::view::View;
