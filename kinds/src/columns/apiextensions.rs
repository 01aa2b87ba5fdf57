//! The columns of `apiextensions.k8s.io/v1` (http.md 6.4).

use api::resource::Column;

use super::plain;

/// Returns the columns of CustomResourceDefinitions.
pub fn customresourcedefinitions() -> Vec<Column> {
    plain()
}
