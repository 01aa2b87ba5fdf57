//! Single values as Go reads and prints them, for whoever has a tree already.

use super::go_time::Decimals;
use super::{go_duration, scalar, tree};
use crate::schema::Type;
use serde_json::Value;

/// A time in whole seconds. The zero time is none.
///
/// # Errors
/// Why it is none, in the words of Go.
pub fn time(text: &str) -> Result<Option<String>, String> {
    scalar::time(text, Decimals::Any)
}

/// A time with six decimals. The zero time is none.
///
/// # Errors
/// Why it is none, in the words of Go.
pub fn micro_time(text: &str) -> Result<Option<String>, String> {
    scalar::time(text, Decimals::Six)
}

/// A duration.
///
/// # Errors
/// Why it is none, in the words of Go.
pub fn duration(text: &str) -> Result<String, String> {
    go_duration::canonical(text)
}

/// Base64 in its canonical form.
///
/// # Errors
/// Where it is none, in the words of Go.
pub fn base64(text: String) -> Result<String, String> {
    scalar::base64(text)
}

/// What null means in a list or a map of this type.
pub fn zero(of: &Type) -> Value {
    tree::zero(of)
}
