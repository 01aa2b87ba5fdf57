//! Tests of encoding.
//!
//! This folder owns the expected bytes of shapes, media types and events. The tests encode cached
//! objects and compare the bytes. They must not know HTTP or a store.

mod documents;
mod events;
mod lists;
mod shape;

use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use serde_json::json;

use super::*;
use crate::api::object::Object;
use crate::kinds::definitions::core::configmaps;
use crate::storage::codec::Codec;

pub(in crate::server) fn cached(name: &str, text: &str, revision: u64) -> Arc<CachedObject> {
    let mut object = Object::default();
    object.set_type("ConfigMap", "v1");
    object.set_meta("name", name);
    object.0.insert("data".to_owned(), json!({"k": text}));
    let key = Key::new(format!("/registry/configmaps/d/{name}"));
    Arc::new(
        Codec::new(configmaps())
            .wire(&key, &object, Revision(revision))
            .unwrap(),
    )
}
