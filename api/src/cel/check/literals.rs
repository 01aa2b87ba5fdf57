//! Type checks of literals: constants, lists, maps and messages.

use super::super::functions::{message_type, named_type};
use super::super::tree::{Item, Literal, MessageField, Node};
use super::super::types::{ObjectName, Type, is_same, joined};
use super::Checker;

pub(super) fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The types of a list's items, or of a map's keys or values, so far.
#[derive(Default)]
struct Items {
    /// The common type of the items.
    of: Option<Type>,
    /// The type of the first item, to which all others should be equal.
    first: Option<Type>,
}

impl Items {
    /// Adds an item. If its type differs from that of the first one, returns both types.
    fn add(&mut self, found: Type) -> Option<(Type, Type)> {
        let (Some(of), Some(first)) = (self.of.take(), self.first.take()) else {
            self.of = Some(found.clone());
            self.first = Some(found);
            return None;
        };
        let fault = match is_same(&first, &found) {
            // Each of the two may be known where the other is not.
            true => {
                self.first = joined(&first, &found);
                None
            }
            false => {
                self.first = Some(first.clone());
                Some((first, found.clone()))
            }
        };
        self.of = Some(match (&of, &found) {
            // A part with an error has no type, so the other one counts.
            (Type::Wrong, _) | (_, Type::Wrong) => found,
            _ => joined(&of, &found).unwrap_or(Type::Dyn),
        });
        fault
    }

    fn item(self) -> Type {
        self.of.unwrap_or(Type::Parameter('_'))
    }
}

impl Checker<'_> {
    /// Returns the type of an item that is present. One that may be absent has to be optional.
    fn present(&mut self, is_optional: bool, at: usize, found: Type) -> Type {
        match found {
            Type::Optional(of) if is_optional => (*of).clone(),
            Type::Dyn | Type::Any | Type::Parameter(_) => found,
            found if is_optional => {
                let of = found.as_argument();
                let what = format_args!("expected type 'optional_type({of})' but found '{of}'");
                self.wrong(at, what);
                found
            }
            found => found,
        }
    }

    pub(super) fn list(&mut self, items: &[Item]) -> Type {
        let mut all = Items::default();
        let mut is_reported = false;
        for item in items {
            let found = self.type_of(&item.node);
            let fault = all.add(self.present(item.is_optional, item.node.at, found));
            // Only the first item of another type is reported.
            if let Some(types) = fault.filter(|_| !is_reported) {
                is_reported = true;
                self.differs(item.node.at, &types);
            }
        }
        Type::list(all.item())
    }

    pub(super) fn map(&mut self, entries: &[(Item, Node)]) -> Type {
        let (mut keys, mut values) = (Items::default(), Items::default());
        for (item, value) in entries {
            let found = self.type_of(&item.node);
            if let Some(types) = keys.add(found) {
                self.differs(item.node.at, &types);
            }
            let found = self.type_of(value);
            if let Some(types) = values.add(self.present(item.is_optional, value.at, found)) {
                self.differs(value.at, &types);
            }
        }
        Type::map(keys.item(), values.item())
    }

    /// Records an item whose type differs from that of earlier ones. Values of a format string may
    /// have any types.
    fn differs(&mut self, at: usize, (wanted, found): &(Type, Type)) {
        if self.formats == 0 {
            let (wanted, found) = (wanted.as_argument(), found.as_argument());
            self.wrong_later(
                at,
                format_args!("expected type '{wanted}' but found '{found}'"),
            );
        }
    }

    pub(super) fn message(&mut self, at: usize, name: &str, fields: &[MessageField]) -> Type {
        let types = fields.iter().map(|field| {
            let found = self.type_of(&field.value);
            self.present(field.is_optional, field.value.at, found)
        });
        let types: Vec<Type> = types.collect();
        if let Some((of, known)) = message_type(name) {
            for (field, found) in fields.iter().zip(types) {
                let (at, field) = (field.at, &field.name);
                // linear: the library's messages have few fields.
                let wanted = known.iter().find(|(name, _)| name == field);
                match wanted {
                    None if known.is_empty() => {}
                    None => {
                        self.wrong(at, format_args!("undefined field '{field}'"));
                    }
                    Some((_, wanted)) => self.expect_field(at, field, Some(wanted), &found),
                }
            }
            return of;
        }
        if let Some(of) = self.environment.names.get(name) {
            let of = of.as_argument().to_string();
            return self.wrong(at, format_args!("'{of}' is not a type"));
        }
        if named_type(name).is_some() {
            return self.wrong(at, format_args!("'{name}' is not a message type"));
        }
        let is_patch = name == "JSONPatch";
        if !self.environment.has_objects
            || !is_patch && name != "Object" && !name.starts_with("Object.")
        {
            return self.undeclared(at, name);
        }
        for (field, found) in fields.iter().zip(types).filter(|_| is_patch) {
            let (at, field) = (field.at, &field.name);
            let wanted = match field.as_str() {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => None,
            };
            self.expect_field(at, field, wanted.as_ref(), &found);
        }
        Type::object(ObjectName::new(name), [])
    }

    fn expect_field(&mut self, at: usize, field: &str, wanted: Option<&Type>, found: &Type) {
        if wanted.is_some_and(|wanted| joined(wanted, found).is_some()) {
            return;
        }
        let wanted = wanted
            .map(|of| of.as_argument().to_string())
            .unwrap_or_default();
        let found = found.as_argument();
        self.wrong(
            at,
            format_args!(
                "expected type of field '{field}' is '{wanted}' but provided type is '{found}'"
            ),
        );
    }
}
