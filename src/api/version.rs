//! Resource versions as requests name them.

use actors::engine::Revision;

use crate::api::field_error::go_quote;

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
/// What is wrong with it; whether that is a 400 or a plain 500 depends on the verb (ST-17).
pub fn parse_version(text: &str) -> Result<Asked, String> {
    if text.is_empty() {
        return Ok(Asked::Unset);
    }
    // The library takes a plus sign, Kubernetes doesn't.
    let unsigned = !text.starts_with('+');
    match text.parse::<u64>() {
        Ok(0) if unsigned => Ok(Asked::Any),
        Ok(version) if unsigned => Ok(Asked::At(Revision(version))),
        _ => Err(format!(
            "invalid resource version: {} is no decimal number of 64 bits",
            go_quote(text)
        )),
    }
}
