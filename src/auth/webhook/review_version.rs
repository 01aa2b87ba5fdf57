//! The versions of reviews, and the errors of answers in others. Pure.

use crate::api::text::quoting::go_quote;

/// A version of the API of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the version of a name.
    pub fn of(name: &str) -> Option<ReviewVersion> {
        match name {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        }
    }

    /// Returns the first of these versions that is known (HK-19).
    pub fn first_known(names: &[String]) -> Option<ReviewVersion> {
        names.iter().find_map(|name| ReviewVersion::of(name))
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        }
    }

    /// Returns the version that an answer must not have.
    pub fn other(self) -> ReviewVersion {
        match self {
            ReviewVersion::V1 => ReviewVersion::V1Beta1,
            ReviewVersion::V1Beta1 => ReviewVersion::V1,
        }
    }

    /// Returns the error of an answer of this kind in the other version (HK-39).
    pub fn unknown_conversion(self, kind: &str) -> String {
        format!(
            "converting ({}.{kind}) to ({}.{kind}): unknown conversion",
            self.other().name(),
            self.name()
        )
    }
}

/// Returns the error of an answer that is not a review.
pub fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {} is registered for version {}",
        go_quote(kind),
        go_quote(api_version)
    )
}
