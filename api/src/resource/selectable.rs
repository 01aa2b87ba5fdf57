//! Fields for field selectors (http.md 6.3).

use super::{FieldPath, ResourceDefinition};
use crate::text::quoting::go_quote;

/// The error that a kind with selectable fields returns for other labels (API-86).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownLabels {
    /// That of most kinds.
    #[default]
    Plain,
    /// It names the kind.
    OfKind,
    /// It names the kind with group and version.
    OfVersion,
}

impl UnknownLabels {
    /// Returns the error for an unknown label.
    pub fn refusal(self, label: &str, definition: &ResourceDefinition) -> String {
        let (version, kind) = (definition.api_version(), &definition.kind);
        match self {
            UnknownLabels::Plain => format!("field label not supported: {label}"),
            UnknownLabels::OfKind => {
                let label = go_quote(label);
                format!("field label {label} not supported for {kind}")
            }
            UnknownLabels::OfVersion => {
                format!("field label not supported for {version}, Kind={kind}: {label}")
            }
        }
    }
}

/// A field for field selectors (http.md 6.3), in addition to `metadata.name` and
/// `metadata.namespace`. Its value is the first non-empty text at the paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The label in the selector: `spec.nodeName`.
    pub label: String,
    /// The paths of the value in the object.
    pub paths: Vec<FieldPath>,
    /// The value if the paths have none: `false` for booleans, which are never absent.
    pub absent: String,
    /// Whether watch caches keep an index, so that a list that requires a value reads only the
    /// objects that have it. Worth it where clients list few of many objects by this field.
    pub indexed: bool,
    /// Whether selectors may use it. Versions of a resource share one list of fields, of which each
    /// may offer others (CRD-198).
    pub is_offered: bool,
}

impl SelectableField {
    /// Returns a field whose value is a text at one of these paths, written with dots.
    pub fn text(label: &str, paths: &[&str]) -> SelectableField {
        SelectableField {
            label: label.to_owned(),
            paths: FieldPath::list(paths),
            absent: String::new(),
            indexed: false,
            is_offered: true,
        }
    }

    /// Returns the field with an index.
    pub fn indexed(self) -> SelectableField {
        SelectableField {
            indexed: true,
            ..self
        }
    }

    /// Returns a field whose value is the integer at this path, 0 if absent.
    pub fn number(label: &str, path: &str) -> SelectableField {
        SelectableField {
            absent: "0".to_owned(),
            ..SelectableField::text(label, &[path])
        }
    }

    /// Returns a field whose value is the boolean at the path of its label, false if absent.
    pub fn flag(label: &str) -> SelectableField {
        SelectableField {
            absent: "false".to_owned(),
            ..SelectableField::text(label, &[label])
        }
    }
}
