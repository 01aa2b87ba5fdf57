//! The `resourceVersion` parameters and preconditions of requests.

use actors::engine::Revision;

use crate::text::quoting::go_quote;

/// The `resourceVersion` of a read, as the client sent it: `""`, `"0"` or a number (ST-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Unset: the newest state.
    #[default]
    Unset,
    /// `"0"`: any state in a cache.
    Any,
    /// At least this version, or exactly this one, depending on `resourceVersionMatch`.
    At(Revision),
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// Exactly the state at that version.
    Exact,
    /// That version or a newer one.
    NotOlderThan,
}

/// The conditions of a write on the stored object (ST-41, API-100).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The required `metadata.uid`.
    pub uid: Option<String>,
    /// The required `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

/// Returns the message for an object whose uid differs from that of a precondition (API-100,
/// ST-12).
pub fn uid_mismatch(wanted: &str, found: &str) -> String {
    format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")
}

/// The reason why a `resourceVersion` can't be read. The kind of request decides its status
/// (ST-17).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// That of a list.
    #[error("invalid resource version: {0}")]
    OfList(String),
    /// That of a get, a watch or an object.
    #[error("{0}")]
    OfOther(String),
}

/// Parses a `resourceVersion` (ST-6).
///
/// # Errors
/// The fault in the text. The verb decides whether it is a 400 or a plain 500 (ST-17), see
/// [`list_version`] and [`read_version`].
pub fn parse_version(text: &str) -> Result<Asked, String> {
    parse(text).map_err(|why| {
        let quoted = go_quote(text);
        format!("resourceVersion: Invalid value: {quoted}: {why}")
    })
}

/// As [`parse_version`], with the messages of Go's number parser.
fn parse(text: &str) -> Result<Asked, String> {
    use std::num::IntErrorKind;

    if text.is_empty() {
        return Ok(Asked::Unset);
    }
    let refuse = |why: &str| {
        let quoted = go_quote(text);
        Err(format!("strconv.ParseUint: parsing {quoted}: {why}"))
    };
    // Rust's parser accepts a plus sign, Go's `ParseUint` does not.
    if text.starts_with('+') {
        return refuse("invalid syntax");
    }
    match text.parse::<u64>() {
        Ok(0) => Ok(Asked::Any),
        Ok(version) => Ok(Asked::At(Revision(version))),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => refuse("value out of range"),
        Err(_) => refuse("invalid syntax"),
    }
}

/// Parses the `resourceVersion` of a list (ST-17).
///
/// # Errors
/// An invalid version, a 400.
pub fn list_version(text: &str) -> Result<Asked, VersionError> {
    parse_version(text).map_err(VersionError::OfList)
}

/// Parses the `resourceVersion` in the object of an update (API-102).
///
/// # Errors
/// An invalid version, a plain 500.
pub fn object_version(text: &str) -> Result<Asked, VersionError> {
    parse(text).map_err(VersionError::OfOther)
}

/// Parses the `resourceVersion` of a get or a watch (ST-17).
///
/// # Errors
/// An invalid version, a plain 500.
pub fn read_version(text: &str) -> Result<Asked, VersionError> {
    parse_version(text).map_err(VersionError::OfOther)
}
