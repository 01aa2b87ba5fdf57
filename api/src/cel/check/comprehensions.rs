//! Type checks of macros, which evaluate expressions for each item of a value.

use super::super::tree::Node;
use super::super::types::{Type, joined};
use super::{Checker, MAX_FAULTS};

/// A call of a macro, with the position for its errors.
pub(super) struct Comprehension<'n> {
    pub at: usize,
    pub name: &'n str,
    pub target: &'n Node,
    pub arguments: &'n [Node],
    /// The number of leading arguments that are names.
    pub names: usize,
}

impl Checker<'_> {
    /// Returns the type of a macro over the items of a value.
    pub(super) fn comprehension(&mut self, of: &Comprehension<'_>) -> Type {
        let before = (self.faults.len(), self.later.len());
        let range = self.type_of(of.target);
        let is_about_optional = matches!(of.name, "optMap" | "optFlatMap");
        let (first, second) = match &range {
            _ if is_about_optional => {
                // The macro calls `hasValue` and `value` on it, so its errors occur twice.
                let again = self.faults.get(before.0..).unwrap_or_default().to_vec();
                self.faults.extend(again);
                let again = self.later.get(before.1..).unwrap_or_default().to_vec();
                self.later.extend(again);
                self.faults.truncate(MAX_FAULTS);
                self.later.truncate(MAX_FAULTS);
                let types = [range.clone()];
                self.apply(of.at, "hasValue", true, &types);
                (self.apply(of.at, "value", true, &types), Type::Dyn)
            }
            Type::List(item) if of.names == 2 => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Dyn | Type::Any | Type::Wrong | Type::Parameter(_) => (Type::Dyn, Type::Dyn),
            other => {
                let is_sort = of.name == "sortBy";
                let other = other.as_argument();
                self.wrong(
                    if is_sort { of.at } else { of.target.at },
                    format_args!(
                        "expression of type '{other}' cannot be range of a comprehension (must be \
                         list, map, or dynamic)"
                    ),
                );
                (Type::Wrong, Type::Wrong)
            }
        };
        let (names, parts) = of.arguments.split_at_checked(of.names).unwrap_or_default();
        for (name, found) in names.iter().zip([first, second]) {
            self.bind_name(name, found);
        }
        let result = self.comprehended(of, &range, parts);
        for name in names {
            self.release_name(name);
        }
        result
    }

    fn comprehended(&mut self, of: &Comprehension<'_>, range: &Type, parts: &[Node]) -> Type {
        let Some((last, conditions)) = parts.split_last() else {
            return Type::Wrong;
        };
        match of.name {
            "all" | "exists" => {
                self.expect(last, &Type::Bool);
                Type::Bool
            }
            "exists_one" | "existsOne" => {
                let condition = self.type_of(last);
                self.chosen(of.at, &condition, &Type::Int);
                Type::Bool
            }
            "filter" => {
                let result = match range {
                    Type::Map(of) => Type::list(of.0.clone()),
                    Type::List(_) => range.clone(),
                    _ => Type::list(item_of(range)),
                };
                let condition = self.type_of(last);
                self.chosen(of.at, &condition, &result);
                result
            }
            "sortBy" => {
                let types = [range.clone(), Type::list(self.type_of(last))];
                self.apply(of.at, "@sortByAssociatedKeys", true, &types)
            }
            name => {
                let conditions: Vec<Type> = conditions.iter().map(|of| self.type_of(of)).collect();
                let found = self.type_of(last);
                let result = match (name, range) {
                    ("optMap", _) => Type::optional(found),
                    ("optFlatMap", _) => self.flat(of.at, found),
                    ("transformMapEntry", _) => self.entries(of.at, found),
                    ("transformMap", Type::Map(of)) => Type::map(of.0.clone(), found),
                    ("transformMap", Type::List(_)) => Type::map(Type::Int, found),
                    ("transformMap", _) => Type::map(item_of(range), found),
                    _ => Type::list(found),
                };
                for condition in &conditions {
                    self.chosen(of.at, condition, &result);
                }
                result
            }
        }
    }

    /// Returns the type of `optFlatMap`: a result that is optional.
    fn flat(&mut self, at: usize, found: Type) -> Type {
        let none = Type::optional(Type::Dyn);
        match joined(&none, &found) {
            Some(_) => found,
            None => self.no_overload(at, "_?_:_", None, &[Type::Bool, found, none]),
        }
    }

    /// Returns the type of `transformMapEntry`: a result that is a map.
    fn entries(&mut self, at: usize, found: Type) -> Type {
        let map = Type::map(Type::Dyn, Type::Dyn);
        match joined(&map, &found) {
            Some(_) => found,
            None => self.no_overload(at, "cel.@mapInsert", None, &[map, found]),
        }
    }

    /// Checks a condition that decides whether a result is used. A macro counts as a conditional
    /// between two results.
    fn chosen(&mut self, at: usize, condition: &Type, result: &Type) {
        if joined(&Type::Bool, condition).is_none() {
            let types = [condition.clone(), result.clone(), result.clone()];
            self.no_overload(at, "_?_:_", None, &types);
        }
    }
}

/// Returns the type of an item of a value that is neither a list nor a map.
fn item_of(range: &Type) -> Type {
    match range {
        Type::Dyn | Type::Any | Type::Parameter(_) => Type::Dyn,
        _ => Type::Wrong,
    }
}
