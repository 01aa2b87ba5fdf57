//! DefaultStorageClass and DefaultIngressClass (API-268): claims and Ingresses without a class get
//! the default one.

use std::cmp::Reverse;
use std::sync::Arc;

use futures_util::future::FutureExt;

use super::client::ResourceClient;
use super::{Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::object::{Object, put};

/// The annotations that mark a class as the default.
const STORAGE_MARKS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const INGRESS_MARKS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];

/// The older annotations that name a class.
const STORAGE_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const INGRESS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// The plugin for claims.
pub(super) struct DefaultStorageClass {
    classes: Arc<dyn ResourceClient>,
}

impl DefaultStorageClass {
    /// Creates the plugin with this source of StorageClasses.
    pub(super) fn new(classes: Arc<dyn ResourceClient>) -> DefaultStorageClass {
        DefaultStorageClass { classes }
    }
}

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "persistentvolumeclaims")
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for DefaultStorageClass {
    fn admit<'p>(&'p self, _: &'p Attributes<'_>, claim: Option<&'p mut Object>) -> Admitted<'p> {
        fill_in(
            &*self.classes,
            claim,
            &["spec", "storageClassName"],
            STORAGE_ANNOTATION,
            &STORAGE_MARKS,
        )
    }
}

/// The plugin for Ingresses.
pub(super) struct DefaultIngressClass {
    classes: Arc<dyn ResourceClient>,
}

impl DefaultIngressClass {
    /// Creates the plugin with this source of IngressClasses.
    pub(super) fn new(classes: Arc<dyn ResourceClient>) -> DefaultIngressClass {
        DefaultIngressClass { classes }
    }
}

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("networking.k8s.io", "ingresses")
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for DefaultIngressClass {
    fn admit<'p>(&'p self, _: &'p Attributes<'_>, ingress: Option<&'p mut Object>) -> Admitted<'p> {
        fill_in(
            &*self.classes,
            ingress,
            &["spec", "ingressClassName"],
            INGRESS_ANNOTATION,
            &INGRESS_MARKS,
        )
    }
}

/// Sets the default class in an object that has neither this field nor this annotation.
fn fill_in<'p>(
    classes: &'p dyn ResourceClient,
    object: Option<&'p mut Object>,
    field: &'static [&'static str],
    annotation: &'static str,
    marks: &'static [&'static str],
) -> Admitted<'p> {
    async move {
        let is_named = |object: &Object| {
            let of_field = object.at(field).filter(|value| !value.is_null());
            of_field.is_some()
                || object
                    .at(&["metadata", "annotations", annotation])
                    .is_some()
        };
        let Some(object) = object.filter(|object| !is_named(object)) else {
            return Ok(());
        };
        let classes = classes.list(None).await?;
        if let Some(name) = default_class(&classes, marks) {
            put(object, field, name.into());
        }
        Ok(())
    }
    .boxed()
}

/// The newest class that is marked as the default; among equally new ones the first by name.
fn default_class<'c>(classes: &'c [Object], marks: &[&str]) -> Option<&'c str> {
    let is_marked = |class: &&Object| {
        let of = |mark: &&str| class.at(&["metadata", "annotations", mark]);
        let mut marks = marks.iter().filter_map(of);
        // linear: the annotations of a plugin are written in the sources.
        marks.any(|mark| mark.as_str() == Some("true"))
    };
    let marked = classes.iter().filter(is_marked);
    let first = marked.min_by_key(|class| (Reverse(class.meta("creationTimestamp")), class.name()));
    first.map(Object::name)
}

/// The storage class of a claim, from its annotation or else from its spec; empty if it has none.
pub(super) fn storage_class_of(claim: &Object) -> &str {
    match claim.text(&["metadata", "annotations", STORAGE_ANNOTATION]) {
        "" => claim.text(&["spec", "storageClassName"]),
        named => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(name: &str, created: &str, mark: serde_json::Value) -> Object {
        let metadata = json!({"name": name, "creationTimestamp": created,
            "annotations": {STORAGE_MARKS[0]: mark}});
        let mut class = Object::default();
        class.0.insert("metadata".to_owned(), metadata);
        class
    }

    #[test]
    fn the_newest_marked_class_is_the_default_and_then_the_first_by_name_api_268() {
        let classes = [
            class("a", "2026-01-01T00:00:00Z", json!("true")),
            class("c", "2026-01-02T00:00:00Z", json!("true")),
            class("b", "2026-01-02T00:00:00Z", json!("true")),
            class("d", "2026-01-03T00:00:00Z", json!("false")),
        ];
        assert_eq!(default_class(&classes, &STORAGE_MARKS), Some("b"));
        assert_eq!(default_class(&classes[..1], &STORAGE_MARKS), Some("a"));
        assert_eq!(default_class(&classes[3..], &STORAGE_MARKS), None);
        assert_eq!(default_class(&classes, &INGRESS_MARKS), None);
    }
}
