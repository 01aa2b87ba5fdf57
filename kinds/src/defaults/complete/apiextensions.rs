//! Descriptions of defaulted CustomResourceDefinitions.

use api::completeness::Expected;

use super::of;

/// Describes a defaulted CustomResourceDefinition.
pub fn customresourcedefinition() -> Expected {
    let service = Expected::default().given(&["port"]);
    let webhook = Expected::default()
        .given(&["conversionReviewVersions"])
        .below(
            "clientConfig",
            Expected::default().below("service", service),
        );
    let spec = Expected::default()
        .given(&["conversion", "names"])
        .below("names", Expected::default().has(&["listKind", "singular"]))
        .below("conversion", Expected::default().below("webhook", webhook));
    of(spec)
        .given(&["spec", "status"])
        .below("status", Expected::default().filled(&["storedVersions"]))
}
