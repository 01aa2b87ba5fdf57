//! `apps/v1`.

use super::{names, status, with_status};
use crate::api::resource::{
    FieldPath, GenerationRule, MemberType, ResourceDefinition, UpdateChecks,
};

/// Deployments.
pub fn deployments() -> ResourceDefinition {
    let row = ResourceDefinition::named("apps", "v1", "Deployment", "deployments");
    ResourceDefinition {
        empty_members: concat!(
            r#","spec":{"replicas":0,"selector":null,"template":{"metadata":{},"#,
            r#""spec":{"containers":null}},"strategy":{}},"status":{}"#,
        )
        .to_owned(),
        short_names: names(&["deploy"]),
        categories: names(&["all"]),
        // A status update can't change labels (http.md 6.2).
        subresources: vec![status(&["spec", "metadata.labels"])],
        generation: GenerationRule::OnChangeOf(FieldPath::list(&["spec", "metadata.annotations"])),
        update_checks: UpdateChecks::Changes,
        member_types: MemberType::rows(&[
            ("spec", MemberType::Object),
            ("status", MemberType::Object),
        ]),
        ..with_status(row)
    }
}
