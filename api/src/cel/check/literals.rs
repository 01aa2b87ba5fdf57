//! The types of literals: constants, lists, maps and messages.

use super::super::functions::{message_type, named_type};
use super::super::tree::{Item, Literal, Node};
use super::super::types::{ObjectName, Type, is_same, joined};
use super::Checker;

pub(super) fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool => Type::Bool,
        Literal::Int => Type::Int,
        Literal::Uint => Type::Uint,
        Literal::Double => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes => Type::Bytes,
    }
}

/// What is known of the items of a list, or of the keys or the values of a map, so far.
#[derive(Default)]
struct Items {
    /// What an item may be.
    of: Option<Type>,
    /// What the first item is. All others should be the same.
    first: Option<Type>,
}

impl Items {
    /// Another item. If it is another type than the first one, the answer is that and its own.
    fn add(&mut self, found: Type) -> Option<(Type, Type)> {
        let (Some(of), Some(first)) = (self.of.take(), self.first.take()) else {
            self.of = Some(found.clone());
            self.first = Some(found);
            return None;
        };
        let fault = match is_same(&first, &found) {
            // The one may tell what is not known of the other.
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
            // The one that is not wrong tells more.
            (Type::Wrong, _) | (_, Type::Wrong) => found,
            _ => joined(&of, &found).unwrap_or(Type::Dyn),
        });
        fault
    }

    fn item(self) -> Type {
        self.of.unwrap_or(Type::Parameter('_'))
    }
}

/// The type of an item that is there.
fn present(is_optional: bool, found: Type) -> Type {
    match (is_optional, found) {
        (true, Type::Optional(of)) => (*of).clone(),
        (_, of) => of,
    }
}

impl Checker<'_> {
    pub(super) fn list(&mut self, items: &[Item]) -> Type {
        let mut all = Items::default();
        let mut is_told = false;
        for item in items {
            let found = self.type_of(&item.node);
            let fault = all.add(present(item.is_optional, found));
            // Only the first item of another type is told.
            if let Some(types) = fault.filter(|_| !is_told) {
                is_told = true;
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
            if let Some(types) = values.add(present(item.is_optional, found)) {
                self.differs(value.at, &types);
            }
        }
        Type::map(keys.item(), values.item())
    }

    /// An item of another type than those in front of it. What is formatted may be of any types.
    fn differs(&mut self, at: usize, (wanted, found): &(Type, Type)) {
        if self.formats == 0 {
            let (wanted, found) = (wanted.as_argument(), found.as_argument());
            self.wrong_later(
                at,
                format_args!("expected type '{wanted}' but found '{found}'"),
            );
        }
    }

    pub(super) fn message(
        &mut self,
        at: usize,
        name: &str,
        fields: &[(usize, String, Node)],
    ) -> Type {
        let types: Vec<Type> = fields.iter().map(|(.., node)| self.type_of(node)).collect();
        if let Some((of, known)) = message_type(name) {
            for ((at, field, _), found) in fields.iter().zip(types) {
                // linear: messages of the library have few fields.
                let wanted = known.iter().find(|(name, _)| name == field);
                match wanted {
                    None if known.is_empty() => {}
                    None => {
                        self.wrong(*at, format_args!("undefined field '{field}'"));
                    }
                    Some((_, wanted)) => self.expect_field(*at, field, Some(wanted), &found),
                }
            }
            return of;
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
        for ((at, field, _), found) in fields.iter().zip(types).filter(|_| is_patch) {
            let wanted = match field.as_str() {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => None,
            };
            self.expect_field(*at, field, wanted.as_ref(), &found);
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
