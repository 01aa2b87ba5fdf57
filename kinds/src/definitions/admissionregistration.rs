//! `admissionregistration.k8s.io/v1`.

use super::{cluster, generation, names, rules, with_bare_status};
use crate::columns::admissionregistration as columns;
use api::resource::{Effect, ResourceDefinition, UpdateCheck};

/// A resource of the group, with a generation that follows this member.
fn admission(object_type: &'static str, plural: &str, member: &str) -> ResourceDefinition {
    ResourceDefinition {
        effect: Effect::NotYet,
        categories: names(&["api-extensions"]),
        generation: generation(&[member]),
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Object],
        ..cluster(object_type, "admissionregistration.k8s.io", plural)
    }
}

/// MutatingAdmissionPolicies.
pub fn mutatingadmissionpolicies() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::mutatingadmissionpolicies(),
        ..admission(
            "admissionregistration.v1.MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            "spec",
        )
    })
}

/// MutatingAdmissionPolicyBindings.
pub fn mutatingadmissionpolicybindings() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::bindings(),
        ..admission(
            "admissionregistration.v1.MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            "spec",
        )
    })
}

/// MutatingWebhookConfigurations.
pub fn mutatingwebhookconfigurations() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::webhookconfigurations(),
        generation_tells_empty: true,
        ..admission(
            "admissionregistration.v1.MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "webhooks",
        )
    })
}

/// ValidatingAdmissionPolicies.
pub fn validatingadmissionpolicies() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::validatingadmissionpolicies(),
        ..with_bare_status(admission(
            "admissionregistration.v1.ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            "spec",
        ))
    })
}

/// ValidatingAdmissionPolicyBindings.
pub fn validatingadmissionpolicybindings() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::bindings(),
        ..admission(
            "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            "spec",
        )
    })
}

/// ValidatingWebhookConfigurations.
pub fn validatingwebhookconfigurations() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::webhookconfigurations(),
        generation_tells_empty: true,
        ..admission(
            "admissionregistration.v1.ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "webhooks",
        )
    })
}
