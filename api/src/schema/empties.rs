//! Empty lists and maps that differ from absent ones until an object is stored
//! ([`super::Empty::Distinguished`]).

use serde_json::{Map, Value};

use super::model::{Schema, Shape, Struct, StructId, Type};

type Members = Map<String, Value>;

impl Schema {
    /// Drops empty lists and maps that the stored struct lacks, or that are empty there as well,
    /// because they are not changes. Keeps the others.
    pub fn forget_same_empties(&self, id: StructId, members: &mut Members, stored: &Members) {
        for field in self.get(id).into_iter().flat_map(Struct::to_empties) {
            let Some(value) = members.get_mut(&field.name) else {
                continue;
            };
            let before = stored.get(&field.name);
            if !is_nothing(value) {
                self.forget_below(id, &field.of, value, before);
            } else if field.keeps_empty() && !field.of.is_pointer && before.is_none_or(is_nothing) {
                if field.is_always_printed {
                    *value = Value::Null
                } else {
                    members.remove(&field.name);
                }
            }
        }
    }

    /// Drops them in a value below. Fields below an absent stored value count as absent.
    fn forget_below(&self, owner: StructId, of: &Type, value: &mut Value, stored: Option<&Value>) {
        let nothing = Map::new();
        match (&of.shape, value) {
            (Shape::Struct(id), Value::Object(members)) => {
                let before = stored.and_then(Value::as_object).unwrap_or(&nothing);
                self.forget_same_empties(*id, members, before);
            }
            (Shape::Any, Value::Object(members)) if of.schema_or.is_some() => {
                let before = stored.and_then(Value::as_object).unwrap_or(&nothing);
                self.forget_same_empties(owner, members, before);
            }
            (Shape::Any, Value::Array(items)) if of.schema_or.is_some() => {
                for (place, value) in items.iter_mut().enumerate() {
                    let before = stored.and_then(|stored| stored.get(place));
                    self.forget_below(owner, of, value, before);
                }
            }
            (Shape::List(item), Value::Array(items)) => {
                for (place, value) in items.iter_mut().enumerate() {
                    let before = stored.and_then(|stored| stored.get(place));
                    self.forget_below(owner, item, value, before);
                }
            }
            (Shape::Map(item), Value::Object(members)) => {
                for (name, value) in members {
                    let before = stored.and_then(|stored| stored.get(name));
                    self.forget_below(owner, item, value, before);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a value is empty or null.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Empty;
    use super::*;

    const TEXT: &str = "package a.v1\n\ntype Thing kind\n  1 spec Spec\n\n\
        type Spec\n  1 parts []Part empty\n  2 more map[string]Part\n  3 other []Part\n\
        \x20 4 rules []string always\n  5 names []string\n\n\
        type Part\n  1 labels map[string]string empty\n  2 note string\n  3 below *Part\n";

    fn members(value: Value) -> Members {
        let Value::Object(members) = value else {
            panic!("an object");
        };
        members
    }

    /// API-254.
    #[test]
    fn empty_values_stay_where_they_differ_from_absent_ones() {
        let schema = Schema::read(&[TEXT]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let given = members(json!({"spec": {
            "more": {"x": {"note": "n", "labels": {}}}, "other": [{}, {"below": {"labels": {}}}],
            "parts": [], "rules": [], "names": [],
        }}));
        let form = |empty| {
            let mut object = given.clone();
            let has_empty = schema.canonicalize_with(id, &mut object, empty);
            (Value::Object(object), has_empty)
        };
        let mut distinguished = Value::Object(given.clone());
        distinguished["spec"]
            .as_object_mut()
            .unwrap()
            .remove("names");
        assert_eq!(form(Empty::Distinguished), (distinguished.clone(), true));
        let mut printed = json!({"spec": {
            "more": {"x": {"note": "n"}}, "other": [{}, {"below": {}}], "rules": [],
        }});
        assert_eq!(form(Empty::Printed), (printed.clone(), true));
        printed["spec"]["rules"] = Value::Null;
        assert_eq!(form(Empty::Forgotten), (printed.clone(), false));
        // A list that was empty before is not a change.
        let mut same = members(distinguished.clone());
        schema.forget_same_empties(id, &mut same, &members(printed.clone()));
        assert_eq!(Value::Object(same), printed);
        let stored = members(json!({"spec": {
            "parts": [{}], "other": [{"note": "n"}, {"below": {"labels": {"a": "b"}}}],
            "rules": ["a"],
        }}));
        let mut changed = members(distinguished);
        schema.forget_same_empties(id, &mut changed, &stored);
        assert_eq!(
            Value::Object(changed),
            json!({"spec": {
                "more": {"x": {"note": "n"}}, "other": [{}, {"below": {"labels": {}}}], "parts": [],
                "rules": [],
            }})
        );
    }

    /// API-254: schemas below `items`, `additionalProperties` and `dependencies` are handled like
    /// others.
    #[test]
    fn empty_values_of_nested_schemas_are_handled_like_others() {
        const SCHEMAS: &str = "package a.v1\n\ntype Thing kind\n  1 schema Props\n\n\
            type Props\n  1 required []string empty\n  2 items *Props|[]\n\
            \x20 3 also *Props|bool\n  4 needs map[string]Props|[]string\n\
            \x20 5 type string\n";
        let schema = Schema::read(&[SCHEMAS]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let empty = json!({"required": [], "type": "", "also": {"required": []}});
        let given = members(json!({"schema": {
            "items": empty, "also": {"items": [empty]},
            "needs": {"a": empty, "b": ["c"]},
        }}));
        let mut distinguished = given.clone();
        assert!(schema.canonicalize_with(id, &mut distinguished, Empty::Distinguished));
        let mut stored = given;
        assert!(!schema.canonicalize_with(id, &mut stored, Empty::Forgotten));
        let bare = json!({"also": {}});
        let wanted = json!({"schema": {
            "items": bare, "also": {"items": [bare]}, "needs": {"a": bare, "b": ["c"]},
        }});
        assert_eq!(Value::Object(stored.clone()), wanted);
        assert_ne!(distinguished, stored);
        schema.forget_same_empties(id, &mut distinguished, &stored);
        assert_eq!(distinguished, stored);
    }
}
