//! The built-in resources (http.md 6.1 to 6.4).
//!
//! This folder owns one definition for each built-in resource, in a file per API group. Nothing
//! enters, the list of definitions leaves. This folder must not know stores, requests or the order
//! of writes.

use std::sync::Arc;

use crate::convert::former;
use api::object::Object;
use api::resource::{
    FieldPath, GenerationRule, ResourceDefinition, ResourceScope, Scaling, Subresource,
    UpdateCheck, UpdateStrategy, Verb,
};

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
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
mod rules;
pub mod scheduling;
pub mod storage;
mod unserved;

/// The parts of `metadata` that some status endpoints keep (API-212). No update changes the
/// generation, and there is no `selfLink`.
const KEPT_METADATA: [&str; 5] = [
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "metadata.finalizers",
    "metadata.labels",
    "metadata.ownerReferences",
];

/// Every built-in resource, by group in the order of discovery (API-28), and by name within a
/// group, the preferred version first. The order of groups decides which group an ambiguous short
/// name means.
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
    rows.into_iter()
        .map(|row| ResourceDefinition {
            former: former::versions_of(&row),
            ..unserved::applied(row)
        })
        .map(Arc::new)
        .collect()
}

/// A resource whose objects have this type, with the properties of most kinds. The type's name has
/// version and kind: `apps.v1.Deployment`.
fn typed(object_type: &'static str, group: &str, plural: &str) -> ResourceDefinition {
    let mut parts = object_type.split('.').skip(1);
    let (version, kind) = (parts.next(), parts.next());
    let (version, kind) = (version.unwrap_or_default(), kind.unwrap_or_default());
    ResourceDefinition {
        object_type: crate::types::object_type(object_type),
        ..ResourceDefinition::named(group, version, kind, plural)
    }
}

/// The resources that are served and whose objects are not stored: reviews, bindings of pods and
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

/// A resource whose objects are not stored.
fn unstored(row: ResourceDefinition) -> ResourceDefinition {
    ResourceDefinition {
        verbs: Vec::new(),
        ..row
    }
}

/// The same for a resource outside of namespaces.
fn cluster(object_type: &'static str, group: &str, plural: &str) -> ResourceDefinition {
    ResourceDefinition {
        scope: ResourceScope::Cluster,
        ..typed(object_type, group, plural)
    }
}

/// A generation that increases with changes at these paths (API-197).
fn generation(paths: &[&str]) -> GenerationRule {
    GenerationRule::OnChangeOf(FieldPath::list(paths))
}

/// A subresource that reads its object and writes a part of it. Metadata is checked as by most.
fn part(name: &str, verbs: &[Verb], update: UpdateStrategy) -> Subresource {
    Subresource {
        name: name.to_owned(),
        verbs: verbs.to_vec(),
        update,
        update_checks: &[UpdateCheck::Changes],
        scaling: None,
        raises_generation: false,
        has_tables: true,
    }
}

/// A subresource with these checks of metadata.
fn checking(part: Subresource, update_checks: &'static [UpdateCheck]) -> Subresource {
    Subresource {
        update_checks,
        ..part
    }
}

/// The status subresource. Its updates keep these parts as stored, so nobody owns them by it.
fn status(keeps: &[&str]) -> Subresource {
    let update = UpdateStrategy {
        keeps: FieldPath::list(keeps),
        resets: FieldPath::list(keeps),
        ..UpdateStrategy::default()
    };
    part("status", &[Verb::Get, Verb::Patch, Verb::Update], update)
}

/// Prepares nothing. What a status endpoint keeps of the stored object is filled in together with
/// the rest then, as when it is read from storage.
fn fill_in_whole(_: &mut Object, _: &Object) {}

/// Adds a status to a resource. Only `/status` writes the status, and it keeps `spec` as stored.
fn with_status(row: ResourceDefinition) -> ResourceDefinition {
    let mut row = ResourceDefinition {
        subresources: vec![status(&["spec"])],
        ..row
    };
    row.create.drops = FieldPath::list(&["status"]);
    row.update.keeps = FieldPath::list(&["status"]);
    row.update.resets = FieldPath::list(&["status"]);
    row
}

/// Adds a status to a resource whose status endpoint keeps most metadata too (API-212).
fn with_bare_status(row: ResourceDefinition) -> ResourceDefinition {
    let mut status = status(&["spec"]);
    status.update.keeps.extend(FieldPath::list(&KEPT_METADATA));
    status.update.resets = FieldPath::list(&["spec", "metadata"]);
    ResourceDefinition {
        subresources: vec![status],
        ..with_status(row)
    }
}

/// Adds the subresource `scale` (API-223). The function tells the selector of the pods as text.
fn with_scale(row: ResourceDefinition, selector: fn(&Object) -> String) -> ResourceDefinition {
    let verbs = [Verb::Get, Verb::Patch, Verb::Update];
    let mut row = row;
    let scale = Subresource {
        scaling: Some(Scaling {
            kind: Arc::new(autoscaling::scales()),
            replicas: "spec.replicas".into(),
            current_replicas: "status.replicas".into(),
            selector,
        }),
        ..part("scale", &verbs, UpdateStrategy::default())
    };
    row.subresources.insert(0, scale);
    row
}

/// Converts a list of names.
fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests;
