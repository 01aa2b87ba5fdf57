//! The lowest layer: texts in messages, and texts inside of values as Go reads and prints them.

pub(crate) mod base64;
pub(crate) mod floats;
pub mod go_duration;
mod go_text;
pub(crate) mod go_time;
pub mod human_duration;
pub mod quoting;
pub mod truncation;
mod type_names;
pub mod url;

pub use go_text::{go_json_text, go_text};
pub(crate) use type_names::go_kind;
pub use type_names::json_type;
