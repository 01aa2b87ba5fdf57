//! Kinds of the core group, and of those that run pods.

use super::{NONE, Rules};
use crate::{defaults, special, validation, warnings};

/// The functions of each kind, by the type of its objects.
pub(super) const RULES: &[(&str, Rules)] = &[
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
            disabled: Some(special::features::drop_of_template),
            empty: Some(defaults::workloads::no_template_generation),
            create: Some(validation::workloads::validate_daemonset),
            update: Some(validation::workloads::validate_daemonset_update),
            status: Some(validation::workloads::validate_daemonset_status_update),
            prepare_create: Some(defaults::workloads::prepare_daemonset_create),
            prepare_update: Some(defaults::workloads::prepare_daemonset_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_daemonset),
            ..NONE
        },
    ),
    (
        "apps.v1.Deployment",
        Rules {
            defaults: Some(defaults::workloads::deployment),
            disabled: Some(special::features::drop_of_template),
            empty: Some(defaults::workloads::no_replicas),
            create: Some(validation::workloads::validate_deployment),
            update: Some(validation::workloads::validate_deployment_update),
            status: Some(validation::workloads::validate_deployment_status_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_deployment),
            ..NONE
        },
    ),
    (
        "apps.v1.ReplicaSet",
        Rules {
            defaults: Some(defaults::workloads::replicaset),
            disabled: Some(special::features::drop_of_template),
            empty: Some(defaults::workloads::no_replicas),
            create: Some(validation::workloads::validate_replicaset),
            update: Some(validation::workloads::validate_replicaset_update),
            status: Some(validation::workloads::validate_replicaset_status_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_replicaset),
            ..NONE
        },
    ),
    (
        "apps.v1.StatefulSet",
        Rules {
            defaults: Some(defaults::workloads::statefulset),
            disabled: Some(special::features::drop_of_statefulset),
            empty: Some(defaults::workloads::no_replicas),
            create: Some(validation::workloads::validate_statefulset),
            update: Some(validation::workloads::validate_statefulset_update),
            status: Some(validation::workloads::validate_statefulset_status_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_statefulset),
            ..NONE
        },
    ),
    (
        "autoscaling.v1.HorizontalPodAutoscaler",
        Rules {
            defaults: Some(defaults::autoscaling::horizontalpodautoscaler_v1),
            create: Some(validation::autoscaling::validate_horizontalpodautoscaler),
            update: Some(validation::autoscaling::validate_horizontalpodautoscaler_update),
            status: Some(validation::autoscaling::validate_horizontalpodautoscaler_status_update),
            ratchets: validation::ratcheting::AUTOSCALERS,
            ..NONE
        },
    ),
    (
        "autoscaling.v1.Scale",
        Rules {
            create: Some(validation::autoscaling::validate_scale),
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
            ratchets: validation::ratcheting::AUTOSCALERS,
            ..NONE
        },
    ),
    (
        "batch.v1.CronJob",
        Rules {
            defaults: Some(defaults::batch::cronjob),
            disabled: Some(special::features::drop_of_cronjob),
            create: Some(validation::batch::validate_cronjob),
            update: Some(validation::batch::validate_cronjob_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_cronjob),
            ..NONE
        },
    ),
    (
        "batch.v1.Job",
        Rules {
            defaults: Some(defaults::batch::job),
            disabled: Some(special::features::drop_of_template),
            create: Some(validation::batch::validate_job),
            update: Some(validation::batch::validate_job_update),
            status: Some(validation::batch::validate_job_status_update),
            fill_in_owned: Some(defaults::batch::label_as_template),
            prepare_create: Some(defaults::batch::prepare_job_create),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_job),
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
            warnings: Some(warnings::networking::of_endpoints),
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
            defaults: Some(crate::special::namespaces::fill_in),
            create: Some(validation::core::validate_namespace),
            ..NONE
        },
    ),
    (
        "core.v1.Node",
        Rules {
            defaults: Some(defaults::core::node),
            disabled: Some(special::features::drop_of_node),
            create: Some(validation::nodes::validate_node),
            update: Some(validation::nodes::validate_node_update),
            status: Some(validation::nodes::validate_node_status_update),
            warnings: Some(warnings::nodes::of_node),
            ..NONE
        },
    ),
    (
        "core.v1.PersistentVolume",
        Rules {
            defaults: Some(defaults::storage::persistentvolume),
            create: Some(validation::storage::validate_persistentvolume),
            update: Some(validation::storage::validate_persistentvolume_update),
            ratchets: validation::ratcheting::VOLUMES,
            warnings: Some(warnings::storage::of_persistentvolume),
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
            ratchets: validation::ratcheting::SELECTORS,
            warnings: Some(warnings::storage::of_persistentvolumeclaim),
            ..NONE
        },
    ),
    (
        "core.v1.Pod",
        Rules {
            defaults: Some(defaults::pods::pod),
            disabled: Some(special::features::drop_of_pod),
            create: Some(validation::pods::validate_pod),
            update: Some(validation::pods::update::validate_pod_update),
            status: Some(validation::pods::status::validate_pod_status_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::pods::of_pod),
            status_warnings: Some(warnings::pods::of_pod_status),
            ..NONE
        },
    ),
    (
        "core.v1.PodTemplate",
        Rules {
            defaults: Some(defaults::workloads::podtemplate),
            disabled: Some(special::features::drop_of_podtemplate),
            create: Some(validation::workloads::validate_podtemplate),
            update: Some(validation::workloads::validate_podtemplate_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_podtemplate),
            ..NONE
        },
    ),
    (
        "core.v1.ReplicationController",
        Rules {
            defaults: Some(defaults::workloads::replicationcontroller),
            disabled: Some(special::features::drop_of_template),
            create: Some(validation::workloads::validate_replicationcontroller),
            update: Some(validation::workloads::validate_replicationcontroller_update),
            status: Some(validation::workloads::validate_replicationcontroller_status_update),
            ratchets: validation::ratcheting::PODS,
            warnings: Some(warnings::templates::of_replicationcontroller),
            ..NONE
        },
    ),
    (
        "core.v1.ResourceQuota",
        Rules {
            defaults: Some(defaults::limits::resourcequota),
            create: Some(validation::limits::validate_resourcequota),
            update: Some(validation::limits::validate_resourcequota_update),
            status: Some(validation::limits::validate_resourcequota_status_update),
            warnings: Some(warnings::others::of_resourcequota),
            ..NONE
        },
    ),
    (
        "core.v1.Secret",
        Rules {
            defaults: Some(defaults::core::secret),
            create: Some(validation::core::validate_secret),
            update: Some(validation::core::validate_secret_update),
            warnings: Some(warnings::secrets::of_secret),
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
            warnings: Some(warnings::networking::of_service),
            status_warnings: Some(warnings::networking::of_load_balancer_status),
            ..NONE
        },
    ),
    (
        "core.v1.ServiceAccount",
        Rules {
            warnings: Some(warnings::others::of_serviceaccount),
            ..NONE
        },
    ),
    (
        "policy.v1.PodDisruptionBudget",
        Rules {
            create: Some(validation::disruption::validate_poddisruptionbudget),
            update: Some(validation::disruption::validate_poddisruptionbudget_update),
            status: Some(validation::disruption::validate_poddisruptionbudget_status_update),
            ratchets: validation::ratcheting::SELECTORS,
            ..NONE
        },
    ),
];
