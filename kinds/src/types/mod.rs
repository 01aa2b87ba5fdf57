//! The types of Kubernetes' built-in kinds, a text for each package, in the notation of
//! [`api::schema`]. `tools/facts/make.py` makes the texts of the sources that define the types;
//! the one of `apiregistration.v1` is written by hand.

pub mod internal;

use std::sync::LazyLock;

use api::schema::{META, ObjectType, Schema};

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

/// The types of versions that are read and not served, as far as they differ from those of the
/// version that is.
pub const FORMER: &str = include_str!("former.txt");

/// The types of all packages, read when they are first asked for.
pub static TYPES: LazyLock<Schema> = LazyLock::new(|| {
    let texts: Vec<&str> = PACKAGES.into_iter().chain([FORMER]).collect();
    Schema::read(&texts).unwrap_or_else(|error| {
        // A test reads all of them.
        tracing::error!(%error, "the types of built-in kinds can't be read");
        Schema::default()
    })
});

/// The type of this package and name: `apps.v1.Deployment`.
pub const fn object_type(name: &'static str) -> ObjectType {
    ObjectType {
        schema: &TYPES,
        name,
    }
}

#[cfg(test)]
mod tests;
