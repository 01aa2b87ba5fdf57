//! What is filled in and refused of each kind: the functions of [`crate::defaults`] and
//! [`crate::validation`], by the type of its objects.

use api::field_error::FieldError;
use api::object::Object;
use api::resource::ResourceDefinition;

use crate::{defaults, special, validation};

type Check = fn(&Object) -> Vec<FieldError>;
type CheckOfChange = fn(&Object, &Object) -> Vec<FieldError>;

/// The functions of a kind.
#[derive(Clone, Copy)]
struct Rules {
    defaults: Option<fn(&mut Object)>,
    prepare_create: Option<fn(&mut Object)>,
    prepare_update: Option<fn(&mut Object, &Object)>,
    create: Option<Check>,
    update: Option<CheckOfChange>,
    status: Option<CheckOfChange>,
    approval: Option<CheckOfChange>,
}

/// A row with the functions of its kind, where it has none of its own.
pub(super) fn applied(mut row: ResourceDefinition) -> ResourceDefinition {
    let rules = of(row.object_type.name);
    row.defaults = row.defaults.or(rules.defaults);
    row.create.prepare = row.create.prepare.or(rules.prepare_create);
    row.create.validate = row.create.validate.or(rules.create);
    row.update.prepare = row.update.prepare.or(rules.prepare_update);
    row.update.validate = row.update.validate.or(rules.update);
    for part in &mut row.subresources {
        let check = match part.name.as_str() {
            "status" => rules.status,
            "approval" => rules.approval,
            _ => None,
        };
        part.update.validate = part.update.validate.or(check);
    }
    row
}

/// The functions of the kind with this type. A version with a form of its own is only filled in; it
/// is checked as the one in which objects are cached.
fn of(object_type: &str) -> Rules {
    let mut table = RULES.iter();
    let found = table.find(|(name, _)| *name == object_type);
    found.map_or(NONE, |(_, rules)| *rules)
}

const NONE: Rules = Rules {
    defaults: None,
    prepare_create: None,
    prepare_update: None,
    create: None,
    update: None,
    status: None,
    approval: None,
};

const RULES: &[(&str, Rules)] = &[
    (
        "admissionregistration.v1.MutatingAdmissionPolicy",
        Rules {
            defaults: Some(defaults::admissionregistration::mutatingadmissionpolicy),
            create: Some(validation::admissionregistration::validate_mutatingadmissionpolicy),
            update: Some(
                validation::admissionregistration::validate_mutatingadmissionpolicy_update,
            ),
            ..NONE
        },
    ),
    (
        "admissionregistration.v1.MutatingAdmissionPolicyBinding",
        Rules {
            defaults: Some(defaults::admissionregistration::mutatingadmissionpolicybinding),
            create: Some(
                validation::admissionregistration::validate_mutatingadmissionpolicybinding,
            ),
            update: Some(
                validation::admissionregistration::validate_mutatingadmissionpolicybinding_update,
            ),
            ..NONE
        },
    ),
    (
        "admissionregistration.v1.MutatingWebhookConfiguration",
        Rules {
            defaults: Some(defaults::admissionregistration::mutatingwebhookconfiguration),
            create: Some(validation::admissionregistration::validate_mutatingwebhookconfiguration),
            update: Some(
                validation::admissionregistration::validate_mutatingwebhookconfiguration_update,
            ),
            ..NONE
        },
    ),
    (
        "admissionregistration.v1.ValidatingAdmissionPolicy",
        Rules {
            defaults: Some(defaults::admissionregistration::validatingadmissionpolicy),
            create: Some(validation::admissionregistration::validate_validatingadmissionpolicy),
            update: Some(
                validation::admissionregistration::validate_validatingadmissionpolicy_update,
            ),
            status: Some(
                validation::admissionregistration::validate_validatingadmissionpolicy_status_update,
            ),
            ..NONE
        },
    ),
    (
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        Rules {
            defaults: Some(defaults::admissionregistration::validatingadmissionpolicybinding),
            create: Some(
                validation::admissionregistration::validate_validatingadmissionpolicybinding,
            ),
            update: Some(
                validation::admissionregistration::validate_validatingadmissionpolicybinding_update,
            ),
            ..NONE
        },
    ),
    (
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        Rules {
            defaults: Some(defaults::admissionregistration::validatingwebhookconfiguration),
            create: Some(
                validation::admissionregistration::validate_validatingwebhookconfiguration,
            ),
            update: Some(
                validation::admissionregistration::validate_validatingwebhookconfiguration_update,
            ),
            ..NONE
        },
    ),
    (
        "apiextensions.v1.CustomResourceDefinition",
        Rules {
            defaults: Some(defaults::apiextensions::customresourcedefinition),
            ..NONE
        },
    ),
    (
        "apiregistration.v1.APIService",
        Rules {
            defaults: Some(defaults::apiregistration::apiservice),
            create: Some(validation::apiregistration::validate_apiservice),
            update: Some(validation::apiregistration::validate_apiservice_update),
            status: Some(validation::apiregistration::validate_apiservice_status_update),
            ..NONE
        },
    ),
    (
        "apps.v1.ControllerRevision",
        Rules {
            create: Some(validation::workloads::validate_controllerrevision),
            update: Some(validation::workloads::validate_controllerrevision_update),
            ..NONE
        },
    ),
    (
        "apps.v1.DaemonSet",
        Rules {
            defaults: Some(defaults::workloads::daemonset),
            create: Some(validation::workloads::validate_daemonset),
            update: Some(validation::workloads::validate_daemonset_update),
            status: Some(validation::workloads::validate_daemonset_status_update),
            prepare_create: Some(defaults::workloads::prepare_daemonset_create),
            prepare_update: Some(defaults::workloads::prepare_daemonset_update),
            ..NONE
        },
    ),
    (
        "apps.v1.Deployment",
        Rules {
            defaults: Some(defaults::workloads::deployment),
            create: Some(validation::workloads::validate_deployment),
            update: Some(validation::workloads::validate_deployment_update),
            status: Some(validation::workloads::validate_deployment_status_update),
            ..NONE
        },
    ),
    (
        "apps.v1.ReplicaSet",
        Rules {
            defaults: Some(defaults::workloads::replicaset),
            create: Some(validation::workloads::validate_replicaset),
            update: Some(validation::workloads::validate_replicaset_update),
            status: Some(validation::workloads::validate_replicaset_status_update),
            ..NONE
        },
    ),
    (
        "apps.v1.StatefulSet",
        Rules {
            defaults: Some(defaults::workloads::statefulset),
            create: Some(validation::workloads::validate_statefulset),
            update: Some(validation::workloads::validate_statefulset_update),
            status: Some(validation::workloads::validate_statefulset_status_update),
            ..NONE
        },
    ),
    (
        "autoscaling.v1.HorizontalPodAutoscaler",
        Rules {
            defaults: Some(defaults::autoscaling::horizontalpodautoscaler_v1),
            ..NONE
        },
    ),
    (
        "autoscaling.v2.HorizontalPodAutoscaler",
        Rules {
            defaults: Some(defaults::autoscaling::horizontalpodautoscaler),
            create: Some(validation::autoscaling::validate_horizontalpodautoscaler),
            update: Some(validation::autoscaling::validate_horizontalpodautoscaler_update),
            status: Some(validation::autoscaling::validate_horizontalpodautoscaler_status_update),
            ..NONE
        },
    ),
    (
        "batch.v1.CronJob",
        Rules {
            defaults: Some(defaults::batch::cronjob),
            create: Some(validation::batch::validate_cronjob),
            update: Some(validation::batch::validate_cronjob_update),
            ..NONE
        },
    ),
    (
        "batch.v1.Job",
        Rules {
            defaults: Some(defaults::batch::job),
            create: Some(validation::batch::validate_job),
            update: Some(validation::batch::validate_job_update),
            status: Some(validation::batch::validate_job_status_update),
            prepare_create: Some(defaults::batch::prepare_job_create),
            ..NONE
        },
    ),
    (
        "certificates.v1.CertificateSigningRequest",
        Rules {
            create: Some(validation::certificates::validate_certificatesigningrequest),
            update: Some(validation::certificates::validate_certificatesigningrequest_update),
            status: Some(
                validation::certificates::validate_certificatesigningrequest_status_update,
            ),
            approval: Some(
                validation::certificates::validate_certificatesigningrequest_approval_update,
            ),
            ..NONE
        },
    ),
    (
        "coordination.v1.Lease",
        Rules {
            defaults: Some(defaults::core::lease),
            create: Some(validation::leases::validate_lease),
            update: Some(validation::leases::validate_lease_update),
            ..NONE
        },
    ),
    (
        "core.v1.ConfigMap",
        Rules {
            create: Some(validation::core::validate_configmap),
            update: Some(validation::core::validate_configmap_update),
            ..NONE
        },
    ),
    (
        "core.v1.Endpoints",
        Rules {
            defaults: Some(defaults::core::endpoints),
            create: Some(validation::endpoints::validate_endpoints),
            update: Some(validation::endpoints::validate_endpoints_update),
            ..NONE
        },
    ),
    (
        "core.v1.Event",
        Rules {
            create: Some(validation::events::validate_event),
            update: Some(validation::events::validate_event_update),
            ..NONE
        },
    ),
    (
        "core.v1.LimitRange",
        Rules {
            defaults: Some(defaults::limits::limitrange),
            create: Some(validation::limits::validate_limitrange),
            update: Some(validation::limits::validate_limitrange_update),
            ..NONE
        },
    ),
    (
        "core.v1.Namespace",
        Rules {
            create: Some(validation::core::validate_namespace),
            ..NONE
        },
    ),
    (
        "core.v1.Node",
        Rules {
            defaults: Some(defaults::core::node),
            create: Some(validation::nodes::validate_node),
            update: Some(validation::nodes::validate_node_update),
            status: Some(validation::nodes::validate_node_status_update),
            ..NONE
        },
    ),
    (
        "core.v1.PersistentVolume",
        Rules {
            defaults: Some(defaults::storage::persistentvolume),
            create: Some(validation::storage::validate_persistentvolume),
            update: Some(validation::storage::validate_persistentvolume_update),
            status: Some(validation::storage::validate_persistentvolume_status_update),
            ..NONE
        },
    ),
    (
        "core.v1.PersistentVolumeClaim",
        Rules {
            defaults: Some(defaults::storage::persistentvolumeclaim),
            create: Some(validation::storage::claims::validate_persistentvolumeclaim),
            update: Some(validation::storage::claims::validate_persistentvolumeclaim_update),
            status: Some(validation::storage::claims::validate_persistentvolumeclaim_status_update),
            ..NONE
        },
    ),
    (
        "core.v1.Pod",
        Rules {
            defaults: Some(defaults::pods::pod),
            create: Some(validation::pods::validate_pod),
            update: Some(validation::pods::update::validate_pod_update),
            status: Some(validation::pods::status::validate_pod_status_update),
            ..NONE
        },
    ),
    (
        "core.v1.PodTemplate",
        Rules {
            defaults: Some(defaults::workloads::podtemplate),
            create: Some(validation::workloads::validate_podtemplate),
            update: Some(validation::workloads::validate_podtemplate_update),
            ..NONE
        },
    ),
    (
        "core.v1.ReplicationController",
        Rules {
            defaults: Some(defaults::workloads::replicationcontroller),
            create: Some(validation::workloads::validate_replicationcontroller),
            update: Some(validation::workloads::validate_replicationcontroller_update),
            status: Some(validation::workloads::validate_replicationcontroller_status_update),
            ..NONE
        },
    ),
    (
        "core.v1.ResourceQuota",
        Rules {
            create: Some(validation::limits::validate_resourcequota),
            update: Some(validation::limits::validate_resourcequota_update),
            status: Some(validation::limits::validate_resourcequota_status_update),
            ..NONE
        },
    ),
    (
        "core.v1.Secret",
        Rules {
            defaults: Some(defaults::core::secret),
            create: Some(validation::core::validate_secret),
            update: Some(validation::core::validate_secret_update),
            ..NONE
        },
    ),
    (
        "core.v1.Service",
        Rules {
            defaults: Some(defaults::core::service),
            create: Some(validation::services::validate_service),
            update: Some(validation::services::validate_service_update),
            status: Some(validation::services::validate_service_status_update),
            prepare_create: Some(special::services::prepare_create),
            prepare_update: Some(special::services::prepare_update),
            ..NONE
        },
    ),
    (
        "discovery.v1.EndpointSlice",
        Rules {
            defaults: Some(defaults::networking::endpointslice),
            create: Some(validation::endpoints::validate_endpointslice),
            update: Some(validation::endpoints::validate_endpointslice_update),
            ..NONE
        },
    ),
    (
        "flowcontrol.v1.FlowSchema",
        Rules {
            defaults: Some(defaults::flowcontrol::flowschema),
            create: Some(validation::flowcontrol::validate_flowschema),
            update: Some(validation::flowcontrol::validate_flowschema_update),
            status: Some(validation::flowcontrol::validate_flowschema_status_update),
            ..NONE
        },
    ),
    (
        "flowcontrol.v1.PriorityLevelConfiguration",
        Rules {
            defaults: Some(defaults::flowcontrol::prioritylevelconfiguration),
            create: Some(validation::flowcontrol::validate_prioritylevelconfiguration),
            update: Some(validation::flowcontrol::validate_prioritylevelconfiguration_update),
            status: Some(
                validation::flowcontrol::validate_prioritylevelconfiguration_status_update,
            ),
            ..NONE
        },
    ),
    (
        "networking.v1.IPAddress",
        Rules {
            create: Some(validation::networking::validate_ipaddress),
            update: Some(validation::networking::validate_ipaddress_update),
            ..NONE
        },
    ),
    (
        "networking.v1.Ingress",
        Rules {
            create: Some(validation::networking::validate_ingress),
            update: Some(validation::networking::validate_ingress_update),
            status: Some(validation::networking::validate_ingress_status_update),
            ..NONE
        },
    ),
    (
        "networking.v1.IngressClass",
        Rules {
            defaults: Some(defaults::networking::ingressclass),
            create: Some(validation::networking::validate_ingressclass),
            update: Some(validation::networking::validate_ingressclass_update),
            ..NONE
        },
    ),
    (
        "networking.v1.NetworkPolicy",
        Rules {
            defaults: Some(defaults::networking::networkpolicy),
            create: Some(validation::networking::validate_networkpolicy),
            update: Some(validation::networking::validate_networkpolicy_update),
            ..NONE
        },
    ),
    (
        "networking.v1.ServiceCIDR",
        Rules {
            create: Some(validation::networking::validate_servicecidr),
            update: Some(validation::networking::validate_servicecidr_update),
            ..NONE
        },
    ),
    (
        "node.v1.RuntimeClass",
        Rules {
            create: Some(validation::scheduling::validate_runtimeclass),
            update: Some(validation::scheduling::validate_runtimeclass_update),
            ..NONE
        },
    ),
    (
        "policy.v1.PodDisruptionBudget",
        Rules {
            create: Some(validation::disruption::validate_poddisruptionbudget),
            update: Some(validation::disruption::validate_poddisruptionbudget_update),
            status: Some(validation::disruption::validate_poddisruptionbudget_status_update),
            ..NONE
        },
    ),
    (
        "rbac.v1.ClusterRole",
        Rules {
            create: Some(validation::rbac::validate_clusterrole),
            update: Some(validation::rbac::validate_clusterrole_update),
            ..NONE
        },
    ),
    (
        "rbac.v1.ClusterRoleBinding",
        Rules {
            defaults: Some(defaults::rbac::clusterrolebinding),
            create: Some(validation::rbac::validate_clusterrolebinding),
            update: Some(validation::rbac::validate_clusterrolebinding_update),
            ..NONE
        },
    ),
    (
        "rbac.v1.Role",
        Rules {
            create: Some(validation::rbac::validate_role),
            update: Some(validation::rbac::validate_role_update),
            ..NONE
        },
    ),
    (
        "rbac.v1.RoleBinding",
        Rules {
            defaults: Some(defaults::rbac::rolebinding),
            create: Some(validation::rbac::validate_rolebinding),
            update: Some(validation::rbac::validate_rolebinding_update),
            ..NONE
        },
    ),
    (
        "scheduling.v1.PriorityClass",
        Rules {
            defaults: Some(defaults::scheduling::priorityclass),
            create: Some(validation::scheduling::validate_priorityclass),
            update: Some(validation::scheduling::validate_priorityclass_update),
            ..NONE
        },
    ),
    (
        "storage.v1.CSIDriver",
        Rules {
            defaults: Some(defaults::storage::csidriver),
            create: Some(validation::storage::validate_csidriver),
            update: Some(validation::storage::validate_csidriver_update),
            ..NONE
        },
    ),
    (
        "storage.v1.CSINode",
        Rules {
            create: Some(validation::storage::validate_csinode),
            update: Some(validation::storage::validate_csinode_update),
            ..NONE
        },
    ),
    (
        "storage.v1.CSIStorageCapacity",
        Rules {
            defaults: Some(defaults::storage::csistoragecapacity),
            create: Some(validation::storage::validate_csistoragecapacity),
            update: Some(validation::storage::validate_csistoragecapacity_update),
            ..NONE
        },
    ),
    (
        "storage.v1.StorageClass",
        Rules {
            defaults: Some(defaults::storage::storageclass),
            create: Some(validation::storage::validate_storageclass),
            update: Some(validation::storage::validate_storageclass_update),
            ..NONE
        },
    ),
    (
        "storage.v1.VolumeAttachment",
        Rules {
            defaults: Some(defaults::storage::volumeattachment),
            create: Some(validation::storage::validate_volumeattachment),
            update: Some(validation::storage::validate_volumeattachment_update),
            status: Some(validation::storage::validate_volumeattachment_status_update),
            ..NONE
        },
    ),
    (
        "storage.v1.VolumeAttributesClass",
        Rules {
            create: Some(validation::storage::validate_volumeattributesclass),
            update: Some(validation::storage::validate_volumeattributesclass_update),
            ..NONE
        },
    ),
];
