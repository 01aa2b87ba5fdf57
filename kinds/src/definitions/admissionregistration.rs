//! The resources of `admissionregistration.k8s.io/v1`.

use super::row::Row;
use super::{cluster, generation, with_bare_status};
use crate::columns::admissionregistration as columns;
use crate::{defaults, validation, warnings};
use api::resource::{Effect, ResourceDefinition, UpdateCheck};

/// Returns a row of the group. Changes of `member` increase the generation.
fn admission(object_type: &'static str, plural: &'static str, member: &str) -> Row {
    Row {
        effect: Effect::FullAtOnce,
        categories: &["api-extensions"],
        generation: generation(&[member]),
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Object],
        ..cluster(object_type, "admissionregistration.k8s.io", plural)
    }
}

/// Returns the definition of MutatingAdmissionPolicies.
pub fn mutatingadmissionpolicies() -> ResourceDefinition {
    Row {
        columns: columns::mutatingadmissionpolicies(),
        defaults: Some(defaults::admissionregistration::mutatingadmissionpolicy),
        complete: Some(defaults::complete::admissionregistration::admissionpolicy),
        validate: Some(validation::admissionregistration::validate_mutatingadmissionpolicy),
        validate_update: Some(
            validation::admissionregistration::validate_mutatingadmissionpolicy_update,
        ),
        ratchets: validation::ratcheting::POLICIES,
        warnings: Some(warnings::admissionregistration::of_reserved_name),
        ..admission(
            "admissionregistration.v1.MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            "spec",
        )
    }
    .definition()
}

/// Returns the definition of MutatingAdmissionPolicyBindings.
pub fn mutatingadmissionpolicybindings() -> ResourceDefinition {
    Row {
        columns: columns::bindings(),
        defaults: Some(defaults::admissionregistration::mutatingadmissionpolicybinding),
        complete: Some(defaults::complete::admissionregistration::admissionpolicybinding),
        validate: Some(validation::admissionregistration::validate_mutatingadmissionpolicybinding),
        validate_update: Some(
            validation::admissionregistration::validate_mutatingadmissionpolicybinding_update,
        ),
        warnings: Some(warnings::admissionregistration::of_reserved_name),
        ..admission(
            "admissionregistration.v1.MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            "spec",
        )
    }
    .definition()
}

/// Returns the definition of MutatingWebhookConfigurations.
pub fn mutatingwebhookconfigurations() -> ResourceDefinition {
    Row {
        columns: columns::webhookconfigurations(),
        empty_value_bumps_generation: true,
        defaults: Some(defaults::admissionregistration::mutatingwebhookconfiguration),
        complete: Some(defaults::complete::admissionregistration::mutatingwebhookconfiguration),
        validate: Some(validation::admissionregistration::validate_mutatingwebhookconfiguration),
        validate_update: Some(
            validation::admissionregistration::validate_mutatingwebhookconfiguration_update,
        ),
        ratchets: validation::ratcheting::WEBHOOKS,
        warnings: Some(warnings::admissionregistration::of_reserved_name),
        ..admission(
            "admissionregistration.v1.MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "webhooks",
        )
    }
    .definition()
}

/// Returns the definition of ValidatingAdmissionPolicies.
pub fn validatingadmissionpolicies() -> ResourceDefinition {
    Row {
        columns: columns::validatingadmissionpolicies(),
        defaults: Some(defaults::admissionregistration::validatingadmissionpolicy),
        complete: Some(defaults::complete::admissionregistration::admissionpolicy),
        validate: Some(validation::admissionregistration::validate_validatingadmissionpolicy),
        validate_update: Some(
            validation::admissionregistration::validate_validatingadmissionpolicy_update,
        ),
        validate_status: Some(
            validation::admissionregistration::validate_validatingadmissionpolicy_status_update,
        ),
        ratchets: validation::ratcheting::POLICIES,
        warnings: Some(warnings::admissionregistration::of_reserved_name),
        ..with_bare_status(admission(
            "admissionregistration.v1.ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            "spec",
        ))
    }
    .definition()
}

/// Returns the definition of ValidatingAdmissionPolicyBindings.
pub fn validatingadmissionpolicybindings() -> ResourceDefinition {
    Row {
        columns: columns::bindings(),
        defaults: Some(defaults::admissionregistration::validatingadmissionpolicybinding),
        complete: Some(defaults::complete::admissionregistration::admissionpolicybinding),
        validate: Some(
            validation::admissionregistration::validate_validatingadmissionpolicybinding,
        ),
        validate_update: Some(
            validation::admissionregistration::validate_validatingadmissionpolicybinding_update,
        ),
        warnings: Some(warnings::admissionregistration::of_reserved_name),
        ..admission(
            "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            "spec",
        )
    }
    .definition()
}

/// Returns the definition of ValidatingWebhookConfigurations.
pub fn validatingwebhookconfigurations() -> ResourceDefinition {
    Row {
        columns: columns::webhookconfigurations(),
        empty_value_bumps_generation: true,
        defaults: Some(defaults::admissionregistration::validatingwebhookconfiguration),
        complete: Some(defaults::complete::admissionregistration::validatingwebhookconfiguration),
        validate: Some(validation::admissionregistration::validate_validatingwebhookconfiguration),
        validate_update: Some(
            validation::admissionregistration::validate_validatingwebhookconfiguration_update,
        ),
        ratchets: validation::ratcheting::WEBHOOKS,
        warnings: Some(warnings::admissionregistration::of_reserved_name),
        ..admission(
            "admissionregistration.v1.ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "webhooks",
        )
    }
    .definition()
}
