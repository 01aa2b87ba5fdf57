//! `authorization.k8s.io/v1`. Nothing of it is stored.

use super::{cluster, typed, unstored};
use api::resource::ResourceDefinition;

const GROUP: &str = "authorization.k8s.io";

/// Reviews of what a user may do (API-292).
pub fn subjectaccessreviews() -> ResourceDefinition {
    let kind = "authorization.v1.SubjectAccessReview";
    unstored(cluster(kind, GROUP, "subjectaccessreviews"))
}

/// Reviews of what a user may do in a namespace (API-292).
pub fn localsubjectaccessreviews() -> ResourceDefinition {
    let kind = "authorization.v1.LocalSubjectAccessReview";
    unstored(typed(kind, GROUP, "localsubjectaccessreviews"))
}

/// Reviews of what the user who asks may do (API-292).
pub fn selfsubjectaccessreviews() -> ResourceDefinition {
    let kind = "authorization.v1.SelfSubjectAccessReview";
    unstored(cluster(kind, GROUP, "selfsubjectaccessreviews"))
}

/// Reviews of all that the user who asks may do in a namespace (API-293).
pub fn selfsubjectrulesreviews() -> ResourceDefinition {
    let kind = "authorization.v1.SelfSubjectRulesReview";
    unstored(cluster(kind, GROUP, "selfsubjectrulesreviews"))
}
