//! Validation of conversions between versions. Paths are those of kube-apiserver's internal type.

use api::field::Field;

use super::certificates::bundle_fault;
use super::options::Options;
use crate::validation::admissionregistration::{
    validate_review_versions, validate_webhook_service, validate_webhook_url,
};
use crate::validation::enums::require_one_of;
use api::error_list::ErrorList;

/// Validates a conversion.
pub fn validate_conversion(
    conversion: &Field<'_>,
    preserves: bool,
    options: Options,
    errors: &mut ErrorList,
) {
    if !conversion.is_set() {
        return;
    }
    let strategy = conversion.member("strategy");
    if preserves && strategy.text() != "None" {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(strategy.invalid_value(strategy.text(), detail));
    }
    require_one_of(&strategy, &["None", "Webhook"], errors);
    let webhook = conversion.member("webhook");
    let client = webhook.member("clientConfig");
    let versions = webhook.member("conversionReviewVersions");
    let client_place = conversion.member("webhookClientConfig");
    let client_place = match client.value() {
        Some(value) => client_place.with_value(value),
        None => client_place,
    };
    let versions_place = conversion.member("conversionReviewVersions");
    let versions_place = match versions.value() {
        Some(value) => versions_place.with_value(value),
        None => versions_place,
    };
    if strategy.text() == "Webhook" {
        validate_client(&client_place, options, errors);
        let must_be_known = options.require_known_reviews;
        validate_review_versions(&versions_place, "", must_be_known, errors);
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if client.is_set() {
        errors.push(client_place.forbidden(detail));
    }
    if !versions.is_empty() {
        errors.push(versions_place.forbidden(detail));
    }
}

fn validate_client(client: &Field<'_>, options: Options, errors: &mut ErrorList) {
    if !client.is_set() {
        errors.push(client.required("required when strategy is set to Webhook"));
        return;
    }
    let (url, service) = (client.member("url"), client.member("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_webhook_url(&url, errors),
        (false, true) => validate_webhook_service(&service, errors),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
    let bundle = client.member("caBundle");
    if options.require_certificates
        && let Some(fault) = bundle_fault(bundle.text())
    {
        errors.push(bundle.invalid(format!("unable to load root certificates: {fault}")));
    }
}
