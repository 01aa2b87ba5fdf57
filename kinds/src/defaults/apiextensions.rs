//! Defaults of CustomResourceDefinitions (API-236).

use api::object::Object;
use serde_json::{Value, json};

use super::{Members, member, member_or_new, set_absent, set_default};

/// Sets the defaults of a CustomResourceDefinition.
pub fn customresourcedefinition(object: &mut Object) {
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    if let Some(names) = member(spec, "names") {
        let kind = names.get("kind").and_then(Value::as_str);
        let kind = kind.unwrap_or_default().to_owned();
        if !kind.is_empty() {
            set_default(names, "singular", kind.to_lowercase());
            set_default(names, "listKind", format!("{kind}List"));
        }
    }
    set_absent(spec, "conversion", json!({"strategy": "None"}));
    if let Some(conversion) = member(spec, "conversion") {
        drop_empty_webhook(conversion);
        webhook(conversion);
    }
    let stored = storage_version(spec).map(str::to_owned);
    let status = member_or_new(&mut object.0, "status");
    if let (Some(status), Some(stored)) = (status, stored) {
        let versions = status.get("storedVersions").and_then(Value::as_array);
        if versions.is_none_or(Vec::is_empty) {
            status.insert("storedVersions".to_owned(), json!([stored]));
        }
    }
}

/// Drops a webhook without any members: the internal type of kube-apiserver has its members without
/// a struct around them. A webhook with nothing but an empty list is dropped when it is stored.
fn drop_empty_webhook(conversion: &mut Members) {
    let is_nothing = |value: Option<&Value>| value.is_none_or(Value::is_null);
    let is_empty = member(conversion, "webhook").is_some_and(|webhook| {
        let parts = ["clientConfig", "conversionReviewVersions"];
        parts.iter().all(|part| is_nothing(webhook.get(*part)))
    });
    if is_empty {
        conversion.remove("webhook");
    }
}

/// Sets the default port of the service of a conversion webhook.
fn webhook(conversion: &mut Members) {
    let webhook = member(conversion, "webhook");
    let client = webhook.and_then(|webhook| member(webhook, "clientConfig"));
    if let Some(service) = client.and_then(|client| member(client, "service")) {
        set_absent(service, "port", 443);
    }
}

/// Returns the name of the storage version.
fn storage_version(spec: &Members) -> Option<&str> {
    let versions = spec.get("versions")?.as_array()?;
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let stored = versions.iter().find(is_stored)?;
    // An absent name counts as the empty one.
    Some(stored.get("name").and_then(Value::as_str).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-236: answers of kube-apiserver 1.36.
    #[test]
    fn a_webhook_without_members_is_dropped() {
        for (given, is_kept) in [
            (json!({}), false),
            (
                json!({"clientConfig": null, "conversionReviewVersions": null}),
                false,
            ),
            (json!({"conversionReviewVersions": []}), true),
            (json!({"clientConfig": {}}), true),
            (json!({"conversionReviewVersions": ["v1"]}), true),
        ] {
            let spec = json!({"conversion": {"strategy": "None", "webhook": given}});
            let definition = json!({"spec": spec});
            let definition = definition.as_object().expect("an object");
            let mut object = Object::of(definition.clone());
            customresourcedefinition(&mut object);
            let conversion = object.at(&["spec", "conversion"]).expect("a conversion");
            assert_eq!(conversion.get("webhook").is_some(), is_kept, "{given}");
        }
    }
}
