//! The atomic parts of a value.

use serde_json::{Map, Value};

use super::ValueType;
use super::forms::Items;
use super::kind::{Form, Item};
use crate::field_set::{FieldPath, PathElement};

/// The most paths that are returned.
const MAX_PATHS: usize = 100;

pub(super) fn of_members(of: ValueType<'_>, members: &Map<String, Value>) -> Vec<String> {
    let mut walk = Walk {
        path: FieldPath::default(),
        found: Vec::new(),
    };
    walk.members(of, members);
    walk.found
}

struct Walk {
    path: FieldPath,
    found: Vec<String>,
}

impl Walk {
    fn note(&mut self) {
        if self.found.len() < MAX_PATHS {
            self.found.push(self.path.to_string());
        }
    }

    fn value(&mut self, of: ValueType<'_>, value: &Value) {
        match (of.kind.form(Some(value)), value) {
            (Form::Map { is_atomic }, Value::Object(members)) => {
                if is_atomic {
                    self.note();
                }
                self.members(of, members);
            }
            (Form::List { of: item, items }, Value::Array(values)) => {
                if matches!(items, Items::Atomic) {
                    self.note();
                }
                self.items(of, item, values);
            }
            _ => {}
        }
    }

    fn members(&mut self, of: ValueType<'_>, members: &Map<String, Value>) {
        for (name, value) in members {
            let element = PathElement::field(name);
            if of.names(&element)
                && let Some(member) = of.member(name)
            {
                self.path.push(element);
                self.value(member, value);
                self.path.pop();
            }
        }
    }

    fn items(&mut self, of: ValueType<'_>, item: Item<'_>, values: &[Value]) {
        for (place, value) in values.iter().enumerate() {
            let place = i64::try_from(place).unwrap_or_default();
            self.path.push(PathElement::Index(place));
            self.value(of.at(item.kind(of.schema)), value);
            self.path.pop();
        }
    }
}
