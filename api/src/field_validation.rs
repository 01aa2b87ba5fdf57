//! Field validation: strict decoding errors (unknown and duplicate members) in bounded lists, and
//! their treatment (API-90).

use std::fmt::{self, Write as _};

use crate::text::quoting::go_quote;
use crate::text::truncation::truncated_display;
use crate::warnings::Warnings;

/// The most paths that are reported, as in kube-apiserver (API-90).
const MAX_PATHS: usize = 100;

/// Longer paths are cut. The longest legitimate paths are annotation keys, with 317 bytes.
const MAX_PATH_BYTES: usize = 1024;

/// The limit on all paths of one document together. The last path may exceed it.
const MAX_TOTAL_BYTES: usize = 16 * 1024;

/// `fieldValidation` (API-90).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate members are accepted silently.
    Ignore,
    /// They are accepted with warnings.
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

/// A strict decoding error: a member that strict decoding rejects (API-90).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictDecodingError {
    /// The type has no such field, so the member was dropped. Contains the path: `metadata.colour`.
    Unknown(String),
    /// The member occurs more than once; the last one counts. Contains the path: `data.k`.
    Duplicate(String),
    /// As `Duplicate`, in YAML. Contains the line and the name: `line 4: key "k" already set in
    /// map`.
    Repeated(String),
    /// One of these errors in the text of a JSON patch.
    OfJsonPatch(Box<StrictDecodingError>),
}

impl fmt::Display for StrictDecodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictDecodingError::Unknown(path) => write!(f, "unknown field {}", go_quote(path)),
            StrictDecodingError::Duplicate(path) => write!(f, "duplicate field {}", go_quote(path)),
            StrictDecodingError::Repeated(text) => f.write_str(text),
            StrictDecodingError::OfJsonPatch(error) => write!(f, "json patch {error}"),
        }
    }
}

/// Returns the message of a strict decoding error, which lists all of them (API-90). Those of YAML
/// come first, each on its own line.
pub fn strict_decoding_error(errors: &[StrictDecodingError]) -> String {
    let mut text = "strict decoding error: ".to_owned();
    let mut before = "yaml: unmarshal errors:\n  ";
    let (of_yaml, others): (Vec<_>, Vec<_>) = errors
        .iter()
        .partition(|error| matches!(error, StrictDecodingError::Repeated(_)));
    for error in &of_yaml {
        let _ = write!(text, "{before}{error}");
        before = "\n  ";
    }
    before = if of_yaml.is_empty() { "" } else { ", " };
    for error in others {
        let _ = write!(text, "{before}{error}");
        before = ", ";
    }
    text
}

/// Applies the field validation that the client requested: ignores strict decoding errors, adds
/// them as warnings, or refuses the request (API-90, API-156).
///
/// # Errors
/// The error that `refuse` makes of the message about all strict decoding errors.
pub fn apply_field_validation<E>(
    errors: &[StrictDecodingError],
    validation: FieldValidation,
    warnings: &Warnings,
    refuse: impl FnOnce(&str) -> E,
) -> Result<(), E> {
    match validation {
        FieldValidation::Strict if !errors.is_empty() => {
            return Err(refuse(&strict_decoding_error(errors)));
        }
        FieldValidation::Warn => errors
            .iter()
            .for_each(|error| warnings.add(error.to_string())),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    Ok(())
}

/// Collects strict decoding errors, each once and within the limits above.
#[derive(Debug, Default)]
pub struct StrictDecodingErrors {
    kept: Vec<StrictDecodingError>,
    bytes: usize,
}

impl StrictDecodingErrors {
    /// Records an error at a path unless the limits are reached. Formats the path only then and
    /// only up to its limit, because a document may have many paths that are as long as the
    /// document itself.
    pub fn note(&mut self, error: fn(String) -> StrictDecodingError, path: impl fmt::Display) {
        if self.kept.len() >= MAX_PATHS || self.bytes >= MAX_TOTAL_BYTES {
            return;
        }
        let path = truncated_display(path, MAX_PATH_BYTES);
        let bytes = path.len();
        let error = error(path);
        if !self.kept.contains(&error) {
            self.bytes += bytes;
            self.kept.push(error);
        }
    }

    /// Returns the errors in the order in which they were recorded.
    pub fn into_vec(self) -> Vec<StrictDecodingError> {
        self.kept
    }
}

/// The path of a value in its document. It borrows the names on the way, so it costs nothing until
/// it is formatted.
#[derive(Clone, Copy, Debug)]
pub enum Place<'p> {
    /// The document itself.
    Top,
    /// A member of an object.
    Member(&'p Place<'p>, &'p str),
    /// An item of a list.
    Item(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path may have ten thousand steps, too many for recursion on a small stack.
        let steps = std::iter::successors(Some(self), |step| match step {
            Place::Top => None,
            Place::Member(above, _) | Place::Item(above, _) => Some(above),
        });
        let steps: Vec<&Place<'_>> = steps.collect();
        for step in steps.into_iter().rev() {
            match step {
                Place::Top => {}
                Place::Member(Place::Top, name) => f.write_str(name)?,
                Place::Member(_, name) => write!(f, ".{name}")?,
                Place::Item(_, index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_formatted_as_in_kubernetes_api_149() {
        let spec = Place::Member(&Place::Top, "spec");
        let ports = Place::Member(&spec, "ports");
        let first = Place::Item(&ports, 0);
        assert_eq!(
            Place::Member(&first, "name").to_string(),
            "spec.ports[0].name"
        );
        assert_eq!(Place::Item(&Place::Top, 3).to_string(), "[3]");
    }

    #[test]
    fn paths_are_bounded_in_number_in_length_and_together_api_90() {
        let mut short = StrictDecodingErrors::default();
        for path in 0..1000 {
            short.note(StrictDecodingError::Unknown, path % 500);
        }
        assert_eq!(short.into_vec().len(), 100);

        let mut long = StrictDecodingErrors::default();
        let name = "n".repeat(1 << 20);
        for path in 0..1000 {
            long.note(
                StrictDecodingError::Duplicate,
                format_args!("{path}.{name}"),
            );
        }
        let long: Vec<String> = long
            .into_vec()
            .iter()
            .map(StrictDecodingError::to_string)
            .collect();
        assert!(long.iter().all(|path| path.len() <= MAX_PATH_BYTES + 30));
        let total: usize = long.iter().map(String::len).sum();
        assert!(total < MAX_TOTAL_BYTES + 3 * MAX_PATH_BYTES, "{total}");
    }
}
