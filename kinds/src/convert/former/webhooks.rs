//! Webhooks of `admissionregistration.k8s.io/v1beta1`, which has other defaults than `v1`, and
//! bindings of policies of `v1alpha1`.

use api::object::Object;
use serde_json::json;

use crate::defaults::admissionregistration::{
    mutatingwebhookconfiguration, validatingadmissionpolicybinding, validatingwebhookconfiguration,
};
use crate::defaults::{items, member, set_absent, set_default};

/// Defaults a MutatingWebhookConfiguration.
pub(super) fn mutating(object: &mut Object) {
    fill_in(object);
    mutatingwebhookconfiguration(object);
}

/// Defaults a ValidatingWebhookConfiguration.
pub(super) fn validating(object: &mut Object) {
    fill_in(object);
    validatingwebhookconfiguration(object);
}

/// Applies the defaults that differ from those of `v1`.
fn fill_in(object: &mut Object) {
    for hook in items(&mut object.0, "webhooks") {
        set_absent(hook, "failurePolicy", "Ignore");
        set_absent(hook, "matchPolicy", "Exact");
        set_absent(hook, "sideEffects", "Unknown");
        set_absent(hook, "timeoutSeconds", 30);
        let versions = hook.get("admissionReviewVersions");
        if versions.is_none_or(|versions| *versions == json!(null) || *versions == json!([])) {
            hook.insert("admissionReviewVersions".to_owned(), json!(["v1beta1"]));
        }
    }
}

/// Defaults a policy binding of either kind.
pub(super) fn v1alpha1_binding(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    if let Some(parameters) = spec.and_then(|spec| member(spec, "paramRef")) {
        set_default(parameters, "parameterNotFoundAction", "Deny");
    }
    validatingadmissionpolicybinding(object);
}
