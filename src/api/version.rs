//! Resource versions as requests name them.

use actors::engine::Revision;

use crate::api::field_error::go_quote;
use crate::api::status::Status;

/// The version that a read asks for, as the client gave it: `""`, `"0"` or a number (ST-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Unset: the newest state.
    #[default]
    Unset,
    /// `"0"`: any state that a cache holds.
    Any,
    /// At least this one, or exactly, as the match says.
    At(Revision),
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// The state at that version and no other.
    Exact,
    /// That version or a newer one.
    NotOlderThan,
}

/// What a write demands of the object it finds (ST-41, API-100).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// `metadata.uid` must be this.
    pub uid: Option<String>,
    /// `metadata.resourceVersion` must be this.
    pub resource_version: Option<String>,
}

/// The text of a `resourceVersion` as a version (ST-6).
///
/// # Errors
/// What is wrong with it. Whether that is a 400 or a plain 500 depends on the verb (ST-17), see
/// [`list_version`] and [`read_version`].
pub fn parse_version(text: &str) -> Result<Asked, String> {
    parse(text).map_err(|why| {
        let quoted = go_quote(text);
        format!("resourceVersion: Invalid value: {quoted}: {why}")
    })
}

/// The same, told in the words of the parser of numbers.
fn parse(text: &str) -> Result<Asked, String> {
    use std::num::IntErrorKind;

    if text.is_empty() {
        return Ok(Asked::Unset);
    }
    let refuse = |why: &str| {
        let quoted = go_quote(text);
        Err(format!("strconv.ParseUint: parsing {quoted}: {why}"))
    };
    // The library takes a plus sign, Kubernetes doesn't.
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
/// 400 for what is no version.
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
/// A plain 500 for what is no version.
pub fn object_version(text: &str) -> Result<Asked, Box<Status>> {
    parse(text).map_err(|why| Box::new(Status::unknown(why)))
}

/// The version of a get or a watch (ST-17).
///
/// # Errors
/// A plain 500 for what is no version.
pub fn read_version(text: &str) -> Result<Asked, Box<Status>> {
    parse_version(text).map_err(|why| Box::new(Status::unknown(why)))
}
