//! Encrypted values of other implementations, and the daemon's values for them. `README.md` in this
//! folder describes how to make them again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::Decode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use taffrail::kinds::definitions::built_in;
use taffrail::storage::codec::Codec;
use taffrail::storage::encryption::Encryption;
use taffrail::storage::transformer::{Transformer, TransformerSource};

const KUBE_APISERVER: &str = include_str!("vectors/kube-apiserver.json");
const PYTHON: &str = include_str!("vectors/python.json");

/// A value with the key that encrypted it.
struct Sample(Value);

fn samples(text: &str) -> Vec<Sample> {
    let samples: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(samples.len() >= 7);
    samples.into_iter().map(Sample).collect()
}

impl Sample {
    fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap()
    }

    fn bytes(&self, member: &str) -> Bytes {
        BASE64_STANDARD.decode(self.text(member)).unwrap().into()
    }

    fn key(&self) -> Key {
        Key::new(self.text("key"))
    }

    /// The transformer for secrets of a configuration with this one key.
    fn transformer(&self) -> Arc<dyn Transformer> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("encryption.json");
        let key = json!({"name": self.text("name"), "secret": self.text("secret")});
        let document = json!({
            "kind": "EncryptionConfiguration",
            "apiVersion": "apiserver.config.k8s.io/v1",
            "resources": [{
                "resources": ["secrets"],
                "providers": [{self.text("provider"): {"keys": [key]}}],
            }],
        });
        std::fs::write(&path, document.to_string()).unwrap();
        let encryption = Encryption::load(&path).unwrap();
        encryption.transformer_for("", "secrets")
    }

    /// Whether a read proves that the key is right. aescbc does not authenticate, so its result
    /// must be an object.
    fn is_certain(&self) -> bool {
        let is_object = |member| self.bytes(member).starts_with(b"{");
        self.text("provider") != "aescbc" || self.0.get("plain").is_none() || is_object("plain")
    }

    fn read(&self, key: &Key) -> Result<Bytes, String> {
        let stored = self.bytes("stored");
        match self.transformer().transform_from_storage(key, &stored) {
            Ok((plain, is_stale)) => {
                assert!(!is_stale, "{}", self.text("name"));
                Ok(plain)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

fn secrets() -> Codec {
    let mut definitions = built_in().into_iter();
    Codec::new(definitions.find(|one| one.plural == "secrets").unwrap())
}

#[test]
fn values_of_kube_apiserver_are_read_en_1_en_2_en_7() {
    for sample in samples(KUBE_APISERVER) {
        let (name, key) = (sample.text("name"), sample.key());
        let plain = sample.read(&key).unwrap();
        let object = secrets().decode(&key, Revision(7), &plain).unwrap();
        let wire: Value = serde_json::from_slice(&object.wire()).unwrap();
        assert_eq!(wire["metadata"]["name"], name);
        let password = BASE64_STANDARD.encode(format!("hunter2 of {name}"));
        assert_eq!(wire["data"]["password"], password);
    }
}

#[test]
fn values_of_other_libraries_are_read_en_7() {
    for sample in samples(PYTHON) {
        let (read, plain) = (sample.read(&sample.key()), sample.bytes("plain"));
        match sample.is_certain() {
            true => assert_eq!(read, Ok(plain), "{}", sample.0),
            // It might be what a wrong key makes of any value.
            false => assert!(read.unwrap_err().contains("the key is not the one")),
        }
    }
}

#[test]
fn a_value_under_another_key_is_read_unless_the_key_is_authenticated_en_1_pf_20() {
    for sample in samples(KUBE_APISERVER) {
        let moved = sample.read(&Key::new("/other/secrets/default/a"));
        assert_eq!(
            moved.is_err(),
            sample.text("provider") == "aesgcm",
            "{moved:?}"
        );
    }
}

#[test]
fn values_are_written_for_others_and_read_back_en_5_en_7() {
    let mut written = Vec::new();
    let (theirs, others) = (samples(KUBE_APISERVER), samples(PYTHON));
    for sample in theirs.iter().chain(&others).filter(|one| one.is_certain()) {
        let mut plain = sample.read(&sample.key()).unwrap();
        let mut key = sample.key();
        if sample.0.get("plain").is_none() {
            // Kube-apiserver's: in our form, and beside it.
            let object = secrets().decode(&key, Revision(7), &plain).unwrap();
            plain = object.stored_form().into();
            key = Key::new(format!("{}-ours", sample.text("key")));
        }
        let transformer = sample.transformer();
        let stored = transformer
            .transform_to_storage(&key, plain.to_vec())
            .unwrap();
        let read = transformer.transform_from_storage(&key, &stored);
        assert_eq!(read, Ok((plain.clone(), false)));
        assert_ne!(stored, sample.bytes("stored"));
        let mut value = sample.0.clone();
        value["key"] = json!(key.to_text());
        value["plain"] = json!(BASE64_STANDARD.encode(&plain));
        value["stored"] = json!(BASE64_STANDARD.encode(&stored));
        written.push(value);
    }
    if let Some(path) = std::env::var_os("TAFFRAIL_WRITTEN") {
        std::fs::write(path, serde_json::to_string_pretty(&written).unwrap()).unwrap();
    }
}
