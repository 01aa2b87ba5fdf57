//! Defaults of admission webhooks and policies (API-259).

use api::object::Object;

use super::{Members, items, member, member_or_new, set_absent};

/// Sets the defaults of a ValidatingWebhookConfiguration.
pub fn validatingwebhookconfiguration(object: &mut Object) {
    for hook in items(&mut object.0, "webhooks") {
        webhook(hook);
    }
}

/// Sets the defaults of a MutatingWebhookConfiguration.
pub fn mutatingwebhookconfiguration(object: &mut Object) {
    for hook in items(&mut object.0, "webhooks") {
        webhook(hook);
        set_absent(hook, "reinvocationPolicy", "Never");
    }
}

fn webhook(hook: &mut Members) {
    set_absent(hook, "failurePolicy", "Fail");
    set_absent(hook, "timeoutSeconds", 10);
    matching(hook);
    rules(hook, "rules");
    let client = member(hook, "clientConfig");
    if let Some(service) = client.and_then(|client| member(client, "service")) {
        set_absent(service, "port", 443);
    }
}

/// Sets the default match policy and selectors.
fn matching(members: &mut Members) {
    set_absent(members, "matchPolicy", "Equivalent");
    member_or_new(members, "namespaceSelector");
    member_or_new(members, "objectSelector");
}

fn rules(members: &mut Members, name: &str) {
    for rule in items(members, name) {
        set_absent(rule, "scope", "*");
    }
}

/// Sets the defaults of a ValidatingAdmissionPolicy.
pub fn validatingadmissionpolicy(object: &mut Object) {
    policy(object);
}

/// Sets the defaults of a MutatingAdmissionPolicy.
pub fn mutatingadmissionpolicy(object: &mut Object) {
    policy(object);
}

fn policy(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        set_absent(spec, "failurePolicy", "Fail");
        resources(spec, "matchConstraints");
    }
}

/// Sets the defaults of a ValidatingAdmissionPolicyBinding.
pub fn validatingadmissionpolicybinding(object: &mut Object) {
    binding(object);
}

/// Sets the defaults of a MutatingAdmissionPolicyBinding.
pub fn mutatingadmissionpolicybinding(object: &mut Object) {
    binding(object);
}

fn binding(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        resources(spec, "matchResources");
    }
}

fn resources(spec: &mut Members, name: &str) {
    if let Some(resources) = member(spec, name) {
        matching(resources);
        rules(resources, "resourceRules");
        rules(resources, "excludeResourceRules");
    }
}
