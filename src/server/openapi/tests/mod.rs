use std::io::Read;
use std::sync::Arc;

use futures_util::FutureExt;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH};

use super::*;
use crate::auth::service_accounts::{ServiceAccountConfig, ServiceAccountTokens};
use crate::auth::{Authenticators, Authorizer, Authorizers};
use crate::kinds::definitions::built_in;
use crate::registry::component_statuses::ComponentStatusStore;
use crate::registry::service_account_tokens::{BoundObjects, TokenStore};
use crate::registry::{Catalog, reviews};
use crate::server::testing::{run, stored};

mod custom;
mod recorded;

/// Returns the documents of all that the daemon serves.
fn openapi() -> OpenApi {
    let mut catalog = None;
    run(async {
        let registry = stored(false).await.registry;
        let authenticators = Authenticators::new(Vec::new(), Default::default());
        let authorizer: Arc<dyn Authorizer> = Arc::new(Authorizers::new(Vec::new()));
        registry.add_others(reviews::paths(
            &Arc::new(authenticators),
            &authorizer,
            &[],
            registry.admission(),
        ));
        registry.add_other(Arc::new(ComponentStatusStore::new(Vec::new())));
        registry.add_other(Arc::new(tokens(&registry.current())));
        catalog = Some(registry.current());
    });
    OpenApi::new(catalog.unwrap(), Arc::new(Shared::new(true, None)))
}

/// Returns the storage of the token subresource with a known issuer.
fn tokens(catalog: &Catalog) -> TokenStore {
    let folder = tempfile::tempdir().expect("a folder");
    let config = ServiceAccountConfig {
        issuers: vec!["https://a.example".to_owned()],
        data_dir: folder.path().to_owned(),
        ..ServiceAccountConfig::default()
    };
    let tokens = ServiceAccountTokens::load(config, Default::default()).expect("keys");
    let objects = BoundObjects::of(catalog).expect("service accounts");
    TokenStore::new(&Arc::new(tokens), &Arc::new(objects))
}

fn headers(name: http::HeaderName, value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, value.parse().expect("a header"));
    headers
}

fn body(answer: Answer) -> Vec<u8> {
    match answer.into_body() {
        ResponseBody::Full(body) => body.to_vec(),
        ResponseBody::Chunks(pieces) => {
            let pieces = pieces.collect().now_or_never();
            pieces.expect("nothing to wait for").concat()
        }
        _ => Vec::new(),
    }
}

fn json(answer: Answer) -> Value {
    serde_json::from_slice(&body(answer)).expect("a document")
}

fn v3(key: &str) -> Value {
    let answer = openapi().v3(key, &Query::parse(""), &HeaderMap::new());
    json(answer.expect("a document"))
}

/// A value of a field in a protobuf message.
enum Field<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

/// Returns the values of a field in a protobuf message.
fn values(mut message: &[u8], wanted: u64) -> Vec<Field<'_>> {
    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
    let mut found = Vec::new();
    while let Some(tag) = varint(&mut message) {
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut message).expect("a number")),
            1 => {
                let (bytes, rest) = message.split_first_chunk::<8>().expect("eight bytes");
                message = rest;
                Field::Number(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = varint(&mut message).expect("a length");
                let (bytes, rest) = message.split_at(length as usize);
                message = rest;
                Field::Bytes(bytes)
            }
            other => panic!("wire type {other}"),
        };
        if tag >> 3 == wanted {
            found.push(value);
        }
    }
    found
}

/// Returns the values of a length-delimited field.
fn fields(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let found = values(message, wanted).into_iter();
    let bytes = found.filter_map(|value| match value {
        Field::Bytes(bytes) => Some(bytes),
        Field::Number(_) => None,
    });
    bytes.collect()
}

/// Returns the values of a numeric field; those of doubles as their bits.
fn numbers(message: &[u8], wanted: u64) -> Vec<u64> {
    let found = values(message, wanted).into_iter();
    let numbers = found.filter_map(|value| match value {
        Field::Number(number) => Some(number),
        Field::Bytes(_) => None,
    });
    numbers.collect()
}

/// Returns the first message along a path of field numbers.
fn at<'m>(message: &'m [u8], path: &[u64]) -> &'m [u8] {
    path.iter()
        .fold(message, |message, field| fields(message, *field)[0])
}

fn named<'m>(entries: Vec<&'m [u8]>, name: &str) -> &'m [u8] {
    let entry = entries
        .into_iter()
        .find(|entry| at(entry, &[1]) == name.as_bytes());
    at(entry.unwrap_or_else(|| panic!("no {name}")), &[2])
}

#[test]
fn patches_take_field_validation_and_dry_run_api_45() {
    let v2 = json(openapi().v2(&HeaderMap::new(), &Extensions::default()));
    let core = v3("api/v1");
    for (document, path) in [
        (&v2, "/api/v1/namespaces/{namespace}/configmaps/{name}"),
        (&core, "/api/v1/namespaces/{namespace}/configmaps/{name}"),
        (
            &v2,
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
        ),
    ] {
        let patch = &document["paths"][path]["patch"];
        let has = |name: &str| {
            let mut parameters = patch["parameters"].as_array().expect("parameters").iter();
            parameters.any(|given| given["name"] == name && given["in"] == "query")
        };
        assert!(has("fieldValidation") && has("dryRun"), "{path}");
        let kind = &patch["x-kubernetes-group-version-kind"];
        assert!(
            kind["kind"].is_string() && kind["version"] == "v1",
            "{path}"
        );
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_kind_is_described_api_43_and_44() {
    fn references<'d>(value: &'d Value, found: &mut Vec<&'d str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let documents = [
        json(openapi().v2(&HeaderMap::new(), &Extensions::default())),
        v3("api/v1"),
        v3("apis/apps/v1"),
        v3("apis/coordination.k8s.io/v1"),
    ];
    for document in &documents {
        let mut found = Vec::new();
        references(document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
    for definition in built_in() {
        let schema = &documents[0]["definitions"][schemas::name(&definition)];
        assert_eq!(
            schema["x-kubernetes-group-version-kind"],
            json!([{"group": definition.group, "version": definition.version, "kind": definition.kind}]),
        );
    }
}

#[test]
fn operations_are_named_as_kubernetes_names_them_api_46() {
    let core = v3("api/v1");
    for (path, method, id) in [
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces"),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            "put",
            "replaceCoreV1NamespacedPodStatus",
        ),
        ("/api/v1/namespaces/{name}", "get", "readCoreV1Namespace"),
    ] {
        assert_eq!(core["paths"][path][method]["operationId"], id);
    }
    let apps = v3("apis/apps/v1");
    let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(patch["x-kubernetes-action"], "patch");
}

/// API-45, API-223: operations of a subresource with its own kind are about that kind, and its
/// schema is included.
#[test]
fn operations_of_scales_are_about_scales_api_45() {
    let apps = v3("apis/apps/v1");
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale";
    let put = &apps["paths"][path]["put"];
    let id = "replaceAppsV1NamespacedDeploymentScale";
    assert_eq!(put["operationId"], id);
    assert_eq!(
        put["description"],
        "replace scale of the specified Deployment"
    );
    let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(put["x-kubernetes-group-version-kind"], kind);
    let body = &put["requestBody"]["content"]["*/*"]["schema"];
    let scale = "io.k8s.api.autoscaling.v1.Scale";
    let reference = json!({"$ref": format!("#/components/schemas/{scale}")});
    assert_eq!(body, &reference);
    let answer = &put["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(answer, &reference);
    let schemas = &apps["components"]["schemas"];
    assert!(schemas[scale].is_object());
    // It has no lists.
    assert!(schemas[format!("{scale}List")].is_null());
}

#[test]
fn the_protobuf_form_says_the_same_api_39() {
    for accept in [V2.name, V2.old] {
        let answer = openapi().v2(&headers(ACCEPT, accept), &Extensions::default());
        assert_eq!(answer.headers().get(CONTENT_TYPE).expect("a type"), V2.name);
        let document = body(answer);
        assert_eq!(at(&document, &[1]), b"2.0");
        assert_eq!(at(&document, &[2, 2]), b"1.36");
        let item = named(
            fields(at(&document, &[8]), 2),
            "/api/v1/namespaces/{namespace}/configmaps/{name}",
        );
        let patch = at(item, &[8]);
        let parameters = fields(patch, 8).into_iter().filter_map(|parameter| {
            // The other parameters are references.
            let non_body = fields(fields(parameter, 1).first()?, 2);
            let query = fields(non_body.first()?, 3);
            Some(at(query.first()?, &[4]).to_vec())
        });
        let names: Vec<Vec<u8>> = parameters.collect();
        assert!(names.contains(&b"fieldValidation".to_vec()));
        assert!(names.contains(&b"dryRun".to_vec()));
        let kind = at(
            named(fields(patch, 13), "x-kubernetes-group-version-kind"),
            &[2],
        );
        let kind: Value = serde_json::from_slice(kind).expect("json is yaml");
        assert_eq!(kind["kind"], "ConfigMap");
        let definitions = fields(at(&document, &[9]), 1);
        let schema = named(definitions, "io.k8s.api.core.v1.ConfigMap");
        let metadata = named(fields(at(schema, &[25]), 1), "metadata");
        assert_eq!(
            at(metadata, &[1]),
            b"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        );
        assert_eq!(at(schema, &[22, 1]), b"object");
    }
}

/// The field numbers of gnostic's `openapi.v3`.
#[test]
fn the_protobuf_form_of_v3_says_the_same_api_41() {
    let openapi = openapi();
    let get = |accept: &str| {
        let answer = openapi.v3("apis/apps/v1", &Query::parse(""), &headers(ACCEPT, accept));
        answer.expect("a document")
    };
    let (text, packed) = (get(JSON), get(V3.name));
    assert_eq!(packed.headers()[CONTENT_TYPE], V3.name);
    assert_eq!(packed.headers()[ETAG], text.headers()[ETAG]);
    let document = body(packed);
    assert_eq!(at(&document, &[1]), b"3.0.0");
    assert_eq!(at(&document, &[2, 6]), b"1.36");
    let paths = fields(at(&document, &[4]), 1);
    let text = json(text);
    assert_eq!(paths.len(), text["paths"].as_object().unwrap().len());
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = at(named(paths, path), &[10]);
    assert_eq!(at(patch, &[5]), b"patchAppsV1NamespacedDeployment");
    let names = fields(patch, 6).into_iter();
    let names: Vec<&[u8]> = names.map(|parameter| at(parameter, &[1, 1])).collect();
    let expected: [&[u8]; 4] = [b"dryRun", b"fieldManager", b"fieldValidation", b"force"];
    assert_eq!(names, expected);
    let body_of_patch = named(
        fields(at(patch, &[7, 1, 2]), 1),
        "application/apply-patch+yaml",
    );
    let place = b"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
    assert_eq!(at(body_of_patch, &[1, 2, 1]), place);
    let schemas = fields(at(&document, &[5, 1]), 1);
    let deployment = at(named(schemas, "io.k8s.api.apps.v1.Deployment"), &[1]);
    assert_eq!(at(deployment, &[25]), b"object");
    let metadata = named(fields(at(deployment, &[31]), 1), "metadata");
    // A reference with a default, which is an empty object.
    let place = b"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(at(metadata, &[1, 26, 2, 1]), place);
    assert!(at(metadata, &[1, 33]).is_empty());
}

#[test]
fn the_form_that_is_liked_best_is_sent_api_39_api_41() {
    let openapi = openapi();
    let protobuf = V3.name;
    for (accept, expected) in [
        (format!("application/json;q=0.5,{protobuf}"), protobuf),
        (format!("{protobuf};q=0.1,application/json"), JSON),
        (format!("{protobuf};q=0.5,application/json;q=0.5"), protobuf),
        (format!("*/*,{protobuf}"), protobuf),
        (format!("application/json;q=x,{protobuf};q=0.9"), protobuf),
        ("text/*,application/json;q=0.3".to_owned(), JSON),
        ("*/*;q=0".to_owned(), JSON),
        (V3.old.to_owned(), protobuf),
        (format!("{protobuf};x=y"), protobuf),
    ] {
        let of_v3 = openapi.v3("version", &Query::parse(""), &headers(ACCEPT, &accept));
        let found = &of_v3.expect("a document").headers()[CONTENT_TYPE].clone();
        assert_eq!(found, expected, "{accept}");
        let accept = accept.replace("v3", "v2");
        let of_v2 = openapi.v2(&headers(ACCEPT, &accept), &Extensions::default());
        let expected = expected.replace("v3", "v2");
        assert_eq!(of_v2.headers()[CONTENT_TYPE], *expected, "{accept}");
    }
}

#[test]
fn other_forms_are_refused_and_known_ones_not_sent_again_api_39() {
    let refused = openapi().v2(&headers(ACCEPT, "text/plain"), &Extensions::default());
    assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
    let openapi = openapi();
    let first = openapi.v2(&headers(ACCEPT, "*/*"), &Extensions::default());
    let tag = first
        .headers()
        .get(ETAG)
        .expect("a tag")
        .to_str()
        .expect("text")
        .to_owned();
    let second = openapi.v2(&headers(IF_NONE_MATCH, &tag), &Extensions::default());
    assert_eq!(second.status(), StatusCode::NOT_MODIFIED);
    assert!(second.headers().contains_key(VARY));
}

#[test]
fn long_documents_are_compressed_for_who_takes_it_api_65() {
    let answer = openapi().v2(&headers(ACCEPT_ENCODING, "gzip"), &Extensions::default());
    assert_eq!(
        answer.headers().get(CONTENT_ENCODING).expect("an encoding"),
        "gzip"
    );
    let mut plain = Vec::new();
    let packed = body(answer);
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_end(&mut plain)
        .expect("gzip");
    let document: Value = serde_json::from_slice(&plain).expect("a document");
    assert_eq!(document["swagger"], "2.0");
}

#[test]
fn documents_of_versions_are_found_by_hash_api_40_and_41() {
    let openapi = openapi();
    let index = json(openapi.v3_index(&HeaderMap::new(), &Extensions::default()));
    let place = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
        .as_str()
        .expect("a url");
    let (path, query) = place.split_once('?').expect("a hash");
    assert_eq!(path, "/openapi/v3/apis/apps/v1");
    let get = |query: &str| {
        openapi
            .v3("apis/apps/v1", &Query::parse(query), &HeaderMap::new())
            .expect("a document")
    };
    let immutable = get(query);
    assert_eq!(immutable.status(), StatusCode::OK);
    assert_eq!(
        immutable.headers().get(CACHE_CONTROL).expect("one"),
        "public, immutable"
    );
    assert!(immutable.headers().contains_key(EXPIRES));
    let moved = get("hash=OLD");
    assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(moved.headers().get(LOCATION).expect("a place"), place);
    let plain = get("");
    assert_eq!(plain.status(), StatusCode::OK);
    assert!(!plain.headers().contains_key(CACHE_CONTROL));
    assert!(
        openapi
            .v3("apis/none/v1", &Query::parse(""), &HeaderMap::new())
            .is_none()
    );
}

/// Decompresses a recording of kube-apiserver 1.36.
fn recorded(packed: &[u8]) -> Map<String, Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_string(&mut text)
        .expect("gzip");
    serde_json::from_str(&text).expect("an object")
}

/// The schemas of kube-apiserver in OpenAPI 3.0, without descriptions.
const SCHEMAS: &[u8] =
    include_bytes!("../../../../tests/fixtures/kube-apiserver-1.36-schemas.json.gz");

/// Hashes of the descriptions of kube-apiserver (`tools/facts/texts.py`).
const TEXTS: &[u8] = include_bytes!("../../../../tests/fixtures/kube-apiserver-1.36-texts.json.gz");

/// Removes descriptions from a schema, and the wrapping from its references.
fn unwrapped(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Map<String, Value> = members
                .into_iter()
                .map(|(name, value)| (name, unwrapped(value)))
                .collect();
            if members.get("description").is_some_and(Value::is_string) {
                members.remove("description");
            }
            if let Some(Value::Array(mut one)) = members.remove("allOf") {
                let reference = one.pop().expect("a reference");
                members.insert("$ref".to_owned(), reference["$ref"].clone());
            }
            Value::Object(members)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(unwrapped).collect()),
        other => other,
    }
}

/// All types of the facts, whether a resource uses them or not.
#[test]
fn schemas_of_built_in_kinds_are_those_of_kubernetes_api_44() {
    use crate::kinds::types::TYPES;
    let descriptions = Descriptions::default();
    let context = schemas::SchemaContext {
        references: schemas::References {
            place: "#/components/schemas/",
            wraps: true,
        },
        descriptions: &descriptions,
        versions: Versions::All,
    };
    let mut parts = BTreeMap::new();
    for of in TYPES.structs() {
        let id = TYPES.find(&format!("{}.{}", of.package, of.name));
        TYPES.add_parts(id.expect("itself"), &context, &mut parts, |part| part);
    }
    let own = parts.into_iter().map(|(name, part)| {
        let schema = TYPES.openapi(&name, part, &context);
        (name, schema)
    });
    let mut own: Map<String, Value> = own.collect();
    // It is not the type of an object.
    let unused = ["io.k8s.apimachinery.pkg.version.Info"];
    let mut faults = Vec::new();
    let expected = recorded(SCHEMAS).into_iter();
    for (name, expected) in expected.filter(|(name, _)| !unused.contains(&name.as_str())) {
        match own.remove(&name) {
            None => faults.push(format!("{name} is missing")),
            Some(schema) => {
                let (mut schema, mut expected) = (unwrapped(schema), unwrapped(expected));
                if name.contains(".meta.v1.") {
                    // DeleteOptions and Status are kinds of other groups, too.
                    for schema in [&mut schema, &mut expected] {
                        let members = schema.as_object_mut().expect("a schema");
                        members.remove("x-kubernetes-group-version-kind");
                    }
                }
                if schema != expected {
                    faults.push(format!("{name}:\n  {schema}\n  {expected}"));
                }
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Lists have our own descriptions, because k8s-openapi has none for them.
#[test]
fn types_fields_and_operations_are_described_as_kubernetes_describes_them_api_43() {
    use sha2::{Digest, Sha256};
    let digest = |text: &str| {
        let text = text.split("\n\nPossible enum values:").next();
        let hash = Sha256::digest(text.expect("a text"));
        hash[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let texts = Value::Object(recorded(TEXTS));
    let own = json(openapi().v2(&HeaderMap::new(), &Extensions::default()));
    let (mut equal, mut own_words, mut faults) = (0, 0, Vec::new());
    for (name, schema) in own["definitions"].as_object().expect("schemas") {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let types = [("", schema)].into_iter();
        for (field, of) in types.chain(properties.map(|(field, of)| (field.as_str(), of))) {
            let text = of["description"].as_str();
            match (text, texts["schemas"][name][field].as_str()) {
                (Some(text), Some(recorded)) if digest(text) == recorded => equal += 1,
                (Some(_), _) if name.ends_with("List") => own_words += 1,
                (None, None) => {}
                (text, _) => faults.push(format!("{name} {field}: {text:?}")),
            }
        }
    }
    for (path, item) in own["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let text = operation["description"].as_str();
            let recorded = &texts["operations"][format!("{method} {path}")];
            if method != "parameters" && text.map(digest).as_deref() != recorded.as_str() {
                faults.push(format!("{method} {path}: {text:?}"));
            }
        }
    }
    println!("{equal} texts of types and fields are equal, {own_words} are our own");
    assert!(
        faults.is_empty(),
        "{}:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(equal > 2000 && own_words < 200);
}
