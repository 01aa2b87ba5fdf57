//! The built-in resources (http.md 6.1 to 6.4).
//!
//! A file per API group has a row for each kind: its names, its rules, and its functions for
//! defaulting, preparation, validation, warnings and columns. Rows know neither stores nor requests
//! nor the order of steps of a write.
//!
//! These functions stand in modules named after the API group, too. Of the core group, `pods`,
//! `nodes`, `services` and `endpoints` are modules of their own. Volumes and claims are in
//! `storage`, LimitRanges and ResourceQuotas in `limits`, and ReplicationControllers and
//! PodTemplates, with the group apps, in `workloads`.

use std::sync::Arc;

use api::object::Object;
use api::resource::{
    EndpointRules, FieldPath, GenerationRule, ResourceDefinition, ResourceScope, UpdateCheck, Verb,
};
use row::{Part, Row};

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
mod built_in;
pub mod certificates;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod flowcontrol;
pub mod networking;
pub mod node;
pub mod policy;
pub mod rbac;
pub mod resource;
mod row;
pub mod scheduling;
pub mod storage;
mod unserved;

/// The parts of `metadata` that some status endpoints keep (API-212). `generation` and `selfLink`,
/// which the rule also names, are not in the list: no update can change the former, and the latter
/// no longer exists.
const KEPT_METADATA: [&str; 5] = [
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "metadata.finalizers",
    "metadata.labels",
    "metadata.ownerReferences",
];

/// Returns every built-in resource: groups in the order of discovery (API-28), resources by name
/// within a group, the preferred version first. The order of groups decides which group an
/// ambiguous short name means.
pub fn built_in() -> Vec<Arc<ResourceDefinition>> {
    let rows = [
        core::configmaps(),
        core::endpoints(),
        core::events(),
        core::limitranges(),
        core::namespaces(),
        core::nodes(),
        core::persistentvolumeclaims(),
        core::persistentvolumes(),
        core::pods(),
        core::podtemplates(),
        core::replicationcontrollers(),
        core::resourcequotas(),
        core::secrets(),
        core::serviceaccounts(),
        core::services(),
        apiregistration::apiservices(),
        apps::controllerrevisions(),
        apps::daemonsets(),
        apps::deployments(),
        apps::replicasets(),
        apps::statefulsets(),
        events::events(),
        autoscaling::horizontalpodautoscalers_v2(),
        autoscaling::horizontalpodautoscalers_v1(),
        batch::cronjobs(),
        batch::jobs(),
        certificates::certificatesigningrequests(),
        networking::ingressclasses(),
        networking::ingresses(),
        networking::ipaddresses(),
        networking::networkpolicies(),
        networking::servicecidrs(),
        policy::poddisruptionbudgets(),
        rbac::clusterrolebindings(),
        rbac::clusterroles(),
        rbac::rolebindings(),
        rbac::roles(),
        storage::csidrivers(),
        storage::csinodes(),
        storage::csistoragecapacities(),
        storage::storageclasses(),
        storage::volumeattachments(),
        storage::volumeattributesclasses(),
        admissionregistration::mutatingadmissionpolicies(),
        admissionregistration::mutatingadmissionpolicybindings(),
        admissionregistration::mutatingwebhookconfigurations(),
        admissionregistration::validatingadmissionpolicies(),
        admissionregistration::validatingadmissionpolicybindings(),
        admissionregistration::validatingwebhookconfigurations(),
        apiextensions::customresourcedefinitions(),
        scheduling::priorityclasses(),
        coordination::leases(),
        node::runtimeclasses(),
        discovery::endpointslices(),
        resource::deviceclasses(),
        resource::resourceclaims(),
        resource::resourceclaimtemplates(),
        resource::resourceslices(),
        flowcontrol::flowschemas(),
        flowcontrol::prioritylevelconfigurations(),
    ];
    rows.into_iter().map(Arc::new).collect()
}

/// Returns a row with the properties of most kinds. `object_type` has package, version and kind:
/// `apps.v1.Deployment`.
fn typed(object_type: &'static str, group: &'static str, plural: &'static str) -> Row {
    Row::of(object_type, group, plural)
}

/// Returns the served resources whose objects are not stored: reviews, pod bindings and
/// componentstatuses.
pub fn not_stored() -> [ResourceDefinition; 8] {
    [
        core::bindings(),
        core::componentstatuses(),
        authentication::selfsubjectreviews(),
        authentication::tokenreviews(),
        authorization::localsubjectaccessreviews(),
        authorization::selfsubjectaccessreviews(),
        authorization::selfsubjectrulesreviews(),
        authorization::subjectaccessreviews(),
    ]
}

/// Makes a row one of a kind whose objects are not stored.
fn unstored(row: Row) -> Row {
    Row {
        verbs: Vec::new(),
        ..row
    }
}

/// Returns a row as [`typed`] does, for a cluster-scoped kind.
fn cluster(object_type: &'static str, group: &'static str, plural: &'static str) -> Row {
    Row {
        scope: ResourceScope::Cluster,
        ..typed(object_type, group, plural)
    }
}

/// Returns a generation that increases when one of these paths changes (API-197).
fn generation(paths: &[&str]) -> GenerationRule {
    GenerationRule::OnChangeOf(FieldPath::list(paths))
}

/// Returns a subresource that reads its object and writes a part of it, with the usual checks of
/// metadata.
fn part(name: &'static str, verbs: &'static [Verb], rules: EndpointRules) -> Part {
    Part {
        name,
        verbs,
        has_tables: true,
        rules: EndpointRules {
            checks: vec![UpdateCheck::Changes],
            ..rules
        },
        prepare: None,
        stamp: None,
        validate: None,
    }
}

/// Replaces the metadata checks of a subresource.
fn checking(mut part: Part, checks: &[UpdateCheck]) -> Part {
    part.rules.checks = checks.to_vec();
    part
}

/// Returns the status subresource. Its updates keep these parts as stored, and managers do not own
/// them through it.
fn status(keeps: &[&str]) -> Part {
    let rules = EndpointRules {
        keeps: FieldPath::list(keeps),
        resets: FieldPath::list(keeps),
        ..EndpointRules::default()
    };
    part("status", &[Verb::Get, Verb::Patch, Verb::Update], rules)
}

/// Does nothing, so that a status update defaults the whole object, including the parts that it
/// keeps as stored.
fn fill_in_whole(_: &mut Object, _: &Object) {}

/// Adds a status subresource to a kind. Only `/status` writes the status, and it keeps `spec` as
/// stored.
fn with_status(row: Row) -> Row {
    Row {
        subresources: vec![status(&["spec"])],
        drops: &["status"],
        keeps: &["status"],
        resets: &["status"],
        ..row
    }
}

/// Adds a status subresource that also keeps most metadata (API-212).
fn with_bare_status(row: Row) -> Row {
    let mut status = status(&["spec"]);
    status.rules.keeps.extend(FieldPath::list(&KEPT_METADATA));
    status.rules.resets = FieldPath::list(&["spec", "metadata"]);
    Row {
        subresources: vec![status],
        ..with_status(row)
    }
}

/// Adds the subresource `scale` (API-223). `selector` returns the selector of the object's pods as
/// text.
fn with_scale(row: Row, selector: fn(&Object) -> String) -> Row {
    let verbs = &[Verb::Get, Verb::Patch, Verb::Update];
    let scale = part(row::SCALE, verbs, EndpointRules::default());
    let mut row = row;
    row.subresources.insert(0, scale);
    row.scale_selector = Some(selector);
    row
}

#[cfg(test)]
mod tests;
