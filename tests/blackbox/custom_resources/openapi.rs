//! OpenAPI documents of custom resources (crd.md 5).

use serde_json::{Value, json};

use super::{
    DEFINITIONS, condition, conditioned, definition, establish, gone, lamps, over_each, path_of,
    schema, until, version,
};
use crate::harness::{Answer, Call, Client, Daemon};

const V3: &str = "/openapi/v3/apis/example.com/v1";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns a value without its descriptions.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, of)| *name != "description" || !of.is_string())
            .map(|(name, of)| (name.clone(), plain(of)))
            .collect(),
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

async fn v3(client: &Client) -> Value {
    client.call(Call::get(V3)).await.expect(200)
}

async fn v2(client: &Client) -> Value {
    client.call(Call::get("/openapi/v2")).await.expect(200)
}

fn kind(document: &Value, name: &str) -> Value {
    let schemas = match &document["definitions"] {
        Value::Null => &document["components"]["schemas"],
        schemas => schemas,
    };
    plain(&schemas[name])
}

/// A definition with a field of each kind that documents show in a way of their own.
fn seals() -> Value {
    let schema = json!({"type": "object", "description": "A seal.", "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "required": ["both", "maybe"], "properties": {
                "both": {"type": "string", "maxLength": 20},
                "new": {"type": "string", "default": "n"},
                "port": {"x-kubernetes-int-or-string": true},
                "maybe": {"type": "string", "nullable": true},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}},
                "one": {"type": "object", "properties": {"a": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"not": {"required": ["a"]}}]}},
                "x-kubernetes-validations": [{"rule": "self.both != 'x'"}]},
            "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let mut first = version("v1", true, &schema);
    first["subresources"] = json!({"status": {}, "scale":
        {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    first["selectableFields"] = json!([{"jsonPath": ".spec.both"}]);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut seals = definition(
        "seals",
        "Seal",
        &json!([first, version("v2", false, &open)]),
    );
    seals["spec"]["names"]["listKind"] = json!("Colony");
    seals
}

fn metadata(place: &str, wraps: bool) -> Value {
    let reference = json!({"$ref": format!("{place}{META}.ObjectMeta")});
    match wraps {
        true => json!({"allOf": [reference]}),
        false => reference,
    }
}

/// Returns the members of kind and list that do not depend on the format.
fn extended(mut schema: Value, kind: &str, version: &str) -> Value {
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": "example.com", "version": version, "kind": kind}]);
    if version == "v1" {
        schema["x-kubernetes-selectable-fields"] = json!([{"fieldPath": "spec.both"}]);
    }
    schema
}

/// CRD-106 to CRD-108: kinds and lists in both formats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_show_kinds_and_lists_crd_106_crd_107_crd_108() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &seals()).await;
    let text = json!({"type": "string"});
    let (third, second) = (v3(&client).await, v2(&client).await);
    let place = "#/components/schemas/";
    let expected = json!({"type": "object", "required": ["spec"], "properties": {
        "apiVersion": text, "kind": text, "metadata": metadata(place, true),
        "spec": {"type": "object", "required": ["both", "maybe"], "properties": {
            "both": {"type": "string", "maxLength": 20},
            "new": {"type": "string", "default": "n"},
            "port": {"x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "maybe": {"type": "string", "nullable": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                "required": ["kind", "apiVersion"], "properties": {"spec": {"type": "object"},
                    "apiVersion": text, "kind": text, "metadata": metadata(place, true)}},
            "one": {"type": "object", "properties": {"a": text},
                "oneOf": [{"required": ["a"]}, {"not": {"required": ["a"]}}]}},
            "x-kubernetes-validations": [{"rule": "self.both != 'x'"}]},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let expected = extended(expected, "Seal", "v1");
    assert_eq!(kind(&third, "com.example.v1.Seal"), expected);
    let described = &third["components"]["schemas"]["com.example.v1.Seal"];
    assert_eq!(described["description"], "A seal.");
    let of_metadata = described["properties"]["metadata"]["description"].as_str();
    assert!(
        of_metadata
            .unwrap()
            .starts_with("Standard object's metadata.")
    );

    let place = "#/definitions/";
    let expected = json!({"type": "object", "required": ["spec"], "properties": {
        "apiVersion": text, "kind": text, "metadata": metadata(place, false),
        "spec": {"type": "object", "required": ["both"], "properties": {
            "both": {"type": "string", "maxLength": 20},
            "new": text,
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                "required": ["kind", "apiVersion"], "properties": {"spec": {"type": "object"},
                    "apiVersion": text, "kind": text, "metadata": metadata(place, false)}},
            "one": {"type": "object", "properties": {"a": text}}},
            "x-kubernetes-validations": [{"rule": "self.both != 'x'"}]},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let expected = extended(expected, "Seal", "v1");
    assert_eq!(kind(&second, "com.example.v1.Seal"), expected);
    // Any field is allowed, so kubectl must see no field at all.
    let expected = extended(json!({"type": "object"}), "Seal", "v2");
    assert_eq!(kind(&second, "com.example.v2.Seal"), expected);

    for (document, place) in [
        (&third, "#/components/schemas/"),
        (&second, "#/definitions/"),
    ] {
        let list = kind(document, "com.example.v1.Colony");
        assert_eq!(list["required"], json!(["items"]));
        let items = json!({"$ref": format!("{place}com.example.v1.Seal")});
        assert_eq!(
            list["properties"]["items"],
            json!({"type": "array", "items": items})
        );
        let kinds = extended(json!({}), "Colony", "v1");
        for name in kinds.as_object().unwrap().keys() {
            assert_eq!(list[name], kinds[name], "{name}");
        }
    }
}

/// CRD-110: paths and operations, which are the same in both formats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_show_operations_crd_110() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &seals()).await;
    let document = v3(&client).await;
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    assert_eq!(document["info"], info);
    assert!(document["components"]["securitySchemes"].is_null());
    let root = "/apis/example.com/v1";
    let own = format!("{root}/namespaces/{{namespace}}/seals");
    let operations = |document: &Value| {
        let paths = document["paths"].as_object().unwrap().clone();
        let own = paths
            .into_iter()
            .filter(|(path, _)| path.starts_with(&format!("{root}/")));
        let methods = own.flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().clone().into_iter();
            let methods = methods.filter(|(method, _)| method != "parameters");
            methods.map(move |(method, of)| {
                let id = of["operationId"].as_str().unwrap();
                format!("{method} {path} {id}")
            })
        });
        methods.collect::<Vec<String>>()
    };
    let mut expected: Vec<String> = [
        ("delete", "", "deleteExampleComV1CollectionNamespacedSeal"),
        ("get", "", "listExampleComV1NamespacedSeal"),
        ("post", "", "createExampleComV1NamespacedSeal"),
        ("delete", "/{name}", "deleteExampleComV1NamespacedSeal"),
        ("get", "/{name}", "readExampleComV1NamespacedSeal"),
        ("patch", "/{name}", "patchExampleComV1NamespacedSeal"),
        ("put", "/{name}", "replaceExampleComV1NamespacedSeal"),
        (
            "get",
            "/{name}/scale",
            "readExampleComV1NamespacedSealScale",
        ),
        (
            "patch",
            "/{name}/scale",
            "patchExampleComV1NamespacedSealScale",
        ),
        (
            "put",
            "/{name}/scale",
            "replaceExampleComV1NamespacedSealScale",
        ),
        (
            "get",
            "/{name}/status",
            "readExampleComV1NamespacedSealStatus",
        ),
        (
            "patch",
            "/{name}/status",
            "patchExampleComV1NamespacedSealStatus",
        ),
        (
            "put",
            "/{name}/status",
            "replaceExampleComV1NamespacedSealStatus",
        ),
    ]
    .map(|(method, path, id)| format!("{method} {own}{path} {id}"))
    .to_vec();
    let everywhere = format!("get {root}/seals listExampleComV1SealForAllNamespaces");
    expected.push(everywhere);
    assert_eq!(operations(&document), expected);
    assert_eq!(operations(&v2(&client).await), expected);

    let paths = &document["paths"];
    let status = &paths[format!("{own}/{{name}}/status")];
    let names = |parameters: &Value| {
        let parameters = parameters.as_array().into_iter().flatten();
        let names = parameters.map(|of| of["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<String>>()
    };
    assert_eq!(
        names(&status["parameters"]),
        ["name", "namespace", "pretty"]
    );
    assert_eq!(names(&status["get"]["parameters"]), ["resourceVersion"]);
    let patch = ["dryRun", "fieldManager", "fieldValidation", "force"];
    assert_eq!(names(&status["patch"]["parameters"]), patch);
    assert_eq!(
        status["get"]["description"],
        "read status of the specified Seal"
    );
    let bodies = &status["patch"]["requestBody"]["content"];
    let bodies: Vec<&String> = bodies.as_object().unwrap().keys().collect();
    let expected = [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    assert_eq!(bodies, expected);
    assert_eq!(
        paths[&own]["get"]["description"],
        "list objects of kind Seal"
    );
    // A scale has its own schema, but is an operation on a seal.
    let scale = &paths[format!("{own}/{{name}}/scale")]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Seal");
    let answer = &scale["responses"]["200"]["content"]["application/json"]["schema"];
    let reference = "#/components/schemas/io.k8s.api.autoscaling.v1.Scale";
    assert_eq!(answer["$ref"], reference);
}

/// Returns the hashes of the index, by the key of the document.
async fn hash(client: &Client, key: &str) -> Option<String> {
    let index = client.call(Call::get("/openapi/v3")).await.expect(200);
    let url = index["paths"][key]["serverRelativeURL"].as_str()?;
    Some(url.split_once("?hash=").unwrap().1.to_owned())
}

/// Returns whether the documents have a kind of a version.
async fn shows(client: &Client, version: &str, name: &str) -> [bool; 3] {
    let key = format!("apis/example.com/{version}");
    let name = format!("com.example.{version}.{name}");
    let third = client.call(Call::get(&format!("/openapi/v3/{key}"))).await;
    let third = third.status == 200 && kind(&third.json(), &name).is_object();
    let second = kind(&v2(client).await, &name).is_object();
    [hash(client, &key).await.is_some(), third, second]
}

/// CRD-105, CRD-109: a document changes with its definitions, and with no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_follow_their_definitions_crd_105_crd_109() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let apps = hash(&client, "apis/apps/v1").await;
        assert_eq!(hash(&client, "apis/example.com/v1").await, None);
        let mut other = definition("pots", "Pot", &json!([version("v1", true, &schema())]));
        other["metadata"]["name"] = json!("pots.other.example.com");
        other["spec"]["group"] = json!("other.example.com");
        establish(&client, &other).await;
        establish(&client, &lamps()).await;
        let other = hash(&client, "apis/other.example.com/v1").await;
        let first = hash(&client, "apis/example.com/v1").await.unwrap();
        let tag = format!("\"{first}\"");
        let conditional = || Call::get(V3).header("if-none-match", &tag);
        assert_eq!(client.call(conditional()).await.status, 304);
        let written = daemon.count("taffrail_documents_written_total").await;

        // A changed schema, by the very next request.
        let mut changed = schema();
        changed["properties"]["spec"]["properties"]["new"] = json!({"type": "boolean"});
        let versions = json!([
            version("v1", true, &changed),
            version("v2", false, &schema())
        ]);
        let patch = Call::merge_patch(&path_of(&lamps()), &json!({"spec": {"versions": versions}}));
        client.call(patch).await.expect(200);
        let is_new = |answer: &Answer| answer.status == 200;
        let document = until(&client, conditional, is_new).await.json();
        let lamp = kind(&document, "com.example.v1.Lamp");
        assert_eq!(
            lamp["properties"]["spec"]["properties"]["new"],
            json!({"type": "boolean"})
        );
        assert_ne!(hash(&client, "apis/example.com/v1").await, Some(first));
        assert_eq!(shows(&client, "v2", "Lamp").await, [true; 3]);
        assert_eq!(hash(&client, "apis/other.example.com/v1").await, other);
        assert_eq!(hash(&client, "apis/apps/v1").await, apps);
        // Two documents of versions, that of all resources, and lists of resources.
        let more = daemon.count("taffrail_documents_written_total").await - written;
        assert!(more <= 10, "{more}");

        // A version that is no longer served, and a definition that never is.
        let mut unserved = version("v2", false, &schema());
        unserved["served"] = json!(false);
        let versions = json!([version("v1", true, &changed), unserved]);
        let patch = Call::merge_patch(&path_of(&lamps()), &json!({"spec": {"versions": versions}}));
        client.call(patch).await.expect(200);
        gone(&client, "/openapi/v3/apis/example.com/v2").await;
        assert_eq!(shows(&client, "v2", "Lamp").await, [false; 3]);
        let mut rival = definition("lights", "Lamp", &json!([version("v1", true, &schema())]));
        rival["spec"]["names"]["shortNames"] = json!(["li"]);
        client
            .call(Call::post(DEFINITIONS, &rival))
            .await
            .expect(201);
        let rival = conditioned(&client, &path_of(&rival), "NamesAccepted", "False").await;
        assert!(condition(&rival, "Established").is_some());
        let paths = v3(&client).await["paths"].to_string();
        assert!(
            paths.contains("/lamps") && !paths.contains("/lights"),
            "{paths}"
        );

        // It goes with its definition.
        client
            .call(Call::delete(&path_of(&rival)))
            .await
            .expect(200);
        client
            .call(Call::delete(&path_of(&lamps())))
            .await
            .expect(200);
        gone(&client, V3).await;
        assert_eq!(shows(&client, "v1", "Lamp").await, [false; 3]);
        assert_eq!(hash(&client, "apis/other.example.com/v1").await, other);
    })
    .await;
}

/// API-39, API-41: both documents in protobuf, which has the tag of the JSON.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_come_in_protobuf_crd_105() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &seals()).await;
    for (path, version) in [(V3, "v3"), ("/openapi/v2", "v2")] {
        let accept = format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf");
        let packed = client.call(Call::get(path).header("accept", &accept)).await;
        assert_eq!(packed.header("content-type"), Some(&*accept));
        let plain = client.call(Call::get(path)).await;
        assert_eq!(packed.header("etag"), plain.header("etag"));
        let has = |text: &str| {
            let mut windows = packed.body.windows(text.len());
            windows.any(|window| window == text.as_bytes())
        };
        for text in [
            "com.example.v1.Seal",
            "com.example.v1.Colony",
            "fieldPath",
            "self.both != 'x'",
        ] {
            assert!(has(text), "{path}: {text}");
        }
    }
}
