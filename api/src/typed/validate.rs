//! Validation of values by their types (API-171).

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::errors::TypeErrors;
use super::forms::{Expected, Items};
use super::kind::{Form, Item};
use crate::field_set::{FieldPath, PathElement, shown_number};
use crate::text::quoting::{beginning, go_quote};

pub(super) fn validate(
    of: ValueType<'_>,
    members: &Map<String, Value>,
    allows_duplicates: bool,
) -> Result<(), TypeErrors> {
    let mut walk = Walk {
        path: FieldPath::default(),
        errors: TypeErrors::default(),
        allows_duplicates,
    };
    walk.members(of, members);
    if walk.errors.0.is_empty() {
        Ok(())
    } else {
        Err(walk.errors)
    }
}

struct Walk {
    path: FieldPath,
    errors: TypeErrors,
    allows_duplicates: bool,
}

impl Walk {
    fn refuse(&mut self, problem: String) {
        self.errors.add(self.path.to_string(), problem);
    }

    fn value(&mut self, of: ValueType<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        match (of.kind.form(Some(value)), value) {
            (Form::Scalar, scalar) => {
                if let Some(expected) = of.kind.expected()
                    && !has_scalar(expected, scalar)
                {
                    self.refuse(scalar_problem(expected, scalar));
                }
            }
            (Form::Map { .. }, Value::Object(members)) => self.members(of, members),
            (Form::Map { .. }, other) => {
                self.refuse(format!("expected map, got {}", beginning(GoValue(other))));
            }
            (Form::List { of: item, items }, Value::Array(values)) => {
                self.items(of, item, items, values);
            }
            (Form::List { .. }, other) => {
                self.refuse(format!("expected list, got {}", beginning(GoValue(other))));
            }
        }
    }

    fn members(&mut self, of: ValueType<'_>, members: &Map<String, Value>) {
        for (name, value) in members {
            if self.errors.is_full() {
                return;
            }
            self.path.push(PathElement::field(name));
            match of.member(name) {
                Some(member) => self.value(member, value),
                None => {
                    // Kubernetes reports only the first one.
                    self.refuse("field not declared in schema".to_owned());
                    self.path.pop();
                    return;
                }
            }
            self.path.pop();
        }
    }

    fn items(&mut self, of: ValueType<'_>, item: Item<'_>, items: Items<'_>, values: &[Value]) {
        let mut seen = BTreeSet::new();
        for (place, value) in values.iter().enumerate() {
            if self.errors.is_full() {
                return;
            }
            let step = match items {
                Items::Atomic => PathElement::Index(i64::try_from(place).unwrap_or_default()),
                items => match element(of.schema, item, items, value) {
                    Ok(step) => step,
                    Err(fault) => {
                        self.refuse(format!("element {place}: {fault}"));
                        return;
                    }
                },
            };
            let is_granular = !matches!(items, Items::Atomic);
            if is_granular && !self.allows_duplicates && !seen.insert(step.clone()) {
                self.refuse(format!("duplicate entries for key {step}"));
            }
            if !matches!(item, Item::Deduced) {
                self.path.push(step);
                self.value(of.at(item.kind(of.schema)), value);
                self.path.pop();
            }
        }
    }
}

fn has_scalar(expected: Expected, value: &Value) -> bool {
    match expected {
        Expected::String => value.is_string(),
        Expected::Number => value.is_number(),
        Expected::Bool => value.is_boolean(),
        Expected::Any => !value.is_array() && !value.is_object(),
    }
}

fn scalar_problem(expected: Expected, value: &Value) -> String {
    match expected {
        Expected::String => {
            let value = beginning(GoSyntax(value));
            format!("expected string, got &value.valueUnstructured{{Value:{value}}}")
        }
        Expected::Number => {
            let name = go_type(value);
            format!("expected numeric (int or float), got {name}")
        }
        Expected::Bool => format!("expected boolean, got {}", beginning(GoValue(value))),
        Expected::Any => format!("expected any scalar, got {}", beginning(GoValue(value))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value inside structured-merge-diff's Go struct for values, formatted like `%v`.
struct GoValue<'v>(&'v Value);

impl std::fmt::Display for GoValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "&{{{}}}", GoPlain(self.0))
    }
}

/// A value, formatted like Go's `%v`.
pub struct GoPlain<'v>(pub &'v Value);

impl std::fmt::Display for GoPlain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => f.write_str(&shown_number(number)),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => {
                f.write_char('[')?;
                for (place, item) in items.iter().enumerate() {
                    let space = if place == 0 { "" } else { " " };
                    write!(f, "{space}{}", GoPlain(item))?;
                }
                f.write_char(']')
            }
            Value::Object(members) => {
                f.write_str("map[")?;
                for (place, (name, value)) in members.iter().enumerate() {
                    let space = if place == 0 { "" } else { " " };
                    write!(f, "{space}{name}:{}", GoPlain(value))?;
                }
                f.write_char(']')
            }
        }
    }
}

/// A value, formatted like Go's `%#v`.
struct GoSyntax<'v>(&'v Value);

impl std::fmt::Display for GoSyntax<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Value::Null => f.write_str("interface {}(nil)"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => f.write_str(&shown_number(number)),
            Value::String(text) => f.write_str(&go_quote(text)),
            Value::Array(items) => {
                f.write_str("[]interface {}{")?;
                for (place, item) in items.iter().enumerate() {
                    let comma = if place == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", GoSyntax(item))?;
                }
                f.write_char('}')
            }
            Value::Object(members) => {
                f.write_str("map[string]interface {}{")?;
                for (place, (name, value)) in members.iter().enumerate() {
                    let comma = if place == 0 { "" } else { ", " };
                    write!(f, "{comma}{}:{}", go_quote(name), GoSyntax(value))?;
                }
                f.write_char('}')
            }
        }
    }
}
