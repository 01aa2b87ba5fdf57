//! The types of Kubernetes' built-in kinds, one text per package, in the notation of
//! [`api::schema`]. `tools/facts/make.py` generates the texts from the Kubernetes sources that
//! define the types, except `apiregistration.v1`, which is written by hand.

pub mod internal;

use std::sync::LazyLock;

use api::schema::{META, ObjectType, Schema, SharedSchema};

/// The text of each package, and one with the kinds of versions that are not served.
pub const PACKAGES: [&str; 24] = [
    include_str!("admissionregistration.v1.txt"),
    include_str!("apiextensions.v1.txt"),
    include_str!("apiregistration.v1.txt"),
    include_str!("apps.v1.txt"),
    include_str!("authentication.v1.txt"),
    include_str!("authorization.v1.txt"),
    include_str!("autoscaling.v1.txt"),
    include_str!("autoscaling.v2.txt"),
    include_str!("batch.v1.txt"),
    include_str!("certificates.v1.txt"),
    include_str!("coordination.v1.txt"),
    include_str!("core.v1.txt"),
    include_str!("discovery.v1.txt"),
    include_str!("events.v1.txt"),
    include_str!("flowcontrol.v1.txt"),
    META,
    include_str!("networking.v1.txt"),
    include_str!("node.v1.txt"),
    include_str!("policy.v1.txt"),
    include_str!("rbac.v1.txt"),
    include_str!("resource.v1.txt"),
    include_str!("scheduling.v1.txt"),
    include_str!("storage.v1.txt"),
    include_str!("unserved.txt"),
];

/// The types of versions that can be read but are not served, where they differ from the types of
/// the served version.
pub const FORMER: &str = include_str!("former.txt");

/// The source positions of Kubernetes' schemes, which some of its error messages contain. Two
/// groups have a scheme of their own.
const SCHEMES: &str = "scheme pkg/api/legacyscheme/scheme.go:30\n\
    scheme pkg/apiserver/scheme/scheme.go:28 apiregistration.k8s.io\n\
    scheme pkg/apiserver/apiserver.go:55 apiextensions.k8s.io\n";

/// The types of all packages, parsed on first use.
pub static TYPES: LazyLock<SharedSchema> = LazyLock::new(|| {
    SharedSchema::new(|| {
        let texts: Vec<&str> = PACKAGES.into_iter().chain([FORMER, SCHEMES]).collect();
        Schema::read(&texts).unwrap_or_else(|error| {
            // Cannot happen: a test parses all texts.
            tracing::error!(%error, "parsing the types of built-in kinds failed");
            Schema::default()
        })
    })
});

/// Returns the type with this package and name, such as `apps.v1.Deployment`.
pub fn object_type(name: &str) -> ObjectType {
    TYPES.object_type(name)
}

#[cfg(test)]
mod tests;
