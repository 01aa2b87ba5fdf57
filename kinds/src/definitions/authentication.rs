//! `authentication.k8s.io/v1`. Nothing of it is stored.

use super::{cluster, typed, unstored};
use crate::defaults::authentication as defaults;
use api::resource::ResourceDefinition;

const GROUP: &str = "authentication.k8s.io";

/// Reviews of bearer tokens (API-295).
pub fn tokenreviews() -> ResourceDefinition {
    unstored(cluster(
        "authentication.v1.TokenReview",
        GROUP,
        "tokenreviews",
    ))
}

/// Reviews of who is asking (API-294).
pub fn selfsubjectreviews() -> ResourceDefinition {
    unstored(cluster(
        "authentication.v1.SelfSubjectReview",
        GROUP,
        "selfsubjectreviews",
    ))
}

/// Requests for tokens of service accounts (API-226), the body of their subresource `token`.
pub fn tokenrequests() -> ResourceDefinition {
    ResourceDefinition {
        defaults: Some(defaults::tokenrequest),
        ..unstored(typed(
            "authentication.v1.TokenRequest",
            GROUP,
            "tokenrequests",
        ))
    }
}
