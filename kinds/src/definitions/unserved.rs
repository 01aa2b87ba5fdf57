//! Versions in which kube-apiserver stores objects, or did, and which are not served.
//!
//! A value in one of them is read as [`crate::convert::former`] says, so that a store of
//! kube-apiserver's can be taken over, and written by the next update in the version that
//! kube-apiserver 1.36 stores (KV-24, SF-43).

use super::ResourceDefinition;
use crate::convert::customresourcedefinitions as definitions;
use api::resource::{ConversionStrategy, UnservedVersion};

const TYPE_ONLY: ConversionStrategy = ConversionStrategy::TypeOnly;

/// The versions by group and plural. A test compares their types with those that are served.
const VERSIONS: &[(&str, &str, &[UnservedVersion])] = &[
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        &[("v1beta1", TYPE_ONLY)],
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        &[("v1beta1", TYPE_ONLY)],
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &[(
            "v1beta1",
            ConversionStrategy::Functions {
                to_hub: definitions::v1beta1_to_v1,
                from_hub: definitions::v1_to_v1beta1,
            },
        )],
    ),
];

/// A row with the versions that are not served of its resource.
pub(super) fn applied(row: ResourceDefinition) -> ResourceDefinition {
    let is_own = |of: &&(&str, &str, _)| (of.0, of.1) == (&*row.group, &*row.plural);
    match VERSIONS.iter().find(is_own) {
        None => row,
        Some((_, _, unserved)) => ResourceDefinition {
            unserved,
            conversion: ConversionStrategy::TypeOnly,
            ..row
        },
    }
}
