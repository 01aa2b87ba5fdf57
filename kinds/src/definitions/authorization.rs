//! The resources of `authorization.k8s.io/v1`, none of which is stored.

use super::{cluster, typed, unstored};
use api::resource::ResourceDefinition;

const GROUP: &str = "authorization.k8s.io";

/// Returns the definition of SubjectAccessReviews (API-292).
pub fn subjectaccessreviews() -> ResourceDefinition {
    let kind = "authorization.v1.SubjectAccessReview";
    unstored(cluster(kind, GROUP, "subjectaccessreviews")).definition()
}

/// Returns the definition of LocalSubjectAccessReviews, which ask about one namespace (API-292).
pub fn localsubjectaccessreviews() -> ResourceDefinition {
    let kind = "authorization.v1.LocalSubjectAccessReview";
    unstored(typed(kind, GROUP, "localsubjectaccessreviews")).definition()
}

/// Returns the definition of SelfSubjectAccessReviews, which ask about the requesting user
/// (API-292).
pub fn selfsubjectaccessreviews() -> ResourceDefinition {
    let kind = "authorization.v1.SelfSubjectAccessReview";
    unstored(cluster(kind, GROUP, "selfsubjectaccessreviews")).definition()
}

/// Returns the definition of SelfSubjectRulesReviews, which list the rules of the requesting user
/// in a namespace (API-293).
pub fn selfsubjectrulesreviews() -> ResourceDefinition {
    let kind = "authorization.v1.SelfSubjectRulesReview";
    unstored(cluster(kind, GROUP, "selfsubjectrulesreviews")).definition()
}
