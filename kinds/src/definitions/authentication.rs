//! The resources of `authentication.k8s.io/v1`, none of which is stored.

use super::row::Row;
use super::{cluster, typed, unstored};
use crate::defaults::authentication as defaults;
use api::resource::ResourceDefinition;

const GROUP: &str = "authentication.k8s.io";

/// Returns the definition of TokenReviews (API-295).
pub fn tokenreviews() -> ResourceDefinition {
    unstored(cluster(
        "authentication.v1.TokenReview",
        GROUP,
        "tokenreviews",
    ))
    .definition()
}

/// Returns the definition of SelfSubjectReviews (API-294).
pub fn selfsubjectreviews() -> ResourceDefinition {
    unstored(cluster(
        "authentication.v1.SelfSubjectReview",
        GROUP,
        "selfsubjectreviews",
    ))
    .definition()
}

/// Returns the definition of TokenRequests, the body of the subresource `token` of ServiceAccounts
/// (API-226).
pub fn tokenrequests() -> ResourceDefinition {
    Row {
        defaults: Some(defaults::tokenrequest),
        ..unstored(typed(
            "authentication.v1.TokenRequest",
            GROUP,
            "tokenrequests",
        ))
    }
    .definition()
}
