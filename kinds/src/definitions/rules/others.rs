//! Kinds of all other groups.

use super::{NONE, Rules};
use crate::{defaults, special, validation, warnings};

/// The functions of each kind, by the type of its objects.
pub(super) const RULES: &[(&str, Rules)] = &[
    (
        "admissionregistration.v1.MutatingAdmissionPolicy",
        Rules {
            defaults: Some(defaults::admissionregistration::mutatingadmissionpolicy),
            create: Some(validation::admissionregistration::validate_mutatingadmissionpolicy),
            update: Some(
                validation::admissionregistration::validate_mutatingadmissionpolicy_update,
            ),
            ratchets: validation::ratcheting::POLICIES,
            warnings: Some(warnings::others::of_reserved_name),
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
            warnings: Some(warnings::others::of_reserved_name),
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
            ratchets: validation::ratcheting::WEBHOOKS,
            warnings: Some(warnings::others::of_reserved_name),
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
            ratchets: validation::ratcheting::POLICIES,
            warnings: Some(warnings::others::of_reserved_name),
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
            warnings: Some(warnings::others::of_reserved_name),
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
            ratchets: validation::ratcheting::WEBHOOKS,
            warnings: Some(warnings::others::of_reserved_name),
            ..NONE
        },
    ),
    (
        "apiextensions.v1.CustomResourceDefinition",
        Rules {
            defaults: Some(defaults::apiextensions::customresourcedefinition),
            create: Some(validation::apiextensions::validate_customresourcedefinition),
            update: Some(validation::apiextensions::validate_customresourcedefinition_update),
            warnings: Some(warnings::schemas::of_customresourcedefinition),
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
            ratchets: validation::ratcheting::CERTIFICATE_REQUESTS,
            ..NONE
        },
    ),
    (
        "coordination.v1.Lease",
        Rules {
            disabled: Some(special::features::drop_of_lease),
            create: Some(validation::leases::validate_lease),
            update: Some(validation::leases::validate_lease_update),
            ..NONE
        },
    ),
    (
        "discovery.v1.EndpointSlice",
        Rules {
            defaults: Some(defaults::networking::endpointslice),
            create: Some(validation::endpoints::validate_endpointslice),
            update: Some(validation::endpoints::validate_endpointslice_update),
            warnings: Some(warnings::networking::of_endpointslice),
            ..NONE
        },
    ),
    (
        "events.v1.Event",
        Rules {
            create: Some(validation::events::validate_events_event),
            update: Some(validation::events::validate_events_event_update),
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
            warnings: Some(warnings::networking::of_ingress),
            status_warnings: Some(warnings::networking::of_load_balancer_status),
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
            ratchets: validation::ratcheting::SELECTORS,
            warnings: Some(warnings::networking::of_networkpolicy),
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
            warnings: Some(warnings::nodes::of_runtimeclass),
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
        "resource.v1.DeviceClass",
        Rules {
            create: Some(validation::resource::validate_deviceclass),
            update: Some(validation::resource::validate_deviceclass_update),
            ..NONE
        },
    ),
    (
        "resource.v1.ResourceClaim",
        Rules {
            defaults: Some(defaults::resource::resourceclaim),
            create: Some(validation::resource::validate_resourceclaim),
            update: Some(validation::resource::validate_resourceclaim_update),
            status: Some(validation::resource::validate_resourceclaim_status_update),
            ..NONE
        },
    ),
    (
        "resource.v1.ResourceClaimTemplate",
        Rules {
            defaults: Some(defaults::resource::resourceclaimtemplate),
            create: Some(validation::resource::validate_resourceclaimtemplate),
            update: Some(validation::resource::validate_resourceclaimtemplate_update),
            ..NONE
        },
    ),
    (
        "resource.v1.ResourceSlice",
        Rules {
            defaults: Some(defaults::resource::resourceslice),
            prepare_create: Some(special::resourceslices::prepare),
            prepare_update: Some(special::resourceslices::prepare_update),
            create: Some(validation::resource::validate_resourceslice),
            update: Some(validation::resource::validate_resourceslice_update),
            warnings: Some(warnings::others::of_resourceslice),
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
            disabled: Some(special::features::drop_of_csidriver),
            create: Some(validation::storage::validate_csidriver),
            update: Some(validation::storage::validate_csidriver_update),
            warnings: Some(warnings::storage::of_csidriver),
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
            warnings: Some(warnings::storage::of_csistoragecapacity),
            ..NONE
        },
    ),
    (
        "storage.v1.StorageClass",
        Rules {
            defaults: Some(defaults::storage::storageclass),
            create: Some(validation::storage::validate_storageclass),
            update: Some(validation::storage::validate_storageclass_update),
            warnings: Some(warnings::storage::of_storageclass),
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
