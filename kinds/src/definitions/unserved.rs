//! Versions in which kube-apiserver stores objects, or used to, and which are not served.
//!
//! [`crate::convert::former`] reads such values, so that Taffrail can take over a store of
//! kube-apiserver. The next update writes the version in which kube-apiserver 1.36 stores the
//! resource (KV-24, SF-43).

use api::resource::{ConversionStrategy, UnservedVersion};

use super::row::Conversions;
use crate::convert::customresourcedefinitions as definitions;

/// The versions of a resource that are stored but not served.
#[derive(Default)]
pub(super) struct Unserved {
    /// Their names.
    pub versions: Vec<UnservedVersion>,
    /// The conversion, if they have their own schema.
    pub conversions: Option<Conversions>,
}

/// The versions by group and plural. A test compares their types with those of the served version.
const VERSIONS: &[(&str, &str, &str, Option<Conversions>)] = &[
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        "v1beta1",
        None,
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        "v1beta1",
        None,
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "v1beta1",
        Some(Conversions {
            to_hub: definitions::v1beta1_to_v1,
            from_hub: definitions::v1_to_v1beta1,
        }),
    ),
];

/// Returns the versions of a resource that are stored but not served.
pub(super) fn versions_of(group: &str, plural: &str) -> Unserved {
    let mut known = VERSIONS.iter();
    let found = known.find(|(of, name, ..)| (*of, *name) == (group, plural));
    found.map_or_else(Unserved::default, |(_, _, version, conversions)| Unserved {
        versions: vec![UnservedVersion {
            version: (*version).to_owned(),
            conversion: match conversions {
                Some(_) => ConversionStrategy::OwnForm,
                None => ConversionStrategy::TypeOnly,
            },
        }],
        conversions: *conversions,
    })
}
