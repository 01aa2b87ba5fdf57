use actors::engine::Key;
use serde_json::{Value, json};

use actors::engine::Revision;
use actors::object::CachedObject;
use actors::watch::WatchEventKind;
use bytes::Bytes;

use super::super::*;
use crate::api::object::Object;
use crate::kinds::definitions::core::configmaps;
use crate::storage::codec::Codec;

fn cached(revision: u64) -> CachedObject {
    let mut object = Object::default();
    object.set_type("ConfigMap", "v1");
    object.set_meta("name", "a");
    object.set_meta("namespace", "d");
    object.0.insert("data".to_owned(), json!({"k": "1"}));
    Codec::new(configmaps())
        .wire(
            &Key::new("/registry/configmaps/d/a"),
            &object,
            Revision(revision),
        )
        .expect("it can be encoded")
}

fn read(frame: &Bytes) -> Value {
    assert_eq!(frame.last(), Some(&b'\n'), "a frame ends its line");
    assert_eq!(frame.iter().filter(|byte| **byte == b'\n').count(), 1);
    serde_json::from_slice(frame).expect("a document")
}

/// Returns events of ConfigMaps in the form that a client requests.
fn events(conversion: Option<Conversion>, include: IncludeObject) -> Arc<dyn Projection> {
    let encoding = Encoding {
        conversion,
        include,
        ..Encoding::default()
    };
    encoding.events(&configmaps().into()).expect("events")
}

fn json() -> Arc<dyn Projection> {
    events(None, IncludeObject::default())
}

fn metadata(version: MetaVersion) -> Arc<dyn Projection> {
    events(
        Some(Conversion::Metadata(version)),
        IncludeObject::default(),
    )
}

fn table(include: IncludeObject) -> Arc<dyn Projection> {
    events(Some(Conversion::Table(MetaVersion::V1)), include)
}

#[test]
fn json_frames_are_the_wire_form_between_two_texts_api_129() {
    let projection = json();
    let object = cached(7);
    let frame = projection.frame(WatchEventKind::Added, &object, Revision(7), true);
    let event = read(&frame);
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["metadata"]["resourceVersion"], "7");
    assert_eq!(event["object"]["data"], json!({"k": "1"}));
    let modified = projection.frame(WatchEventKind::Modified, &object, Revision(7), false);
    assert_eq!(read(&modified)["type"], "MODIFIED");
}

#[test]
fn a_deletion_shows_the_last_content_at_its_own_version_pf_1() {
    let object = cached(7);
    let projections: [Arc<dyn Projection>; 3] = [
        json(),
        metadata(MetaVersion::V1),
        table(IncludeObject::Metadata),
    ];
    for projection in projections {
        let frame = projection.frame(WatchEventKind::Deleted, &object, Revision(9), true);
        let event = read(&frame);
        assert_eq!(event["type"], "DELETED");
        let version = &event["object"]["metadata"]["resourceVersion"];
        assert_eq!(version, "9", "{}", projection.identity());
        if let Some(row) = event["object"]["rows"].get(0) {
            assert_eq!(row["object"]["metadata"]["resourceVersion"], "9");
        }
    }
}

#[test]
fn a_bookmark_is_an_empty_object_of_the_kind_wa_41() {
    let projection = json();
    assert_eq!(
        read(&projection.bookmark(Revision(9), false, false)),
        json!({"type": "BOOKMARK", "object": {
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "9"},
        }}),
    );
    let metadata = metadata(MetaVersion::V1);
    assert_eq!(
        read(&metadata.bookmark(Revision(9), false, false))["object"]["kind"],
        "PartialObjectMetadata",
    );
}

#[test]
fn the_bookmark_that_ends_the_initial_events_says_so_in_every_form_wa_15() {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let plain = json().bookmark(Revision(9), true, false);
    assert_eq!(
        read(&plain)["object"]["metadata"]["annotations"],
        annotations
    );
    let metadata = metadata(MetaVersion::V1).bookmark(Revision(9), true, false);
    assert_eq!(
        read(&metadata)["object"]["metadata"]["annotations"],
        annotations
    );
    for (include, kind) in [
        (IncludeObject::None, "PartialObjectMetadata"),
        (IncludeObject::Object, "ConfigMap"),
        (IncludeObject::Metadata, "PartialObjectMetadata"),
    ] {
        let event = read(&table(include).bookmark(Revision(9), true, false));
        let row = &event["object"]["rows"][0]["object"];
        assert_eq!(row["kind"], kind);
        assert_eq!(row["metadata"]["annotations"], annotations);
        assert_eq!(event["object"]["metadata"]["resourceVersion"], "9");
    }
}

#[test]
fn columns_come_with_the_first_table_of_a_stream_only_api_74() {
    let projection = table(IncludeObject::Metadata);
    assert!(projection.first_differs());
    let frame =
        |first| read(&projection.frame(WatchEventKind::Added, &cached(7), Revision(7), first));
    assert!(frame(true)["object"]["columnDefinitions"].is_array());
    assert!(frame(false)["object"]["columnDefinitions"].is_null());
    assert_eq!(frame(false)["object"]["rows"][0]["cells"][0], "a");
}

#[test]
fn metadata_alone_keeps_its_version_api_75() {
    let projection = metadata(MetaVersion::V1);
    let event = read(&projection.frame(WatchEventKind::Modified, &cached(7), Revision(7), false));
    assert_eq!(
        event["object"],
        json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7", "name": "a", "namespace": "d"},
        }),
    );
}

#[test]
fn equal_forms_have_equal_identities_and_different_ones_do_not() {
    let identities = [
        json().identity().to_owned(),
        metadata(MetaVersion::V1).identity().to_owned(),
        metadata(MetaVersion::V1Beta1).identity().to_owned(),
        table(IncludeObject::None).identity().to_owned(),
        table(IncludeObject::Object).identity().to_owned(),
    ];
    for (at, one) in identities.iter().enumerate() {
        assert!(
            !identities.iter().skip(at + 1).any(|other| other == one),
            "{one}"
        );
    }
}

#[test]
fn a_refusal_in_the_stream_is_an_error_event_wa_6() {
    let status = Status::expired("too old resource version: 5 (900)");
    let event = read(&Encoding::default().error_frame(&status));
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 410);
    assert_eq!(event["object"]["reason"], "Expired");
}

#[test]
fn a_running_stream_fails_with_an_internal_error_in_every_form_wa_33_wa_36() {
    let forms: [Arc<dyn Projection>; 3] = [
        json(),
        metadata(MetaVersion::V1),
        table(IncludeObject::None),
    ];
    for form in forms {
        let event = read(&form.error("the value of /registry/configmaps/d/a can't be read"));
        assert_eq!(event["type"], "ERROR");
        let status = &event["object"];
        assert_eq!(status["kind"], "Status");
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(500), &json!("InternalError"))
        );
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains("/registry/configmaps/d/a"), "{message}");
    }
}
