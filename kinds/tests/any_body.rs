//! Arbitrary bodies for every built-in kind: none causes a panic, and decoding, defaulting and
//! canonicalization are idempotent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod seeds;

use api::decode::{BodyFormat, decode_object};
use kinds::definitions::apps::statefulsets;
use proptest::prelude::*;
use serde_json::json;

use checks::{rows, typed};

#[test]
fn bodies_of_any_form_are_read_or_refused() {
    let inputs = (0..rows().len(), prop::collection::vec(any::<u8>(), 0..600));
    seeds::run(3_000, &inputs, |(row, bytes)| {
        typed::check(&rows()[row], &bytes);
        Ok(())
    });
}

/// API-88, API-89: answers of kube-apiserver 1.36 to embedded objects whose kind or version is not
/// a string.
#[test]
fn kinds_of_objects_within_objects_are_texts() {
    for (member, value, found) in [
        ("kind", json!(7), "number"),
        ("apiVersion", json!(7), "number"),
        ("kind", json!({"a": 2}), "object"),
    ] {
        let body = json!({
            "metadata": {"name": "a"},
            "spec": {"volumeClaimTemplates": [{member: value, "metadata": {"name": "v"}}]},
        });
        let text = body.to_string();
        let read = decode_object(text.as_bytes(), BodyFormat::Json, &statefulsets());
        assert_eq!(
            read.unwrap_err().to_string(),
            format!(
                "StatefulSet in version \"v1\" cannot be handled as a StatefulSet: json: cannot \
                 unmarshal {found} into Go struct field PersistentVolumeClaim.spec.\
                 volumeClaimTemplates.TypeMeta.{member} of type string"
            )
        );
    }
}
