//! Descriptions of defaulted webhook configurations and admission policies.

use api::completeness::Expected;

use super::of;

/// Describes a defaulted validating webhook.
fn validating_webhook() -> Expected {
    let service = Expected::default().given(&["port"]);
    matching()
        .given(&["failurePolicy", "timeoutSeconds"])
        .below("rules", rule())
        .below(
            "clientConfig",
            Expected::default().below("service", service),
        )
}

fn rule() -> Expected {
    Expected::default().given(&["scope"])
}

fn matching() -> Expected {
    Expected::default().given(&["matchPolicy", "namespaceSelector", "objectSelector"])
}

fn resources() -> Expected {
    matching()
        .below("resourceRules", rule())
        .below("excludeResourceRules", rule())
}

/// Describes a defaulted ValidatingWebhookConfiguration.
pub fn validatingwebhookconfiguration() -> Expected {
    Expected::default().below("webhooks", validating_webhook())
}

/// Describes a defaulted MutatingWebhookConfiguration.
pub fn mutatingwebhookconfiguration() -> Expected {
    let webhook = validating_webhook().given(&["reinvocationPolicy"]);
    Expected::default().below("webhooks", webhook)
}

/// Describes a defaulted admission policy of either kind.
pub fn admissionpolicy() -> Expected {
    let spec = Expected::default()
        .given(&["failurePolicy"])
        .below("matchConstraints", resources());
    of(spec).given(&["spec"])
}

/// Describes a defaulted binding of an admission policy.
pub fn admissionpolicybinding() -> Expected {
    of(Expected::default().below("matchResources", resources()))
}
