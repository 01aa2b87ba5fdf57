//! Lists whose items are looked up in another list of the same object: both are long.

use std::sync::Arc;

use serde_json::json;

use crate::places::Place;

/// The kind with the subresource that writes the first list; then both lists, by their fields and
/// where they are.
type Pair = (&'static str, [&'static str; 2], [&'static str; 2]);

const PAIRS: &[Pair] = &[
    (
        "pods",
        [
            "core.v1.Container.volumeMounts",
            "/spec/containers/0/volumeMounts",
        ],
        ["core.v1.PodSpec.volumes", "/spec/volumes"],
    ),
    (
        "pods",
        [
            "core.v1.Container.volumeDevices",
            "/spec/containers/0/volumeDevices",
        ],
        ["core.v1.PodSpec.volumes", "/spec/volumes"],
    ),
    (
        "pods",
        [
            "core.v1.Container.volumeMounts",
            "/spec/containers/0/volumeMounts",
        ],
        [
            "core.v1.Container.volumeDevices",
            "/spec/containers/0/volumeDevices",
        ],
    ),
    (
        "pods",
        [
            "core.v1.ResourceRequirements.claims",
            "/spec/containers/0/resources/claims",
        ],
        ["core.v1.PodSpec.resourceClaims", "/spec/resourceClaims"],
    ),
    (
        "pods",
        ["core.v1.PodSpec.containers", "/spec/containers"],
        ["core.v1.PodSpec.initContainers", "/spec/initContainers"],
    ),
    (
        "pods",
        ["core.v1.PodSpec.readinessGates", "/spec/readinessGates"],
        ["core.v1.PodStatus.conditions", "/status/conditions"],
    ),
    (
        "pods",
        [
            "core.v1.TopologySpreadConstraint.matchLabelKeys",
            "/spec/topologySpreadConstraints/0/matchLabelKeys",
        ],
        [
            "meta.v1.LabelSelector.matchExpressions",
            "/spec/topologySpreadConstraints/0/labelSelector/matchExpressions",
        ],
    ),
    (
        "pods/ephemeralcontainers",
        [
            "core.v1.PodSpec.ephemeralContainers",
            "/spec/ephemeralContainers",
        ],
        ["core.v1.PodSpec.containers", "/spec/containers"],
    ),
    (
        "pods/resize",
        ["core.v1.PodSpec.containers", "/spec/containers"],
        [
            "core.v1.PodStatus.containerStatuses",
            "/status/containerStatuses",
        ],
    ),
    (
        "pods/status",
        [
            "core.v1.PodStatus.containerStatuses",
            "/status/containerStatuses",
        ],
        ["core.v1.PodSpec.containers", "/spec/containers"],
    ),
    (
        "pods/status",
        [
            "core.v1.PodStatus.initContainerStatuses",
            "/status/initContainerStatuses",
        ],
        ["core.v1.PodSpec.initContainers", "/spec/initContainers"],
    ),
    (
        "pods/status",
        [
            "core.v1.ContainerStatus.allocatedResourcesStatus",
            "/status/containerStatuses/0/allocatedResourcesStatus",
        ],
        [
            "core.v1.ResourceRequirements.claims",
            "/spec/containers/0/resources/claims",
        ],
    ),
    (
        "pods/status",
        [
            "core.v1.ContainerStatus.volumeMounts",
            "/status/containerStatuses/0/volumeMounts",
        ],
        [
            "core.v1.Container.volumeMounts",
            "/spec/containers/0/volumeMounts",
        ],
    ),
    (
        "pods/status",
        [
            "core.v1.PodStatus.resourceClaimStatuses",
            "/status/resourceClaimStatuses",
        ],
        ["core.v1.PodSpec.resourceClaims", "/spec/resourceClaims"],
    ),
    (
        "pods/status",
        [
            "core.v1.PodExtendedResourceClaimStatus.requestMappings",
            "/status/extendedResourceClaimStatus/requestMappings",
        ],
        ["core.v1.PodSpec.containers", "/spec/containers"],
    ),
    (
        "statefulsets.apps",
        [
            "apps.v1.StatefulSetSpec.volumeClaimTemplates",
            "/spec/volumeClaimTemplates",
        ],
        ["core.v1.PodSpec.volumes", "/spec/template/spec/volumes"],
    ),
    (
        "statefulsets.apps",
        [
            "core.v1.Container.volumeMounts",
            "/spec/template/spec/containers/0/volumeMounts",
        ],
        [
            "apps.v1.StatefulSetSpec.volumeClaimTemplates",
            "/spec/volumeClaimTemplates",
        ],
    ),
    (
        "endpoints",
        ["core.v1.EndpointSubset.addresses", "/subsets/0/addresses"],
        [
            "core.v1.EndpointSubset.notReadyAddresses",
            "/subsets/0/notReadyAddresses",
        ],
    ),
    (
        "nodes/status",
        ["core.v1.NodeStatus.volumesInUse", "/status/volumesInUse"],
        [
            "core.v1.NodeStatus.volumesAttached",
            "/status/volumesAttached",
        ],
    ),
    (
        "jobs.batch",
        [
            "batch.v1.PodFailurePolicy.rules",
            "/spec/podFailurePolicy/rules",
        ],
        [
            "core.v1.PodSpec.containers",
            "/spec/template/spec/containers",
        ],
    ),
    (
        "jobs.batch/status",
        [
            "batch.v1.UncountedTerminatedPods.failed",
            "/status/uncountedTerminatedPods/failed",
        ],
        [
            "batch.v1.UncountedTerminatedPods.succeeded",
            "/status/uncountedTerminatedPods/succeeded",
        ],
    ),
    (
        "customresourcedefinitions.apiextensions.k8s.io/status",
        [
            "apiextensions.v1.CustomResourceDefinitionStatus.storedVersions",
            "/status/storedVersions",
        ],
        [
            "apiextensions.v1.CustomResourceDefinitionSpec.versions",
            "/spec/versions",
        ],
    ),
    (
        "customresourcedefinitions.apiextensions.k8s.io",
        [
            "apiextensions.v1.JSONSchemaProps.required",
            "/spec/versions/0/schema/openAPIV3Schema/required",
        ],
        [
            "apiextensions.v1.JSONSchemaProps.properties",
            "/spec/versions/0/schema/openAPIV3Schema/properties",
        ],
    ),
    (
        "resourceclaims.resource.k8s.io",
        [
            "resource.v1.DeviceConstraint.requests",
            "/spec/devices/constraints/0/requests",
        ],
        ["resource.v1.DeviceClaim.requests", "/spec/devices/requests"],
    ),
    (
        "resourceclaims.resource.k8s.io",
        [
            "resource.v1.DeviceClaimConfiguration.requests",
            "/spec/devices/config/0/requests",
        ],
        ["resource.v1.DeviceClaim.requests", "/spec/devices/requests"],
    ),
    (
        "resourceclaims.resource.k8s.io/status",
        [
            "resource.v1.DeviceAllocationResult.results",
            "/status/allocation/devices/results",
        ],
        ["resource.v1.DeviceClaim.requests", "/spec/devices/requests"],
    ),
    (
        "resourceclaims.resource.k8s.io/status",
        ["resource.v1.ResourceClaimStatus.devices", "/status/devices"],
        [
            "resource.v1.DeviceAllocationResult.results",
            "/status/allocation/devices/results",
        ],
    ),
    (
        "resourceslices.resource.k8s.io",
        [
            "resource.v1.Device.consumesCounters",
            "/spec/devices/0/consumesCounters",
        ],
        [
            "resource.v1.ResourceSliceSpec.sharedCounters",
            "/spec/sharedCounters",
        ],
    ),
    (
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        [
            "admissionregistration.v1.ValidatingAdmissionPolicySpec.variables",
            "/spec/variables",
        ],
        [
            "admissionregistration.v1.ValidatingAdmissionPolicySpec.validations",
            "/spec/validations",
        ],
    ),
];

/// The places of both lists. They stand in a body that is recorded for the kind, of the subresource
/// if there is one.
pub fn pairs(places: &[Place]) -> Vec<Place> {
    let named = |name: &str| {
        let found = places.iter().find(|place| place.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).clone()
    };
    let pairs = PAIRS.iter().map(|(kind, [first, at], [second, beside])| {
        let (kind, subresource) = kind.split_once('/').unwrap_or((kind, ""));
        let is_of = |place: &&Place| place.kind.qualified() == kind;
        let suits = |place: &&Place| is_of(place) && place.subresource == subresource;
        let body = places
            .iter()
            .find(suits)
            .or_else(|| places.iter().find(is_of));
        let body = body.unwrap_or_else(|| panic!("no {kind}"));
        let (mut first, mut second) = (named(first), named(second));
        first.kind = Arc::clone(&body.kind);
        first.body.clone_from(&body.body);
        first.before = (!subresource.is_empty()).then(|| json!({}));
        first.subresource = subresource.to_owned();
        first.pointer = (*at).to_owned();
        second.pointer = (*beside).to_owned();
        first.beside = Some(Arc::new(second));
        first
    });
    pairs.collect()
}
