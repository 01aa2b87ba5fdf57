//! The core group, `v1`.

use super::{
    cluster, generation, names, part, rules, status, typed, unstored, with_scale, with_status,
};
use crate::columns::{core as columns, events as event_columns, nodes as node_columns};
use crate::columns::{pods as pod_columns, volumes as volume_columns};
use crate::special::{
    limitranges, namespaces as namespace, pods as pod, serviceaccounts as account, volumes,
};
use crate::validation::core::validate_namespace_finalize_update;
use crate::validation::pods::resize::validate_pod_resize;
use crate::validation::pods::update::validate_pod_ephemeral_containers_update;
use crate::validation::selectors::labels_of_spec;
use crate::warnings;
use api::resource::{
    ConversionStrategy, CreateStrategy, DefaultPropagation, DeleteStrategy, Deprecation, FieldPath,
    Lifetime, NameRule, ResourceDefinition, ResourceScope, SelectableField, Subresource,
    UpdateCheck, UpdateStrategy, Verb,
};

/// A resource of the group with the properties of most kinds.
fn core(object_type: &'static str, plural: &str) -> ResourceDefinition {
    typed(object_type, "", plural)
}

/// Namespaces.
pub fn namespaces() -> ResourceDefinition {
    let update = UpdateStrategy {
        keeps: FieldPath::list(&["spec", "status"]),
        resets: FieldPath::list(&["status"]),
        prepare: Some(namespace::prepare_update),
        ..UpdateStrategy::default()
    };
    // The update that removes the content finalizers of a namespace (API-224).
    let finalize = UpdateStrategy {
        keeps: FieldPath::list(&["status"]),
        validate: Some(validate_namespace_finalize_update),
        ..update.clone()
    };
    let mut status = status(&["spec"]);
    status.update.prepare = Some(namespace::prepare_update);
    status.update.validate = Some(namespace::validate_status);
    rules::applied(ResourceDefinition {
        // Namespaces have no deletion of collections (API-10).
        verbs: Verb::ALL
            .into_iter()
            .filter(|verb| *verb != Verb::DeleteCollection)
            .collect(),
        short_names: names(&["ns"]),
        scope: ResourceScope::Cluster,
        subresources: vec![part("finalize", &[Verb::Update], finalize), status],
        name_rule: NameRule::DnsLabel,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        returns_deleted: true,
        create: CreateStrategy {
            drops: FieldPath::list(&["status"]),
            prepare: Some(namespace::prepare_create),
            ..CreateStrategy::default()
        },
        update,
        delete: DeleteStrategy {
            is_held: Some(namespace::is_held),
            mark: Some(namespace::mark),
            ..DeleteStrategy::default()
        },
        selectable_fields: vec![SelectableField::text("status.phase", &["status.phase"])],
        selects_namespace: false,
        columns: columns::namespaces(),
        ..core("core.v1.Namespace", "namespaces")
    })
}

/// ConfigMaps.
pub fn configmaps() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["cm"]),
        columns: columns::configmaps(),
        ..core("core.v1.ConfigMap", "configmaps")
    })
}

/// Secrets.
pub fn secrets() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        selectable_fields: vec![SelectableField::text("type", &["type"])],
        columns: columns::secrets(),
        ..core("core.v1.Secret", "secrets")
    })
}

/// Pods.
pub fn pods() -> ResourceDefinition {
    let own = |label: &str| SelectableField::text(label, &[label]);
    let mut status = status(&[
        "spec",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
    ]);
    status.update.prepare = Some(pod::prepare_status);
    let row = with_status(core("core.v1.Pod", "pods"));
    rules::applied(ResourceDefinition {
        short_names: names(&["po"]),
        categories: names(&["all"]),
        subresources: vec![ephemeral_containers(), resize(), status],
        generation: generation(&["spec"]),
        returns_deleted: true,
        create: CreateStrategy {
            // Of the status it keeps the quality of service.
            drops: Vec::new(),
            prepare: Some(pod::prepare_create),
            warnings_before: Some(warnings::pods::before),
            ..row.create.clone()
        },
        delete: DeleteStrategy {
            grace: Some(pod::grace),
            ..DeleteStrategy::default()
        },
        selectable_fields: vec![
            own("spec.nodeName").indexed(),
            SelectableField::text("spec.host", &["spec.nodeName"]),
            own("spec.restartPolicy"),
            own("spec.schedulerName"),
            own("spec.serviceAccountName"),
            SelectableField::flag("spec.hostNetwork"),
            own("status.phase"),
            own("status.podIP"),
            // Known but never set, as in Kubernetes.
            SelectableField::text("status.podIPs", &[]),
            own("status.nominatedNodeName"),
        ],
        columns: pod_columns::pods(),
        row_conditions: Some(pod_columns::row_conditions),
        ..row
    })
}

/// Options of connections, which are not stored: `core.v1.PodExecOptions`, ….
pub fn connection_options(kind: &'static str) -> ResourceDefinition {
    unstored(typed(kind, "", ""))
}

/// The health of parts of Kubernetes. It is computed (API-232).
pub fn componentstatuses() -> ResourceDefinition {
    ResourceDefinition {
        singular: "componentstatus".to_owned(),
        verbs: vec![Verb::Get, Verb::List],
        short_names: names(&["cs"]),
        columns: columns::componentstatuses(),
        deprecation: Some(Deprecation {
            since: "v1.19",
            replacement: "",
        }),
        ..cluster("core.v1.ComponentStatus", "", "componentstatuses")
    }
}

/// Ranges of which ports of nodes are taken. No path serves them.
pub fn rangeallocations() -> ResourceDefinition {
    ResourceDefinition {
        key_prefix: "ranges".to_owned(),
        ..unstored(cluster("core.v1.RangeAllocation", "", "rangeallocations"))
    }
}

/// Leases of the servers behind the API: Endpoints with one address each. No path serves them.
pub fn masterleases() -> ResourceDefinition {
    unstored(cluster("core.v1.Endpoints", "", "masterleases"))
}

/// Bindings of pods to nodes. They are not stored.
pub fn bindings() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        verbs: vec![Verb::Create],
        ..core("core.v1.Binding", "bindings")
    })
}

/// The endpoint of a pod's ephemeral containers, which are added and stay (API-222).
fn ephemeral_containers() -> Subresource {
    let update = UpdateStrategy {
        prepare: Some(pod::prepare_ephemeral_containers),
        validate: Some(validate_pod_ephemeral_containers_update),
        ..of_spec()
    };
    of_containers("ephemeralcontainers", update)
}

/// The endpoint of the resources of a pod's containers (API-222).
fn resize() -> Subresource {
    let update = UpdateStrategy {
        prepare: Some(pod::prepare_resize),
        validate: Some(validate_pod_resize),
        ..of_spec()
    };
    of_containers("resize", update)
}

/// The rules of an endpoint that writes a part of the spec.
fn of_spec() -> UpdateStrategy {
    let mut keeps = FieldPath::list(&super::KEPT_METADATA);
    keeps.push("status".into());
    UpdateStrategy {
        keeps,
        ..UpdateStrategy::default()
    }
}

/// Who writes more through such an endpoint than it keeps owns it nevertheless, as in Kubernetes.
fn of_containers(name: &str, update: UpdateStrategy) -> Subresource {
    Subresource {
        raises_generation: true,
        has_tables: false,
        ..part(name, &[Verb::Get, Verb::Patch, Verb::Update], update)
    }
}

/// Nodes. Their keys still use the historical name `minions` (KV-2).
pub fn nodes() -> ResourceDefinition {
    let row = with_status(core("core.v1.Node", "nodes"));
    rules::applied(ResourceDefinition {
        short_names: names(&["no"]),
        scope: ResourceScope::Cluster,
        key_prefix: "minions".to_owned(),
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        // A kubelet registers with its status, so create keeps the status (http.md 6.2).
        create: CreateStrategy::default(),
        selectable_fields: vec![SelectableField::flag("spec.unschedulable")],
        selects_namespace: false,
        columns: node_columns::nodes(),
        ..row
    })
}

/// Services.
pub fn services() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["svc"]),
        categories: names(&["all"]),
        key_prefix: "services/specs".to_owned(),
        name_rule: NameRule::DnsLabel,
        create_on_update: true,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        selectable_fields: vec![
            SelectableField::text("spec.clusterIP", &["spec.clusterIP"]),
            SelectableField::text("spec.type", &["spec.type"]),
        ],
        columns: columns::services(),
        ..with_status(core("core.v1.Service", "services"))
    })
}

/// ServiceAccounts.
pub fn serviceaccounts() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["sa"]),
        returns_deleted: true,
        create: CreateStrategy {
            prepare: Some(account::prepare),
            ..CreateStrategy::default()
        },
        update: UpdateStrategy {
            prepare: Some(|object, _| account::prepare(object)),
            ..UpdateStrategy::default()
        },
        ..core("core.v1.ServiceAccount", "serviceaccounts")
    })
}

/// Events.
pub fn events() -> ResourceDefinition {
    let own = |label: &str| SelectableField::text(label, &[label]);
    rules::applied(ResourceDefinition {
        short_names: names(&["ev"]),
        // Clients of core/v1 use arbitrary names for events (API-201).
        name_rule: NameRule::PathSegment,
        strict_finalizers: false,
        update_checks: &[],
        create_on_update: true,
        propagation: DefaultPropagation::Unsupported,
        conversion: ConversionStrategy::TypeOnly,
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
            // Only this version has it, so it comes last.
            SelectableField::text("source", &["source.component", "reportingComponent"]),
        ],
        columns: event_columns::events(),
        ..core("core.v1.Event", "events")
    })
}

/// Endpoints. Their keys lie below those of services (KV-2).
pub fn endpoints() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["ep"]),
        key_prefix: "services/endpoints".to_owned(),
        create_on_update: true,
        columns: columns::endpoints(),
        deprecation: Some(Deprecation {
            since: "v1.33",
            replacement: "discovery.k8s.io/v1 EndpointSlice",
        }),
        ..core("core.v1.Endpoints", "endpoints")
    })
}

/// LimitRanges.
pub fn limitranges() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["limits"]),
        update_checks: &[UpdateCheck::Object],
        create_on_update: true,
        create: CreateStrategy {
            prepare: Some(limitranges::prepare),
            ..CreateStrategy::default()
        },
        columns: columns::limitranges(),
        ..core("core.v1.LimitRange", "limitranges")
    })
}

/// PersistentVolumeClaims.
pub fn persistentvolumeclaims() -> ResourceDefinition {
    let row = with_status(core(
        "core.v1.PersistentVolumeClaim",
        "persistentvolumeclaims",
    ));
    rules::applied(ResourceDefinition {
        short_names: names(&["pvc"]),
        returns_deleted: true,
        create: CreateStrategy {
            prepare: Some(volumes::prepare_claim),
            ..row.create
        },
        update: UpdateStrategy {
            prepare: Some(volumes::prepare_claim_update),
            ..row.update
        },
        columns: volume_columns::persistentvolumeclaims(),
        ..row
    })
}

/// PersistentVolumes.
pub fn persistentvolumes() -> ResourceDefinition {
    let row = with_status(core("core.v1.PersistentVolume", "persistentvolumes"));
    let mut status = status(&["spec"]);
    status.update.stamp = Some(volumes::stamp_phase);
    rules::applied(ResourceDefinition {
        short_names: names(&["pv"]),
        scope: ResourceScope::Cluster,
        subresources: vec![status],
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Object],
        create: CreateStrategy {
            prepare: Some(volumes::prepare_volume),
            ..row.create
        },
        columns: volume_columns::persistentvolumes(),
        ..row
    })
}

/// PodTemplates.
pub fn podtemplates() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        generation: generation(&["template"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::podtemplates(),
        ..core("core.v1.PodTemplate", "podtemplates")
    })
}

/// ReplicationControllers. Their keys have a short name (KV-2).
pub fn replicationcontrollers() -> ResourceDefinition {
    let replicas = SelectableField::number("status.replicas", "status.replicas");
    let row = ResourceDefinition {
        short_names: names(&["rc"]),
        categories: names(&["all"]),
        key_prefix: "controllers".to_owned(),
        name_rule: NameRule::DnsSubdomainWhole,
        generation: generation(&["spec"]),
        update_checks: &[UpdateCheck::Changes],
        propagation: DefaultPropagation::Orphan,
        selectable_fields: vec![replicas],
        columns: columns::replicationcontrollers(),
        ..with_status(core(
            "core.v1.ReplicationController",
            "replicationcontrollers",
        ))
    };
    rules::applied(with_scale(row, labels_of_spec))
}

/// ResourceQuotas.
pub fn resourcequotas() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["quota"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::resourcequotas(),
        ..with_status(core("core.v1.ResourceQuota", "resourcequotas"))
    })
}
