//! Resource versions as requests name them.

use actors::engine::Revision;

use crate::field_error::go_quote;
use crate::status::Status;

/// The version of a read, as the client gave it: `""`, `"0"` or a number (ST-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Unset: the newest state.
    #[default]
    Unset,
    /// `"0"`: any state in a cache.
    Any,
    /// At least this version, or exactly this one, depending on the match.
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
    /// `metadata.uid` must be this.
    pub uid: Option<String>,
    /// `metadata.resourceVersion` must be this.
    pub resource_version: Option<String>,
}

/// Why an object with another uid than that of a precondition is not written (API-100, ST-12).
pub fn uid_mismatch(wanted: &str, found: &str) -> String {
    format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")
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

/// As [`parse_version`], with the messages of the number parser.
fn parse(text: &str) -> Result<Asked, String> {
    use std::num::IntErrorKind;

    if text.is_empty() {
        return Ok(Asked::Unset);
    }
    let refuse = |why: &str| {
        let quoted = go_quote(text);
        Err(format!("strconv.ParseUint: parsing {quoted}: {why}"))
    };
    // The library accepts a plus sign, Kubernetes doesn't.
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

/// The version of a list (ST-17).
///
/// # Errors
/// 400 for an invalid version.
pub fn list_version(text: &str) -> Result<Asked, Box<Status>> {
    parse_version(text).map_err(|why| {
        Box::new(Status::bad_request(format!(
            "invalid resource version: {why}"
        )))
    })
}

/// The version in the object of an update (API-102).
///
/// # Errors
/// A plain 500 for an invalid version.
pub fn object_version(text: &str) -> Result<Asked, Box<Status>> {
    parse(text).map_err(|why| Box::new(Status::unknown(why)))
}

/// The version of a get or a watch (ST-17).
///
/// # Errors
/// A plain 500 for an invalid version.
pub fn read_version(text: &str) -> Result<Asked, Box<Status>> {
    parse_version(text).map_err(|why| Box::new(Status::unknown(why)))
}
