//! Older versions of built-in kinds that kube-apiserver 1.36 can still read from storage (KV-27),
//! most of which are no longer served.
//!
//! This folder has a row for each such version of a resource. Its function applies the defaults of
//! that version, which may differ from those of later ones, and converts the object to the version
//! that is served.

mod certificates;
mod customresourcedefinitions;
mod devices;
mod endpoints;
mod poddisruptionbudgets;
mod prioritylevels;
mod runtimeclasses;
mod subjects;
#[cfg(test)]
mod tests;
mod webhooks;
mod workloads;

use api::object::Object;
use api::resource::FormerVersion;
use api::schema::{ObjectType, untyped};

use super::{autoscaling, events};
use crate::defaults::{
    admissionregistration as admission, apiregistration, batch, flowcontrol, rbac, resource,
    scheduling, storage, workloads as apps,
};
use crate::types::object_type;

/// A resource, the type of its objects in a version, and the function that applies that version's
/// defaults and converts.
type Row = (&'static str, &'static str, fn(&mut Object));

/// The type of the served version: all fields and their protobuf numbers are the same.
const SAME: &str = "";

/// No type. The result of the function is decoded by the type of the served version.
const ANY: &str = "any";

/// A version, the version that its objects are converted to, and the resources that have both.
const VERSIONS: &[(&str, &str, &[Row])] = &[
    (
        "admissionregistration.k8s.io/v1alpha1",
        "admissionregistration.k8s.io/v1",
        &[
            (
                "mutatingadmissionpolicies",
                SAME,
                admission::mutatingadmissionpolicy,
            ),
            (
                "mutatingadmissionpolicybindings",
                SAME,
                webhooks::v1alpha1_binding,
            ),
            (
                "validatingadmissionpolicies",
                SAME,
                admission::validatingadmissionpolicy,
            ),
            (
                "validatingadmissionpolicybindings",
                SAME,
                webhooks::v1alpha1_binding,
            ),
        ],
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "admissionregistration.k8s.io/v1",
        &[
            (
                "mutatingadmissionpolicies",
                SAME,
                admission::mutatingadmissionpolicy,
            ),
            (
                "mutatingadmissionpolicybindings",
                SAME,
                admission::mutatingadmissionpolicybinding,
            ),
            ("mutatingwebhookconfigurations", SAME, webhooks::mutating),
            (
                "validatingadmissionpolicies",
                SAME,
                admission::validatingadmissionpolicy,
            ),
            (
                "validatingadmissionpolicybindings",
                SAME,
                admission::validatingadmissionpolicybinding,
            ),
            (
                "validatingwebhookconfigurations",
                SAME,
                webhooks::validating,
            ),
        ],
    ),
    (
        "apiextensions.k8s.io/v1beta1",
        "apiextensions.k8s.io/v1",
        &[(
            "customresourcedefinitions",
            ANY,
            customresourcedefinitions::v1beta1,
        )],
    ),
    (
        "apiregistration.k8s.io/v1beta1",
        "apiregistration.k8s.io/v1",
        &[("apiservices", SAME, apiregistration::apiservice)],
    ),
    (
        "apps/v1beta1",
        "apps/v1",
        &[
            ("controllerrevisions", SAME, nothing),
            (
                "deployments",
                "apps.v1beta1.Deployment",
                workloads::v1beta1_deployment,
            ),
            ("statefulsets", SAME, workloads::v1beta1_statefulset),
        ],
    ),
    (
        "apps/v1beta2",
        "apps/v1",
        &[
            ("controllerrevisions", SAME, nothing),
            ("daemonsets", SAME, apps::daemonset),
            ("deployments", SAME, apps::deployment),
            ("replicasets", SAME, apps::replicaset),
            ("statefulsets", SAME, apps::statefulset),
        ],
    ),
    (
        "autoscaling/v1",
        "autoscaling/v2",
        &[(
            "horizontalpodautoscalers",
            "autoscaling.v1.HorizontalPodAutoscaler",
            autoscaling::filled_in_as_v1,
        )],
    ),
    (
        "autoscaling/v2",
        "autoscaling/v1",
        &[(
            "horizontalpodautoscalers",
            "autoscaling.v2.HorizontalPodAutoscaler",
            autoscaling::filled_in_as_v2,
        )],
    ),
    (
        "batch/v1beta1",
        "batch/v1",
        &[("cronjobs", SAME, batch::cronjob)],
    ),
    (
        "certificates.k8s.io/v1beta1",
        "certificates.k8s.io/v1",
        &[(
            "certificatesigningrequests",
            "certificates.v1beta1.CertificateSigningRequest",
            certificates::v1beta1,
        )],
    ),
    (
        "coordination.k8s.io/v1beta1",
        "coordination.k8s.io/v1",
        &[("leases", SAME, nothing)],
    ),
    (
        "discovery.k8s.io/v1beta1",
        "discovery.k8s.io/v1",
        &[(
            "endpointslices",
            "discovery.v1beta1.EndpointSlice",
            endpoints::endpointslice,
        )],
    ),
    (
        "events.k8s.io/v1",
        "v1",
        &[("events", "events.v1.Event", events::events_to_core)],
    ),
    (
        "events.k8s.io/v1beta1",
        "v1",
        &[("events", "events.v1.Event", events::events_to_core)],
    ),
    (
        "events.k8s.io/v1beta1",
        "events.k8s.io/v1",
        &[("events", SAME, nothing)],
    ),
    (
        "extensions/v1beta1",
        "apps/v1",
        &[
            (
                "daemonsets",
                "extensions.v1beta1.DaemonSet",
                workloads::extensions_daemonset,
            ),
            (
                "deployments",
                "extensions.v1beta1.Deployment",
                workloads::extensions_deployment,
            ),
            ("replicasets", SAME, workloads::extensions_replicaset),
        ],
    ),
    (
        "extensions/v1beta1",
        "networking.k8s.io/v1",
        &[
            (
                "ingresses",
                "extensions.v1beta1.Ingress",
                endpoints::ingress,
            ),
            ("networkpolicies", SAME, endpoints::networkpolicy),
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1",
        &[
            ("flowschemas", SAME, flowcontrol::flowschema),
            (
                "prioritylevelconfigurations",
                "flowcontrol.v1beta1.PriorityLevelConfiguration",
                prioritylevels::with_assured_shares,
            ),
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta2",
        "flowcontrol.apiserver.k8s.io/v1",
        &[
            ("flowschemas", SAME, flowcontrol::flowschema),
            (
                "prioritylevelconfigurations",
                "flowcontrol.v1beta2.PriorityLevelConfiguration",
                prioritylevels::with_assured_shares,
            ),
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta3",
        "flowcontrol.apiserver.k8s.io/v1",
        &[
            ("flowschemas", SAME, flowcontrol::flowschema),
            ("prioritylevelconfigurations", SAME, prioritylevels::v1beta3),
        ],
    ),
    (
        "networking.k8s.io/v1beta1",
        "networking.k8s.io/v1",
        &[
            ("ingressclasses", SAME, nothing),
            (
                "ingresses",
                "networking.v1beta1.Ingress",
                endpoints::ingress,
            ),
            ("ipaddresses", SAME, nothing),
            ("servicecidrs", SAME, nothing),
        ],
    ),
    (
        "node.k8s.io/v1alpha1",
        "node.k8s.io/v1",
        &[(
            "runtimeclasses",
            "node.v1alpha1.RuntimeClass",
            runtimeclasses::runtimeclass,
        )],
    ),
    (
        "node.k8s.io/v1beta1",
        "node.k8s.io/v1",
        &[("runtimeclasses", SAME, nothing)],
    ),
    (
        "policy/v1beta1",
        "policy/v1",
        &[(
            "poddisruptionbudgets",
            SAME,
            poddisruptionbudgets::poddisruptionbudget,
        )],
    ),
    (
        "rbac.authorization.k8s.io/v1alpha1",
        "rbac.authorization.k8s.io/v1",
        &[
            (
                "clusterrolebindings",
                "rbac.v1alpha1.ClusterRoleBinding",
                subjects::v1alpha1,
            ),
            ("clusterroles", "rbac.v1alpha1.ClusterRole", nothing),
            (
                "rolebindings",
                "rbac.v1alpha1.RoleBinding",
                subjects::v1alpha1,
            ),
            ("roles", "rbac.v1alpha1.Role", nothing),
        ],
    ),
    (
        "rbac.authorization.k8s.io/v1beta1",
        "rbac.authorization.k8s.io/v1",
        &[
            ("clusterrolebindings", SAME, rbac::clusterrolebinding),
            ("clusterroles", SAME, nothing),
            ("rolebindings", SAME, rbac::rolebinding),
            ("roles", SAME, nothing),
        ],
    ),
    (
        "resource.k8s.io/v1beta1",
        "resource.k8s.io/v1",
        &[
            ("deviceclasses", SAME, nothing),
            (
                "resourceclaims",
                "resource.v1beta1.ResourceClaim",
                devices::claim,
            ),
            (
                "resourceclaimtemplates",
                "resource.v1beta1.ResourceClaimTemplate",
                devices::template,
            ),
            (
                "resourceslices",
                "resource.v1beta1.ResourceSlice",
                devices::slice,
            ),
        ],
    ),
    (
        "resource.k8s.io/v1beta2",
        "resource.k8s.io/v1",
        &[
            ("deviceclasses", SAME, nothing),
            ("resourceclaims", SAME, resource::resourceclaim),
            (
                "resourceclaimtemplates",
                SAME,
                resource::resourceclaimtemplate,
            ),
            ("resourceslices", SAME, resource::quantities_of_slice),
        ],
    ),
    (
        "scheduling.k8s.io/v1beta1",
        "scheduling.k8s.io/v1",
        &[("priorityclasses", SAME, scheduling::priorityclass)],
    ),
    (
        "storage.k8s.io/v1alpha1",
        "storage.k8s.io/v1",
        &[
            ("csistoragecapacities", SAME, storage::csistoragecapacity),
            ("volumeattachments", SAME, storage::volumeattachment),
            ("volumeattributesclasses", SAME, nothing),
        ],
    ),
    (
        "storage.k8s.io/v1beta1",
        "storage.k8s.io/v1",
        &[
            ("csidrivers", SAME, storage::csidriver),
            ("csinodes", SAME, nothing),
            ("csistoragecapacities", SAME, storage::csistoragecapacity),
            ("storageclasses", SAME, storage::storageclass),
            ("volumeattachments", SAME, storage::volumeattachment),
            ("volumeattributesclasses", SAME, nothing),
        ],
    ),
    (
        "v1",
        "events.k8s.io/v1",
        &[("events", "core.v1.Event", events::core_to_events)],
    ),
];

/// Does nothing, for versions without defaults and with the schema of the served version.
fn nothing(_: &mut Object) {}

/// The other versions that are read as one version of a resource.
pub(crate) struct Former {
    versions: Vec<FormerVersion>,
    /// In the order of `versions`.
    conversions: Vec<fn(&mut Object)>,
}

impl Former {
    /// Returns the versions and the types of their objects.
    pub fn versions(&self) -> &[FormerVersion] {
        &self.versions
    }

    /// Applies the defaults of this version, and converts its object to the served version.
    pub fn convert(&self, api_version: &str, object: &mut Object) {
        let mut both = self.versions.iter().zip(&self.conversions);
        if let Some((_, convert)) = both.find(|(version, _)| version.api_version == api_version) {
            convert(object);
        }
    }
}

/// Returns the name of the large members of a resource that all versions have in the same form.
fn copied_member(plural: &str) -> Option<&'static str> {
    (plural == "customresourcedefinitions").then_some("openAPIV3Schema")
}

/// Returns the other versions that are read as this version of a resource. `own` is the type of its
/// objects.
pub(crate) fn versions_of(group: &str, version: &str, plural: &str, own: &ObjectType) -> Former {
    let is_read_as = |named: &str| match named.split_once('/') {
        Some(named) => named == (group, version),
        None => group.is_empty() && named == version,
    };
    let read_as = VERSIONS
        .iter()
        .filter(|(_, read_as, _)| is_read_as(read_as));
    let versions = read_as.flat_map(|(api_version, _, rows)| {
        let rows = rows.iter().filter(|(of, ..)| *of == plural);
        rows.map(|(_, name, convert)| {
            let former = FormerVersion {
                api_version: (*api_version).to_owned(),
                object_type: match *name {
                    SAME => own.clone(),
                    ANY => untyped(),
                    name => object_type(name),
                },
                copied_member: copied_member(plural),
            };
            (former, *convert)
        })
    });
    let (versions, conversions) = versions.unzip();
    Former {
        versions,
        conversions,
    }
}
