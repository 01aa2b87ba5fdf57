//! Creates and updates of definitions: warnings, and rules that an update does not enforce
//! (crd.md 1 and 2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, condition, conditioned, definition, establish, has, lamp, lamps, one_etcd,
    path_of, put_old_lamps, until, version,
};
use crate::harness::{Answer, Call, Client, Daemon};

/// Returns the field and the message of the first cause for which a change is refused.
async fn fault(client: &Client, path: &str, change: &Value) -> [String; 2] {
    let refused = client.call(Call::merge_patch(path, change)).await;
    let refused = refused.refusal(422, "Invalid");
    let cause = &refused["details"]["causes"][0];
    ["field", "message"].map(|name| cause[name].as_str().unwrap().to_owned())
}

/// CRD-9: an unknown format is a warning, on an update only if it was not there before.
#[tokio::test]
async fn unknown_formats_are_warned_of_once_crd_9() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let versions = |formats: &[&str]| {
        let members = formats.iter().enumerate().map(|(at, format)| {
            let member = json!({"type": "string", "format": format});
            (format!("m{at}"), member)
        });
        let members: serde_json::Map<String, Value> = members.collect();
        json!([version(
            "v1",
            true,
            &json!({"type": "object", "properties": members})
        )])
    };
    let warnings = |answer: &Answer| {
        let values = answer.headers.get_all("warning").iter();
        let values = values.map(|value| value.to_str().unwrap().to_owned());
        values.collect::<Vec<_>>()
    };
    let lamps = definition("lamps", "Lamp", &versions(&["uuid", "colour"]));
    let created = client.call(Call::post(DEFINITIONS, &lamps)).await;
    let colour = "299 - \"unrecognized format \\\"colour\\\"\"";
    assert_eq!(warnings(&created), [colour]);
    created.expect(201);
    let path = path_of(&lamps);
    for (formats, warned) in [
        (["uuid", "colour", "date"], None),
        (
            ["tint", "colour", "date"],
            Some("299 - \"unrecognized format \\\"tint\\\"\""),
        ),
        (["tint", "tint", "date"], None),
    ] {
        let change = json!({"spec": {"versions": versions(&formats)}});
        let changed = client.call(Call::merge_patch(&path, &change)).await;
        assert_eq!(warnings(&changed).first().map(String::as_str), warned);
        changed.expect(200);
    }
}

/// CRD-11: a default or an example of null counts as absent.
#[tokio::test]
async fn a_default_of_null_counts_as_absent_crd_11() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let members = json!({
        "colour": {"type": "string", "default": null, "example": null},
        "watts": {"type": "integer", "default": 5}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": members}}});
    let made = definition("lamps", "Lamp", &json!([version("v1", true, &schema)]));
    let made = establish(&client, &made).await;
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour";
    assert_eq!(made.pointer(place), Some(&json!({"type": "string"})));
    let made = client.call(Call::post(LAMPS, &lamp("a", json!({})))).await;
    assert_eq!(made.expect(201)["spec"], json!({"watts": 5}));
}

/// CRD-30, CRD-66, CRD-210: before it is established, a definition may have certificates that
/// can't be read, and is not established. Afterwards they must be readable, unless they were not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_an_established_definition_must_be_readable_crd_30() {
    const BAD: &str = "QUFB";
    const BLANK: &str = "Cg==";
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let good = STANDARD.encode(std::fs::read(daemon.data().join("pki/ca.crt")).unwrap());
    let with = |bundle: &str| {
        json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com", "caBundle": bundle}}}}})
    };
    let path = path_of(&lamps());
    for bundle in [BAD, BLANK] {
        let mut lamps = lamps();
        lamps["spec"]["conversion"] = with(bundle)["spec"]["conversion"].clone();
        client
            .call(Call::post(DEFINITIONS, &lamps))
            .await
            .expect(201);
        let is_refused = |answer: &Answer| {
            let found = answer.json();
            let reason = condition(&found, "Established").map(|found| found["reason"].clone());
            reason == Some(json!("InvalidCABundle"))
        };
        until(&client, || Call::get(&path), is_refused).await;
        // It stays bad, and another bad one is accepted as well.
        let other = client.call(Call::merge_patch(&path, &with("QkJC")));
        assert!(!has(&other.await.expect(200), "Established", "True"));
        client.call(Call::delete(&path)).await.expect(200);
        super::gone(&client, &path).await;
    }
    let mut lamps = lamps();
    lamps["spec"]["conversion"] = with(&good)["spec"]["conversion"].clone();
    establish(&client, &lamps).await;
    for (bundle, why) in [
        (BAD, "unable to parse bytes as PEM block"),
        (BLANK, "unable to parse bytes as PEM block"),
        (
            "LS0tLS1CRUdJTiBLRVktLS0tLQpRVUZCCi0tLS0tRU5EIEtFWS0tLS0tCg==",
            "no valid certificate authority data seen",
        ),
        (
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tClFVRkIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "failed to parse certificate: x509: malformed certificate",
        ),
    ] {
        let [field, message] = fault(&client, &path, &with(bundle)).await;
        assert_eq!(field, "spec.conversion.webhookClientConfig.caBundle");
        let wanted =
            format!("Invalid value: \"{bundle}\": unable to load root certificates: {why}");
        assert_eq!(message, wanted);
    }
    let none = client.call(Call::merge_patch(&path, &with(""))).await;
    assert!(has(&none.expect(200), "Established", "True"));
    client
        .call(Call::merge_patch(&path, &with(&good)))
        .await
        .expect(200);
}

/// CRD-29, CRD-30, CRD-41, CRD-47: an update of a definition of long ago may keep what it violates,
/// and must be right where something new depends on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_may_keep_what_was_wrong_before_crd_29_crd_41() {
    let Some((cluster, servers)) = one_etcd().await else {
        return;
    };
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    let members = json!({
            "preserveUnknownFields": false,
            "versions": [{"name": "v1", "served": true, "storage": true},
                {"name": "v2", "served": true, "storage": false}],
            "validation": {"openAPIV3Schema": {"type": "object"}},
            "conversion": {"strategy": "Webhook", "conversionReviewVersions": ["v9"],
                "webhookClientConfig": {"url": "https://example.com", "caBundle": "QUFB"}}});
    let status = json!({"storedVersions": ["v1"],
            "acceptedNames": {"plural": "lamps", "singular": "lamp", "kind": "Lamp",
                "listKind": "LampList"},
            "conditions": [
                {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts",
                    "message": "no conflicts found", "lastTransitionTime": "2020-01-01T00:00:00Z"},
                {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                    "message": "the initial names have been accepted",
                    "lastTransitionTime": "2020-01-01T00:00:00Z"}]});
    put_old_lamps(&cluster, &members, &status).await;
    let path = path_of(&lamps());
    conditioned(&client, &path, "Established", "True").await;
    // Neither the review nor the certificates were right.
    let client_config = |bundle: &str, review: &str| {
        json!({"spec": {"conversion": {"webhook": {"conversionReviewVersions": [review],
            "clientConfig": {"caBundle": bundle}}}}})
    };
    for (bundle, review) in [("QkJC", "v9"), ("QkJC", "v8"), ("QkJC", "v1")] {
        let change = client_config(bundle, review);
        let changed = client.call(Call::merge_patch(&path, &change)).await;
        let changed = changed.expect(200);
        let webhook = &changed["spec"]["conversion"]["webhook"];
        assert_eq!(webhook["clientConfig"]["caBundle"], bundle);
    }
    // Now the review is right and must stay so.
    let [field, message] = fault(&client, &path, &client_config("QkJC", "v9")).await;
    assert_eq!(field, "spec.conversion.conversionReviewVersions");
    assert!(
        message.ends_with("must include at least one of v1, v1beta1"),
        "{message}"
    );
    // Unknown fields are dropped, so schemas must be structural.
    let schema = json!({"type": "object", "properties": {"spec": {}}});
    let versions = json!([version("v1", true, &schema), version("v2", false, &schema)]);
    let [field, message] = fault(&client, &path, &json!({"spec": {"versions": versions}})).await;
    assert_eq!(
        field,
        "spec.validation.openAPIV3Schema.properties[spec].type"
    );
    assert!(
        message.contains("must not be empty for specified object fields"),
        "{message}"
    );
}
