//! Rare parts of definitions and objects: definitions of long ago, invalid parts, limits.

use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, STORED_LAMPS, condition, conditioned, definition, establish, lamp, lamps,
    one_etcd, over_each, path_of, put_old_lamps, version,
};
use crate::harness::{Call, Client, Daemon};

/// Returns the fields of the causes for which a definition is refused.
async fn faults(client: &Client, definition: &Value) -> Vec<String> {
    let refused = client.call(Call::post(DEFINITIONS, definition)).await;
    let refused = refused.refusal(422, "Invalid");
    let causes = refused["details"]["causes"].as_array().unwrap().iter();
    let fields = causes.map(|cause| cause["field"].as_str().unwrap().to_owned());
    fields.collect()
}

/// CRD-19, CRD-24, CRD-29: versions without a schema, warnings without a deprecation, and webhooks
/// that cannot be called.
#[tokio::test]
async fn invalid_parts_of_definitions_are_refused_crd_19_crd_24_crd_29() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut without = lamps();
    without["spec"]["versions"][0]["schema"] = Value::Null;
    let field = "spec.versions[0].schema.openAPIV3Schema";
    assert_eq!(faults(&client, &without).await, [field]);
    for warning in [
        json!({"deprecationWarning": "a"}),
        json!({
        "deprecated": true, "deprecationWarning": "a".repeat(257)}),
    ] {
        let mut lamps = lamps();
        let own = lamps["spec"]["versions"][0].as_object_mut().unwrap();
        own.extend(warning.as_object().unwrap().clone());
        let field = "spec.versions[0].deprecationWarning";
        assert_eq!(faults(&client, &lamps).await, [field]);
    }
    let service = json!({"name": "a", "namespace": "b"});
    let good = json!({"url": "https://a"});
    for (strategy, config, versions) in [
        ("None", &good, json!(["v1"])),
        ("Webhook", &json!({}), json!(["v1"])),
        (
            "Webhook",
            &json!({"url": "https://a", "service": service}),
            json!(["v1"]),
        ),
        ("Webhook", &json!({"url": "http://a"}), json!(["v1"])),
        ("Webhook", &json!({"url": "https://u@a"}), json!(["v1"])),
        ("Webhook", &json!({"url": "https://a#b"}), json!(["v1"])),
        ("Webhook", &json!({"url": "https://a?b=c"}), json!(["v1"])),
        ("Webhook", &good, json!([])),
        ("Webhook", &good, json!(["v1", "v1"])),
        ("Webhook", &good, json!(["v9"])),
        ("Webhook", &good, json!(["v1", "V_"])),
    ] {
        let mut lamps = lamps();
        lamps["spec"]["conversion"] = json!({"strategy": strategy, "webhook": {
            "clientConfig": config, "conversionReviewVersions": versions}});
        let fields = faults(&client, &lamps).await;
        assert!(
            fields
                .iter()
                .all(|field| field.starts_with("spec.conversion")),
            "{strategy} {config} {versions}: {fields:?}"
        );
    }
}

/// CRD-2, CRD-20, CRD-47, CRD-129, CRD-195: a definition of long ago, which has no structural
/// schema, keeps what its objects have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_of_long_ago_is_served_crd_2_crd_47() {
    let Some((cluster, servers)) = one_etcd().await else {
        return;
    };
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    let members = json!({
            "versions": [{"name": "v1", "served": true, "storage": true}],
            "validation": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
                "colour": {"maxLength": 3}}}}}},
            "additionalPrinterColumns": [
                {"name": "Colour", "type": "string", "JSONPath": ".spec.colour"}]});
    let status = json!({"conditions": [], "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": ["v1"]});
    let mut etcd = put_old_lamps(&cluster, &members, &status).await;
    let path = path_of(&lamps());
    let read = conditioned(&client, &path, "Established", "True").await;
    let read = match condition(&read, "NonStructuralSchema") {
        Some(_) => read,
        None => conditioned(&client, &path, "NonStructuralSchema", "True").await,
    };
    let fault = condition(&read, "NonStructuralSchema").unwrap();
    let message = fault["message"].as_str().unwrap();
    assert_eq!(fault["reason"], "Violations");
    let legacy = "spec.preserveUnknownFields: Invalid value: true: must be false";
    assert!(message.contains(legacy), "{message}");
    let place = "spec.versions[0].schema.openAPIV3Schema";
    assert!(message.contains(place), "{message}");
    assert_eq!(read["spec"]["preserveUnknownFields"], true);
    let column = &read["spec"]["versions"][0]["additionalPrinterColumns"][0];
    assert_eq!(column["jsonPath"], ".spec.colour");
    let kept = json!({"colour": "red", "odd": {"a": [1]}});
    let made = client.call(Call::post(LAMPS, &lamp("a", kept.clone())));
    assert_eq!(made.await.expect(201)["spec"], kept);
    let long = lamp("b", json!({"colour": "blue"}));
    client
        .call(Call::post(LAMPS, &long))
        .await
        .refusal(422, "Invalid");
    // The status was written as kube-apiserver writes it.
    let found = etcd.get(STORED_LAMPS, None).await.unwrap();
    let stored: Value = serde_json::from_slice(found.kvs()[0].value()).unwrap();
    assert_eq!(stored["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!(stored["spec"]["validation"], members["validation"]);
    assert_eq!(stored["spec"]["version"], "v1");
}

/// CRD-73, CRD-95, CRD-96, CRD-143, CRD-228, CRD-231, CRD-232: namespaces, dry runs, limits, and
/// one form of an object in all answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_obey_namespaces_and_limits_crd_95_crd_96_crd_143_crd_228_crd_232() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let observed = json!({"status": {"observedGeneration": 7}});
        let status = format!("{}/status", path_of(&lamps()));
        let written = client.call(Call::merge_patch(&status, &observed)).await;
        assert_eq!(written.expect(200)["status"]["observedGeneration"], 7);
        let red = |name: &str| lamp(name, json!({"colour": "red"}));
        let absent = LAMPS.replace("default", "absent");
        client
            .call(Call::post(&absent, &red("a")))
            .await
            .refusal(404, "NotFound");
        let other = LAMPS.replace("default", "kube-system");
        let mut watch = client.watch(&format!("{other}?watch=true")).await;
        let mut made = Vec::new();
        for path in [LAMPS, &other] {
            made.push(client.call(Call::post(path, &red("a"))).await.expect(201));
        }
        assert_ne!(made[0]["metadata"]["uid"], made[1]["metadata"]["uid"]);
        let event = watch.event().await;
        let read = client
            .call(Call::get(&format!("{other}/a")))
            .await
            .expect(200);
        let list = client.call(Call::get(&other)).await.expect(200);
        assert_eq!(event["object"], read);
        assert_eq!(list["items"], json!([read]));
        assert_eq!(read, made[1]);
        let mut dry = red("");
        dry["metadata"] = json!({"generateName": "g-"});
        let path = format!("{LAMPS}?dryRun=All");
        let shown = client.call(Call::post(&path, &dry)).await.expect(201);
        assert!(shown["metadata"]["name"].as_str().unwrap().len() > 2);
        assert_eq!(shown["metadata"].get("resourceVersion"), None);
        let list = client.call(Call::get(LAMPS)).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let mut annotated = red("b");
        annotated["metadata"]["annotations"] = json!({"a": "x".repeat(262_145)});
        let refused = client.call(Call::post(LAMPS, &annotated)).await;
        let refused = refused.refusal(422, "Invalid");
        let cause = &refused["details"]["causes"][0];
        assert_eq!(cause["field"], "metadata.annotations");
        assert_eq!(cause["reason"], "FieldValueTooLong");
        let large = lamp(
            "c",
            json!({"colour": "red", "free": {"x": "x".repeat(1_700_000)}}),
        );
        let answer = client.call(Call::post(LAMPS, &large)).await;
        // Only etcd has a limit below that of a request.
        if answer.status != 201 {
            let refused = answer.expect(500);
            assert_eq!(refused["message"], "etcdserver: request is too large");
        }
    })
    .await;
}

/// CRD-163, CRD-171, CRD-172, CRD-187: values in rules have types by format, sets have no order,
/// and a status without a subresource is data.
#[tokio::test]
async fn rules_see_values_by_their_formats_crd_163_crd_171_crd_172_crd_187() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let first = json!({"rule": "!oldSelf.hasValue() || self == oldSelf.value()",
        "optionalOldSelf": true, "message": "is fixed"});
    let members = json!({
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "span": {"type": "string", "format": "duration"},
        "bytes": {"type": "string", "format": "byte"},
        "either": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 9,
            "items": {"type": "string"}},
        "fixed": {"type": "string", "x-kubernetes-validations": [first]}});
    let rules = [
        "self.at.getFullYear() == 2020",
        "self.day < self.at",
        "self.span > duration('1h')",
        "self.bytes == b'abc'",
        "type(self.either) == int ? self.either == 5 : self.either == '5'",
        "!has(self.maybe) || self.maybe != ''",
        "self.set == ['b', 'a']",
        "self.set + ['a', 'c'] == ['c', 'b', 'a']",
    ];
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": members, "x-kubernetes-validations": rules},
        "status": {"type": "object", "properties": {"lit": {"type": "boolean"}}}}});
    let lamps = definition("lamps", "Lamp", &json!([version("v1", true, &schema)]));
    let made = establish(&client, &lamps).await;
    let kept = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fixed";
    let kept = made.pointer(kept).unwrap();
    assert_eq!(kept["x-kubernetes-validations"][0]["optionalOldSelf"], true);
    let good = json!({"at": "2020-05-01T00:00:00Z", "day": "2020-04-30", "span": "1h1s",
        "bytes": "YWJj", "either": "5", "maybe": null, "set": ["a", "b"], "fixed": "f"});
    let mut sent = lamp("a", good.clone());
    sent["status"] = json!({"lit": true});
    let made = client.call(Call::post(LAMPS, &sent)).await.expect(201);
    assert_eq!(made["status"], json!({"lit": true}));
    let one = format!("{LAMPS}/a");
    let off = json!({"status": {"lit": false}});
    let patched = client.call(Call::merge_patch(&one, &off)).await.expect(200);
    assert_eq!(patched["metadata"]["generation"], 2);
    for (member, bad) in [
        ("at", json!("2021-05-01T00:00:00Z")),
        ("day", json!("2020-05-02")),
        ("span", json!("59m")),
        ("bytes", json!("YWI=")),
        ("either", json!(6)),
        ("maybe", json!("")),
        ("set", json!(["a", "c"])),
        ("fixed", json!("g")),
    ] {
        let patch = json!({"spec": {member: bad}});
        let refused = client.call(Call::merge_patch(&one, &patch)).await;
        refused.refusal(422, "Invalid");
    }
    let mut strange = lamp("b", good);
    strange["spec"]["bytes"] = json!("?");
    client
        .call(Call::post(LAMPS, &strange))
        .await
        .refusal(422, "Invalid");
}
