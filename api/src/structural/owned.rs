//! Ownership of the fields of custom resources (CRD-220, CRD-222): the types of a schema as
//! structured-merge-diff sees them.

use serde_json::Value;

use super::kind::SchemaKind;
use super::node::{Additional, Flags, ListType, Node, StructuralSchema};
use super::prune::is_object_member;
use crate::typed::{Expected, Inner, Items, Keys, OtherForm, OtherId, OtherTypes, ValueType};

impl StructuralSchema {
    /// Returns the type of whole objects in server-side apply. `keeps_unknown` says that they may
    /// have any members.
    pub fn value_type(&self, keeps_unknown: bool) -> ValueType<'_> {
        ValueType::other(self, id(self.root(), keeps_unknown))
    }

    fn at(&self, of: OtherId) -> Node<'_> {
        self.node(of.at).unwrap_or_else(|| self.root())
    }
}

/// Returns the type of a node. Unknown members are kept below a node that keeps them, too.
fn id(node: Node<'_>, keeps_unknown: bool) -> OtherId {
    OtherId {
        at: node.index(),
        keeps_unknown: keeps_unknown || node.keeps_unknown(),
    }
}

impl OtherTypes for StructuralSchema {
    fn form(&self, of: OtherId) -> OtherForm<'_> {
        let node = self.at(of);
        let is_atomic = node.is_atomic_map();
        let items = match node.list_type() {
            ListType::Atomic => Items::Atomic,
            ListType::Set => Items::Set,
            ListType::Map => Items::Map(Keys::Several(node.list_keys())),
        };
        match node.kind() {
            SchemaKind::Object => OtherForm::Map { is_atomic },
            SchemaKind::Array => OtherForm::List(items),
            SchemaKind::String if node.has(Flags::HAS_FORMAT) => OtherForm::Scalar(Expected::Any),
            SchemaKind::String => OtherForm::Scalar(Expected::String),
            SchemaKind::Integer | SchemaKind::Number => OtherForm::Scalar(Expected::Number),
            SchemaKind::Boolean => OtherForm::Scalar(Expected::Bool),
            SchemaKind::Any | SchemaKind::IntOrString | SchemaKind::Unknown => {
                OtherForm::Any { is_atomic, items }
            }
        }
    }

    fn member(&self, of: OtherId, name: &str) -> Option<Inner> {
        let node = self.at(of);
        if is_object(self, node) && is_object_member(name) {
            return Some(match name {
                "metadata" => Inner::Metadata,
                _ => Inner::Text,
            });
        }
        if let Some(member) = node.property(name) {
            return Some(Inner::Other(id(member, of.keeps_unknown)));
        }
        match node.additional() {
            Additional::Schema(member) => Some(Inner::Other(id(member, of.keeps_unknown))),
            Additional::Allowed(is_allowed) => is_allowed.then_some(Inner::Deduced),
            Additional::Unsaid => {
                let has_none = node.properties().next().is_none() && !is_object(self, node);
                (of.keeps_unknown || has_none).then_some(Inner::Deduced)
            }
        }
    }

    fn items(&self, of: OtherId) -> Inner {
        match self.at(of).items() {
            Some(items) => Inner::Other(id(items, of.keeps_unknown)),
            None => Inner::Deduced,
        }
    }

    fn names(&self, of: OtherId, name: &str) -> bool {
        let node = self.at(of);
        node.property(name).is_some() || is_object(self, node) && is_object_member(name)
    }

    fn default(&self, of: OtherId, name: &str) -> Option<&Value> {
        self.at(of).property(name)?.default()
    }

    fn has_keys(&self, of: OtherId) -> bool {
        self.at(of).has(Flags::KEYED_IN)
    }
}

/// Returns whether the values of a node are whole objects.
fn is_object(schema: &StructuralSchema, node: Node<'_>) -> bool {
    node.is_embedded() || node.index() == schema.root
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Object;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    fn schema() -> StructuralSchema {
        StructuralSchema::compile(&json!({"type": "object", "properties": {"spec": {
            "type": "object", "properties": {
                "atomic": {"type": "array", "items": {"type": "string"}},
                "set": {"type": "array", "x-kubernetes-list-type": "set",
                    "items": {"type": "string"}},
                "map": {"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "port"], "items": {
                    "type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "v": {"type": "string"},
                        "port": {"type": "integer", "default": 80}}}},
                "sets": {"type": "object", "additionalProperties": {
                    "type": "array", "x-kubernetes-list-type": "set",
                    "items": {"type": "string"}}},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
                    "properties": {"a": {"type": "string"}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "object", "properties": {
                        "a": {"type": "string"}}}}},
                "when": {"type": "string", "format": "date-time"},
                "port": {"x-kubernetes-int-or-string": true},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}},
            },
        }}}))
    }

    /// CRD-220, CRD-222, by the recorded answers of kube-apiserver to applies.
    #[test]
    fn fields_are_owned_by_the_schema() {
        let schema = schema();
        let of = schema.value_type(false);
        let applied = object(json!({
            "apiVersion": "g.example.com/v1", "kind": "Ant", "metadata": {"labels": {"l": "1"}},
            "spec": {
                "atomic": ["x"], "set": ["x", "y"], "whole": {"a": "1"}, "port": "http",
                "map": [{"name": "x", "v": "1"}, {"name": "x", "port": 81}],
                "sets": {"a": ["x"]}, "when": "2020-01-01T00:00:00Z",
                "free": {"a": {"b": 1}, "l": [1], "known": {"other": {"c": 1}}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["f"]},
                    "spec": {"any": 1}},
            },
        }));
        assert_eq!(of.validate(&applied, false), Ok(()));
        let text = of.created_fields_v1(&Object::default(), &applied, &Default::default(), None);
        let owned: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            owned["f:spec"]["f:map"],
            json!({
                "k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}, "f:v": {}},
                "k:{\"name\":\"x\",\"port\":81}": {".": {}, "f:name": {}, "f:port": {}},
                ".": {},
            })
        );
        assert_eq!(
            owned["f:spec"]["f:sets"]["f:a"],
            json!({".": {}, "v:\"x\"": {}})
        );
        assert_eq!(owned["f:spec"]["f:whole"], json!({}));
        assert_eq!(owned["f:spec"]["f:atomic"], json!({}));
        assert_eq!(
            owned["f:spec"]["f:free"],
            json!({
                ".": {}, "f:a": {".": {}, "f:b": {}}, "f:l": {},
                "f:known": {".": {}, "f:other": {".": {}, "f:c": {}}},
            })
        );
        assert_eq!(
            owned["f:spec"]["f:pod"]["f:metadata"],
            json!({".": {}, "f:finalizers": {".": {}, "v:\"f\"": {}}})
        );
    }

    /// Apply refuses objects that do not fit the schema before field validation.
    #[test]
    fn objects_that_do_not_fit_are_refused_in_the_words_of_structured_merge_diff() {
        let schema = schema();
        for (spec, why) in [
            (json!({"odd": 1}), ".spec.odd: field not declared in schema"),
            (
                json!({"set": ["x", "x"]}),
                ".spec.set: duplicate entries for key [=\"x\"]",
            ),
            (json!({"map": {}}), ".spec.map: expected list, got &{map[]}"),
            (
                json!({"map": [{"v": "1", "name": 5}]}),
                ".spec.map[name=5,port=80].name: expected string, got \
                 &value.valueUnstructured{Value:5}",
            ),
            (
                json!({"pod": {"odd": 1}}),
                ".spec.pod.odd: field not declared in schema",
            ),
        ] {
            let applied = object(json!({"spec": spec}));
            let found = schema.value_type(false).validate(&applied, false);
            assert_eq!(found.unwrap_err().to_string(), why);
        }
    }

    /// CRD-222: an item may lack a key that has a default, but not all others.
    #[test]
    fn keys_of_items_have_defaults() {
        let of = schema();
        let keyless = |spec| {
            !of.value_type(false)
                .has_keys(&object(json!({ "spec": spec })))
        };
        assert!(!keyless(json!({"map": [{"v": "1"}]})));
        let none = json!({"type": "object", "properties": {"l": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}});
        let none = StructuralSchema::compile(&none);
        let of = none.value_type(false);
        assert!(!of.has_keys(&object(json!({"l": [{"v": 1}]}))));
        assert!(of.has_keys(&object(json!({"l": [{"k": "a"}]}))));
    }

    /// CRD-220: items merge by their keys, others as a whole.
    #[test]
    fn an_applied_object_merges_by_the_schema() {
        let schema = schema();
        let live = object(json!({"spec": {
            "set": ["x"], "map": [{"name": "x", "port": 80, "v": "1"}], "whole": {"a": "1"},
            "free": {"a": {"b": 1}},
        }}));
        let applied = object(json!({"spec": {
            "set": ["z", "x"], "map": [{"name": "y", "v": "3"}], "whole": {},
            "free": {"a": {"c": 2}},
        }}));
        let merged = schema.value_type(false).merge(&live, &applied);
        assert_eq!(
            merged.0["spec"],
            json!({
                "set": ["z", "x"],
                "map": [{"name": "x", "port": 80, "v": "1"}, {"name": "y", "v": "3"}],
                "whole": {}, "free": {"a": {"b": 1, "c": 2}},
            })
        );
    }
}
