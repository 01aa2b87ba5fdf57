//! `apps/v1`.

use super::{names, status, typed, with_status};
use api::resource::{FieldPath, GenerationRule, ResourceDefinition, UpdateChecks};

/// Deployments.
pub fn deployments() -> ResourceDefinition {
    let row = typed("apps.v1.Deployment", "apps", "deployments");
    ResourceDefinition {
        short_names: names(&["deploy"]),
        categories: names(&["all"]),
        // A status update can't change labels (http.md 6.2).
        subresources: vec![status(&["spec", "metadata.labels"])],
        generation: GenerationRule::OnChangeOf(FieldPath::list(&["spec", "metadata.annotations"])),
        update_checks: UpdateChecks::Changes,
        ..with_status(row)
    }
}
