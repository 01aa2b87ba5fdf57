//! Protobuf bodies of the built-in kinds, decoded by their schemas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Read as _;
use std::sync::LazyLock;

use api::decode::type_value;
use api::object::Object;
use api::protobuf::{
    Envelope, ProtobufError, Texts, message_length, object_json, to_json, write_message,
};
use api::resource::ConversionStrategy;
use api::schema::{Schema, Shape, SharedSchema, StructId};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kinds::types::{PACKAGES, TYPES};
use serde_json::{Value, json};

/// The same objects as JSON and as protobuf, from kube-apiserver 1.36.
const GOLDEN: &str = include_str!("../recorded/protobuf.json");

/// Objects with every field set, as JSON and as protobuf: the data with which Kubernetes tests its
/// own codecs.
const EVERY_FIELD: &[u8] = include_bytes!("../recorded/every-field.json.gz");

/// The types of versions that are not served, and of bodies that are not stored. Only tests need
/// them.
const UNSERVED: &[u8] = include_bytes!("../recorded/unserved-types.json.gz");

/// A watch event, which has no type meta.
const EVENT: &str = "package watch.v1 v1

type WatchEvent kind
  1 type string always required
  2 object raw always required
";

/// The types of all versions.
static ALL: LazyLock<SharedSchema> = LazyLock::new(|| {
    SharedSchema::new(|| {
        let unserved: Vec<String> = serde_json::from_str(&unpacked(UNSERVED)).expect("JSON");
        let unserved = unserved.iter().map(|text| &**text);
        let texts: Vec<&str> = PACKAGES
            .into_iter()
            .chain(unserved)
            .chain([EVENT])
            .collect();
        Schema::read(&texts).expect("types")
    })
});

fn unpacked(compressed: &[u8]) -> String {
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(compressed);
    reader.read_to_string(&mut text).expect("compressed text");
    text
}

/// The first bytes of a protobuf body.
const MAGIC: &[u8] = b"k8s\0";

fn envelope(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [piece(1, version.as_bytes()), piece(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), piece(1, &types), piece(2, raw)].concat()
}

/// Encodes a field whose number and length fit into one byte each.
fn piece(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("a short text");
    assert!(length < 0x80 && number < 16);
    [&[number << 3 | 2, length], bytes].concat()
}

fn read(body: &[u8]) -> Result<Value, ProtobufError> {
    to_json(body, "v1", "ConfigMap", &TYPES, Texts::Strict)
        .map(|json| serde_json::from_slice(&json).expect("a document"))
}

#[test]
fn objects_read_as_kube_apiserver_writes_them_api_58() {
    let golden: Vec<Value> = serde_json::from_str(GOLDEN).expect("test data");
    assert!(golden.len() >= 7);
    for example in golden {
        let packed = example["protobuf"].as_str().expect("base64");
        let body = STANDARD.decode(packed).expect("base64");
        let document = read(&body).expect("it is read");
        assert_eq!(typed(&document), typed(&example["json"]));
    }
}

/// Returns the type of a document.
fn id_of(document: &Value) -> StructId {
    let version = document["apiVersion"].as_str().unwrap_or("v1");
    let kind = document["kind"].as_str().unwrap_or("WatchEvent");
    let found = ALL.kind(version, kind);
    found.unwrap_or_else(|| panic!("no type for {document}"))
}

/// Returns an object of a built-in kind as it is stored. Both formats are decoded by the schema.
fn typed(document: &Value) -> Value {
    let id = id_of(document);
    let of = ALL.get(id).expect("found");
    let name = format!("{}.{}", of.package, of.name);
    let read = type_value(document, &ALL.object_type(&name)).expect("within the depth limit");
    assert_eq!((&read.refusal, &*read.faults), (&None, &[][..]), "{name}");
    let mut value = read.value;
    ALL.canonicalize(id, value.as_object_mut().expect("an object"));
    value
}

/// Returns the length of an object as a protobuf message, if a scan of its JSON can compute it.
fn measured(document: &Value) -> Option<usize> {
    message_length(&ALL, id_of(document), document.to_string().as_bytes())
}

/// Encodes an object as a protobuf body, from its tree or its text.
fn written(document: &Value, as_text: bool) -> Vec<u8> {
    let envelope = Envelope {
        api_version: document["apiVersion"].as_str().unwrap_or_default(),
        kind: document["kind"].as_str().unwrap_or_default(),
        raw: &[],
    };
    let id = id_of(document);
    let mut raw = Vec::new();
    if as_text {
        let text = document.to_string();
        let mut deserializer = serde_json::Deserializer::from_str(&text);
        write_message(&ALL, id, &mut deserializer, &mut raw).expect("of its type");
    } else {
        write_message(&ALL, id, document, &mut raw).expect("of its type");
    }
    if let Some(length) = measured(document) {
        assert_eq!(length, raw.len());
    }
    let mut body = Vec::new();
    Envelope {
        raw: &raw,
        ..envelope
    }
    .write(&mut body);
    body
}

/// API-58, KV-21: each field of each kind is encoded and decoded with its number and wire type.
#[test]
fn every_field_is_read_and_written() {
    let examples: Vec<Value> = serde_json::from_str(&unpacked(EVERY_FIELD)).expect("JSON");
    assert_eq!(examples.len(), 185);
    let mut unmeasured = Vec::new();
    for example in examples {
        let packed = example["protobuf"].as_str().expect("base64");
        let body = STANDARD.decode(packed).expect("base64");
        let name = format!(
            "{} of {}",
            example["json"]["kind"], example["json"]["apiVersion"]
        );
        let json = to_json(&body, "v1", "WatchEvent", &ALL, Texts::Strict);
        let json = json.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut document: Value = serde_json::from_slice(&json).expect("a document");
        if example["json"]["kind"].is_null() {
            let members = document.as_object_mut().expect("an object");
            members.retain(|name, _| !["kind", "apiVersion"].contains(&&**name));
        }
        let mut shown = document.clone();
        // Go's types also have these members here, but the test data does not set them.
        if let Some(claims) = shown.pointer_mut("/spec/volumeClaimTemplates") {
            for claim in claims.as_array_mut().expect("a list") {
                let claim = claim.as_object_mut().expect("an object");
                assert_eq!(claim.remove("kind"), Some(json!("PersistentVolumeClaim")));
                assert_eq!(claim.remove("apiVersion"), Some(json!("v1")));
            }
        }
        assert_eq!(shown, typed(&example["json"]), "{name}");
        if measured(&document).is_none() {
            unmeasured.push(name.clone());
        }
        for as_text in [false, true] {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let written = written(&document, as_text);
            assert!(
                written == body,
                "{name}\n{}\n{}",
                shown(&written),
                shown(&body)
            );
        }
    }
    // These must be encoded to know their length, because numbers in their raw JSON have fractions.
    assert!(unmeasured.len() < 20, "{unmeasured:#?}");
}

#[test]
fn kind_and_version_are_filled_in_when_absent_api_88() {
    let name = piece(1, &piece(1, b"a"));
    let body = [MAGIC.to_vec(), piece(2, &name)].concat();
    assert_eq!(
        read(&body),
        Ok(json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}})),
    );
}

#[test]
fn zero_values_are_left_out_unless_they_say_something() {
    // The schema decides which zero values are dropped when the document is decoded.
    let immutable = [0x20, 0];
    let metadata = piece(1, &[piece(1, b"a"), piece(3, b""), vec![0x38, 0]].concat());
    let raw = [metadata.as_slice(), &immutable].concat();
    let document = read(&envelope("v1", "ConfigMap", &raw)).expect("it is read");
    let kept = json!({
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "immutable": false,
    });
    assert_eq!(typed(&document), typed(&kept));
}

#[test]
fn delete_options_are_read_api_83() {
    let raw = [
        vec![0x08, 30],
        piece(2, &piece(1, b"u")),
        piece(4, b"Background"),
        piece(5, b"All"),
    ];
    assert_eq!(
        read(&envelope("v1", "DeleteOptions", &raw.concat())),
        Ok(json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 30,
            "preconditions": {"uid": "u"}, "propagationPolicy": "Background", "dryRun": ["All"],
        })),
    );
}

#[test]
fn a_field_that_is_not_known_is_skipped_and_a_kind_refused() {
    let unknown_field = envelope("v1", "ConfigMap", &piece(15, b"x"));
    let unknown_kind = envelope("v1", "Knot", b"");
    assert_eq!(
        read(&unknown_field).expect("it is read")["kind"],
        "ConfigMap"
    );
    assert!(matches!(
        read(&unknown_kind),
        Err(ProtobufError::UnknownKind { .. })
    ));
}

#[test]
fn garbage_is_refused_api_89() {
    let whole = envelope("v1", "ConfigMap", &piece(1, &piece(1, b"name")));
    for cut in 1..whole.len() {
        // A truncated body is refused or decoded as a smaller object, and never causes a panic.
        if let Ok(document) = read(&whole[..cut]) {
            assert_eq!(document["kind"], "ConfigMap");
        }
    }
    let long_number = [MAGIC, &[0xff; 20]].concat();
    let wrong_type = envelope("v1", "ConfigMap", &[0x08, 1]);
    let no_text = envelope("v1", "ConfigMap", &piece(1, &piece(1, &[0xff])));
    let text = b"{\"metadata\":{}}".to_vec();
    let group = [MAGIC, &[0x0b]].concat();
    for body in [text, Vec::new()] {
        assert_eq!(read(&body), Err(ProtobufError::Unmarked));
    }
    for body in [long_number, wrong_type, no_text, group] {
        assert!(
            matches!(read(&body), Err(ProtobufError::Malformed(_))),
            "{body:?}"
        );
    }
}

/// Collects the fields of a struct and of the structs in it, with their paths and wire types.
/// Recursive structs are visited once.
fn forms(id: StructId, above: &[StructId], path: &str, found: &mut Vec<String>) {
    if above.contains(&id) {
        return;
    }
    let inside = [above, &[id]].concat();
    for field in ALL.get(id).expect("a struct").fields() {
        let path = format!("{path}.{}", field.name);
        let mut of = &field.of;
        let mut form = format!("{path}: {:?} {}", field.number, field.is_always_printed);
        loop {
            form.push_str(if of.is_pointer { " *" } else { " " });
            match &of.shape {
                Shape::List(item) => (of, form) = (item, form + "[]"),
                Shape::Map(item) => (of, form) = (item, form + "map"),
                Shape::Struct(id) => break forms(*id, &inside, &path, found),
                shape => break form.push_str(&format!("{shape:?}")),
            }
        }
        found.push(form);
    }
}

/// KV-24: a stored version that is not served is read and written with the type of the served
/// version, so both types have the same fields.
#[test]
fn versions_that_are_stored_and_not_served_have_the_fields_of_those_that_are() {
    let mut compared = 0;
    for row in kinds::definitions::built_in() {
        for unserved in &row.rules().unserved {
            if unserved.conversion != ConversionStrategy::TypeOnly {
                continue;
            }
            let version = unserved.version.as_str();
            let api_versions = [&*row.version, version].map(|v| format!("{}/{v}", row.group));
            let [served, stored] = api_versions.map(|api_version| {
                let id = ALL.object_kind(&api_version, &row.kind);
                let mut found = Vec::new();
                forms(id.expect("a kind"), &[], &row.kind, &mut found);
                found
            });
            assert!(served.len() > 30, "{served:?}");
            assert_eq!(served, stored, "{} {version}", row.kind);
            compared += 1;
        }
    }
    assert_eq!(compared, 2);
}

/// Stored values of old versions, and the objects that kube-apiserver 1.36 returns for them.
const OLD: &str = include_str!("../recorded/old-versions.json");

/// KV-27: fields of old versions have the numbers that Kubernetes gave them.
#[test]
fn values_of_old_versions_in_protobuf_are_read_as_kube_apiserver_reads_them_kv_27() {
    let cases: Vec<Value> = serde_json::from_str(OLD).expect("JSON");
    let rows = kinds::definitions::built_in();
    let mut read = 0;
    for case in cases.iter().filter(|case| case["shown"].is_array()) {
        let stored = &case["stored"];
        let text = |name: &str| stored[name].as_str().unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let Some(id) = ALL.object_kind(api_version, kind) else {
            // kube-apiserver stores them as JSON.
            let of_json = [
                "apiextensions.k8s.io/v1beta1",
                "apiregistration.k8s.io/v1beta1",
            ];
            assert!(of_json.contains(&api_version), "{api_version}");
            continue;
        };
        let mut raw = Vec::new();
        write_message(&ALL, id, stored, &mut raw).expect("an object");
        let mut former = rows
            .iter()
            .filter_map(|row| Some((row, row.former_version(kind, api_version)?)));
        let (row, former) = former.next().expect("a row");
        let (schema, id) = former.object_type.found().expect("a type");
        let envelope = Envelope {
            api_version,
            kind,
            raw: &raw,
        };
        let document = object_json(schema, id, envelope, Texts::Strict).expect("protobuf");
        let document: Value = serde_json::from_slice(&document).expect("JSON");
        let object = former.read(document.as_object().expect("an object").clone(), row);
        // Protobuf has no empty lists.
        let mut shown = Object::of(case["shown"][0].as_object().expect("an object").clone());
        row.canonicalize(&mut shown);
        assert_eq!(object.expect("an object"), shown, "{}", case["name"]);
        read += 1;
    }
    assert!(read > 150, "{read}");
}
