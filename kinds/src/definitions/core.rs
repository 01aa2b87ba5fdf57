//! The resources of the core group, `v1`.

use super::row::{Marking, Part, Row};
use super::{cluster, generation, part, status, typed, unstored, with_scale, with_status};
use crate::columns::{core as columns, events as event_columns, nodes as node_columns};
use crate::columns::{pods as pod_columns, volumes as volume_columns};
use crate::strategies::core as strategy;
use crate::strategies::{pods as pod, storage as volumes};
use crate::validation::core::validate_namespace_finalize_update;
use crate::validation::pods::resize::validate_pod_resize;
use crate::validation::pods::update::validate_pod_ephemeral_containers_update;
use crate::validation::selectors::labels_of_spec;
use crate::{defaults, strategies, validation, warnings};
use api::resource::{
    DefaultPropagation, Deprecation, EndpointRules, FieldPath, Lifetime, NameRule,
    ResourceDefinition, ResourceScope, SelectableField, UpdateCheck, Verb,
};

/// Returns a row of the group with the properties of most kinds.
fn core(object_type: &'static str, plural: &'static str) -> Row {
    typed(object_type, "", plural)
}

/// Returns the definition of Namespaces.
pub fn namespaces() -> ResourceDefinition {
    // The rules of `finalize`, which removes finalizers from a namespace's spec (API-224).
    let rules = EndpointRules {
        keeps: FieldPath::list(&["status"]),
        resets: FieldPath::list(&["status"]),
        ..EndpointRules::default()
    };
    let finalize = Part {
        prepare: Some(strategy::prepare_namespace_update),
        validate: Some(validate_namespace_finalize_update),
        ..part("finalize", &[Verb::Update], rules)
    };
    let mut status = status(&["spec"]);
    status.prepare = Some(strategy::prepare_namespace_update);
    status.validate = Some(validation::core::validate_namespace_status_update);
    Row {
        // Kubernetes has no DELETE on the collection of namespaces (API-10).
        verbs: Verb::ALL
            .into_iter()
            .filter(|verb| *verb != Verb::DeleteCollection)
            .collect(),
        short_names: &["ns"],
        scope: ResourceScope::Cluster,
        subresources: vec![finalize, status],
        name_rule: NameRule::DnsLabel,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        returns_deleted: true,
        drops: &["status"],
        prepare: Some(strategy::prepare_namespace_create),
        keeps: &["spec", "status"],
        resets: &["status"],
        prepare_update: Some(strategy::prepare_namespace_update),
        marking: Some(Marking {
            mark: strategy::mark_namespace,
            is_held: strategy::is_namespace_held,
        }),
        selectable_fields: vec![SelectableField::text("status.phase", &["status.phase"])],
        selects_namespace: false,
        columns: columns::namespaces(),
        defaults: Some(defaults::core::namespace),
        complete: Some(defaults::complete::core::namespace),
        validate: Some(validation::core::validate_namespace),
        ..core("core.v1.Namespace", "namespaces")
    }
    .definition()
}

/// Returns the definition of ConfigMaps.
pub fn configmaps() -> ResourceDefinition {
    Row {
        short_names: &["cm"],
        columns: columns::configmaps(),
        validate: Some(validation::core::validate_configmap),
        validate_update: Some(validation::core::validate_configmap_update),
        ..core("core.v1.ConfigMap", "configmaps")
    }
    .definition()
}

/// Returns the definition of Secrets.
pub fn secrets() -> ResourceDefinition {
    Row {
        selectable_fields: vec![SelectableField::text("type", &["type"])],
        columns: columns::secrets(),
        defaults: Some(defaults::core::secret),
        complete: Some(defaults::complete::core::secret),
        validate: Some(validation::core::validate_secret),
        validate_update: Some(validation::core::validate_secret_update),
        warnings: Some(warnings::core::of_secret),
        ..core("core.v1.Secret", "secrets")
    }
    .definition()
}

/// Returns the definition of Pods.
pub fn pods() -> ResourceDefinition {
    let own = |label: &str| SelectableField::text(label, &[label]);
    let mut status = status(&[
        "spec",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
    ]);
    status.prepare = Some(pod::prepare_status);
    let row = with_status(core("core.v1.Pod", "pods"));
    Row {
        short_names: &["po"],
        categories: &["all"],
        subresources: vec![ephemeral_containers(), resize(), status],
        generation: generation(&["spec"]),
        returns_deleted: true,
        // `prepare` drops the status except the QoS class.
        drops: &[],
        prepare: Some(pod::prepare_create),
        warnings_before: Some(warnings::pods::before),
        grace: Some(pod::grace),
        selectable_fields: vec![
            own("spec.nodeName").indexed(),
            SelectableField::text("spec.host", &["spec.nodeName"]),
            own("spec.restartPolicy"),
            own("spec.schedulerName"),
            own("spec.serviceAccountName"),
            SelectableField::flag("spec.hostNetwork"),
            own("status.phase"),
            own("status.podIP"),
            // Registered but never set, as in Kubernetes.
            SelectableField::text("status.podIPs", &[]),
            own("status.nominatedNodeName"),
        ],
        columns: pod_columns::pods(),
        row_conditions: Some(pod_columns::row_conditions),
        defaults: Some(defaults::pods::pod),
        complete: Some(defaults::complete::pods::pod),
        disabled: Some(strategies::disabled_fields::drop_of_pod),
        validate: Some(validation::pods::validate_pod),
        validate_update: Some(validation::pods::update::validate_pod_update),
        validate_status: Some(validation::pods::status::validate_pod_status_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::pods::of_pod),
        status_warnings: Some(warnings::pods::of_pod_status),
        ..row
    }
    .definition()
}

/// Returns the definition of connection options such as `core.v1.PodExecOptions`, which are not
/// stored.
pub fn connection_options(kind: &'static str) -> ResourceDefinition {
    unstored(typed(kind, "", "")).definition()
}

/// Returns the definition of ComponentStatuses, which are computed (API-232).
pub fn componentstatuses() -> ResourceDefinition {
    Row {
        singular: Some("componentstatus"),
        verbs: vec![Verb::Get, Verb::List],
        short_names: &["cs"],
        columns: columns::componentstatuses(),
        deprecation: Some(Deprecation::ByRelease {
            since: "v1.19".to_owned(),
            replacement: "".to_owned(),
        }),
        ..cluster("core.v1.ComponentStatus", "", "componentstatuses")
    }
    .definition()
}

/// Returns the definition of RangeAllocations, which record the allocated node ports. No path
/// serves them.
pub fn rangeallocations() -> ResourceDefinition {
    Row {
        key_prefix: Some("ranges"),
        ..unstored(cluster("core.v1.RangeAllocation", "", "rangeallocations"))
    }
    .definition()
}

/// Returns the definition of the leases of API servers: Endpoints with one address each. No path
/// serves them.
pub fn masterleases() -> ResourceDefinition {
    unstored(cluster("core.v1.Endpoints", "", "masterleases")).definition()
}

/// Returns the definition of Bindings of pods to nodes, which are not stored.
pub fn bindings() -> ResourceDefinition {
    Row {
        verbs: vec![Verb::Create],
        ..core("core.v1.Binding", "bindings")
    }
    .definition()
}

/// Returns the subresource `ephemeralcontainers`, which only adds containers (API-222).
fn ephemeral_containers() -> Part {
    Part {
        prepare: Some(pod::prepare_ephemeral_containers),
        validate: Some(validate_pod_ephemeral_containers_update),
        ..of_containers("ephemeralcontainers")
    }
}

/// Returns the subresource `resize`, which changes resources of containers (API-222).
fn resize() -> Part {
    Part {
        prepare: Some(pod::prepare_resize),
        validate: Some(validate_pod_resize),
        ..of_containers("resize")
    }
}

/// Returns a subresource that writes a part of the spec. A manager also owns fields that it sends
/// and the subresource ignores, as in Kubernetes.
fn of_containers(name: &'static str) -> Part {
    let mut keeps = FieldPath::list(&super::KEPT_METADATA);
    keeps.push("status".into());
    let rules = EndpointRules {
        keeps,
        raises_generation: true,
        ..EndpointRules::default()
    };
    Part {
        has_tables: false,
        ..part(name, &[Verb::Get, Verb::Patch, Verb::Update], rules)
    }
}

/// Returns the definition of Nodes. Their keys still have the historical name `minions` (KV-2).
pub fn nodes() -> ResourceDefinition {
    let row = with_status(core("core.v1.Node", "nodes"));
    Row {
        short_names: &["no"],
        scope: ResourceScope::Cluster,
        key_prefix: Some("minions"),
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        // A kubelet registers its node with a status, so create keeps it (http.md 6.2).
        drops: &[],
        selectable_fields: vec![SelectableField::flag("spec.unschedulable")],
        selects_namespace: false,
        columns: node_columns::nodes(),
        defaults: Some(defaults::core::node),
        stored: Some(defaults::core::stored_node),
        complete: Some(defaults::complete::core::node),
        disabled: Some(strategies::disabled_fields::drop_of_node),
        validate: Some(validation::nodes::validate_node),
        validate_update: Some(validation::nodes::validate_node_update),
        validate_status: Some(validation::nodes::validate_node_status_update),
        warnings: Some(warnings::nodes::of_node),
        ..row
    }
    .definition()
}

/// Returns the definition of Services.
pub fn services() -> ResourceDefinition {
    Row {
        short_names: &["svc"],
        categories: &["all"],
        key_prefix: Some("services/specs"),
        name_rule: NameRule::DnsLabel,
        create_on_update: true,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        selectable_fields: vec![
            SelectableField::text("spec.clusterIP", &["spec.clusterIP"]),
            SelectableField::text("spec.type", &["spec.type"]),
        ],
        columns: columns::services(),
        defaults: Some(defaults::core::service),
        complete: Some(defaults::complete::core::service),
        validate: Some(validation::services::validate_service),
        validate_update: Some(validation::services::validate_service_update),
        validate_status: Some(validation::services::validate_service_status_update),
        prepare: Some(strategies::services::prepare_create),
        prepare_update: Some(strategies::services::prepare_update),
        warnings: Some(warnings::networking::of_service),
        status_warnings: Some(warnings::networking::of_load_balancer_status),
        ..with_status(core("core.v1.Service", "services"))
    }
    .definition()
}

/// Returns the definition of ServiceAccounts.
pub fn serviceaccounts() -> ResourceDefinition {
    Row {
        short_names: &["sa"],
        returns_deleted: true,
        prepare: Some(strategy::prepare_serviceaccount),
        prepare_update: Some(|object, _| strategy::prepare_serviceaccount(object)),
        warnings: Some(warnings::core::of_serviceaccount),
        ..core("core.v1.ServiceAccount", "serviceaccounts")
    }
    .definition()
}

/// Returns the definition of Events.
pub fn events() -> ResourceDefinition {
    let own = |label: &str| SelectableField::text(label, &[label]);
    Row {
        short_names: &["ev"],
        // Clients of core/v1 use arbitrary names for events (API-201).
        name_rule: NameRule::PathSegment,
        strict_finalizers: false,
        update_checks: &[],
        create_on_update: true,
        propagation: DefaultPropagation::Unsupported,
        is_convertible: true,
        lifetime: Lifetime::OfEvents,
        selectable_fields: vec![
            own("involvedObject.kind"),
            own("involvedObject.namespace"),
            own("involvedObject.name"),
            own("involvedObject.uid").indexed(),
            own("involvedObject.apiVersion"),
            own("involvedObject.resourceVersion"),
            own("involvedObject.fieldPath"),
            own("reason"),
            own("reportingComponent"),
            own("type"),
            // `events.k8s.io` does not have this label, so it comes after the shared ones.
            SelectableField::text("source", &["source.component", "reportingComponent"]),
        ],
        columns: event_columns::events(),
        validate: Some(validation::events::validate_event),
        validate_update: Some(validation::events::validate_event_update),
        ..core("core.v1.Event", "events")
    }
    .definition()
}

/// Returns the definition of Endpoints. Their keys share the prefix of services (KV-2).
pub fn endpoints() -> ResourceDefinition {
    Row {
        short_names: &["ep"],
        key_prefix: Some("services/endpoints"),
        create_on_update: true,
        columns: columns::endpoints(),
        deprecation: Some(Deprecation::ByRelease {
            since: "v1.33".to_owned(),
            replacement: "discovery.k8s.io/v1 EndpointSlice".to_owned(),
        }),
        defaults: Some(defaults::core::endpoints),
        complete: Some(defaults::complete::core::endpoints),
        validate: Some(validation::endpoints::validate_endpoints),
        validate_update: Some(validation::endpoints::validate_endpoints_update),
        warnings: Some(warnings::discovery::of_endpoints),
        ..core("core.v1.Endpoints", "endpoints")
    }
    .definition()
}

/// Returns the definition of LimitRanges.
pub fn limitranges() -> ResourceDefinition {
    Row {
        short_names: &["limits"],
        update_checks: &[UpdateCheck::Object],
        create_on_update: true,
        prepare: Some(strategy::prepare_limitrange),
        columns: columns::limitranges(),
        defaults: Some(defaults::limits::limitrange),
        complete: Some(defaults::complete::limits::limitrange),
        validate: Some(validation::limits::validate_limitrange),
        validate_update: Some(validation::limits::validate_limitrange_update),
        ..core("core.v1.LimitRange", "limitranges")
    }
    .definition()
}

/// Returns the definition of PersistentVolumeClaims.
pub fn persistentvolumeclaims() -> ResourceDefinition {
    let row = with_status(core(
        "core.v1.PersistentVolumeClaim",
        "persistentvolumeclaims",
    ));
    Row {
        short_names: &["pvc"],
        returns_deleted: true,
        prepare: Some(volumes::prepare_claim),
        prepare_update: Some(volumes::prepare_claim_update),
        columns: volume_columns::persistentvolumeclaims(),
        defaults: Some(defaults::storage::persistentvolumeclaim),
        complete: Some(defaults::complete::storage::persistentvolumeclaim),
        validate: Some(validation::storage::claims::validate_persistentvolumeclaim),
        validate_update: Some(validation::storage::claims::validate_persistentvolumeclaim_update),
        validate_status: Some(
            validation::storage::claims::validate_persistentvolumeclaim_status_update,
        ),
        ratchets: validation::ratcheting::SELECTORS,
        warnings: Some(warnings::storage::of_persistentvolumeclaim),
        ..row
    }
    .definition()
}

/// Returns the definition of PersistentVolumes.
pub fn persistentvolumes() -> ResourceDefinition {
    let row = with_status(core("core.v1.PersistentVolume", "persistentvolumes"));
    let mut status = status(&["spec"]);
    status.stamp = Some(volumes::stamp_phase);
    Row {
        short_names: &["pv"],
        scope: ResourceScope::Cluster,
        subresources: vec![status],
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Object],
        prepare: Some(volumes::prepare_volume),
        columns: volume_columns::persistentvolumes(),
        defaults: Some(defaults::storage::persistentvolume),
        complete: Some(defaults::complete::storage::persistentvolume),
        validate: Some(validation::storage::validate_persistentvolume),
        validate_update: Some(validation::storage::validate_persistentvolume_update),
        ratchets: validation::ratcheting::VOLUMES,
        warnings: Some(warnings::storage::of_persistentvolume),
        ..row
    }
    .definition()
}

/// Returns the definition of PodTemplates.
pub fn podtemplates() -> ResourceDefinition {
    Row {
        generation: generation(&["template"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::podtemplates(),
        defaults: Some(defaults::workloads::podtemplate),
        complete: Some(defaults::complete::workloads::podtemplate),
        disabled: Some(strategies::disabled_fields::drop_of_podtemplate),
        validate: Some(validation::workloads::validate_podtemplate),
        validate_update: Some(validation::workloads::validate_podtemplate_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::workloads::of_podtemplate),
        ..core("core.v1.PodTemplate", "podtemplates")
    }
    .definition()
}

/// Returns the definition of ReplicationControllers. Their keys have the short name `controllers`
/// (KV-2).
pub fn replicationcontrollers() -> ResourceDefinition {
    let replicas = SelectableField::number("status.replicas", "status.replicas");
    let row = Row {
        short_names: &["rc"],
        categories: &["all"],
        key_prefix: Some("controllers"),
        name_rule: NameRule::DnsSubdomainWhole,
        generation: generation(&["spec"]),
        update_checks: &[UpdateCheck::Changes],
        propagation: DefaultPropagation::Orphan,
        selectable_fields: vec![replicas],
        columns: columns::replicationcontrollers(),
        defaults: Some(defaults::workloads::replicationcontroller),
        complete: Some(defaults::complete::workloads::replicationcontroller),
        disabled: Some(strategies::disabled_fields::drop_of_template),
        validate: Some(validation::workloads::validate_replicationcontroller),
        validate_update: Some(validation::workloads::validate_replicationcontroller_update),
        validate_status: Some(validation::workloads::validate_replicationcontroller_status_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::workloads::of_replicationcontroller),
        ..with_status(core(
            "core.v1.ReplicationController",
            "replicationcontrollers",
        ))
    };
    with_scale(row, labels_of_spec).definition()
}

/// Returns the definition of ResourceQuotas.
pub fn resourcequotas() -> ResourceDefinition {
    Row {
        short_names: &["quota"],
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::resourcequotas(),
        defaults: Some(defaults::limits::resourcequota),
        complete: Some(defaults::complete::quantities),
        validate: Some(validation::limits::validate_resourcequota),
        validate_update: Some(validation::limits::validate_resourcequota_update),
        validate_status: Some(validation::limits::validate_resourcequota_status_update),
        warnings: Some(warnings::limits::of_resourcequota),
        ..with_status(core("core.v1.ResourceQuota", "resourcequotas"))
    }
    .definition()
}
