//! The types of the parts of an expression, names that nothing declares, and what doesn't fit.

use std::collections::HashMap;

use super::functions::{FUNCTIONS, Overload, named_type};
use super::macros;
use super::tree::{Expression, Item, Literal, Node};
use super::types::{Bound, Type, joined};
use super::{Environment, Fault};
use crate::structural::pattern::Pattern;

/// The stack that a level takes, and what is added when it is short.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// No more faults than this are looked for.
const MAX_FAULTS: usize = 200;

pub(super) struct Checker<'e> {
    names: &'e HashMap<String, Type>,
    has_objects: bool,
    has_bind: bool,
    /// The names that macros bind, the innermost last.
    bound: Vec<(String, Type)>,
    /// The names of the environment that are asked for.
    pub used: Vec<String>,
    pub faults: Vec<Fault>,
}

impl<'e> Checker<'e> {
    pub(super) fn new(environment: &'e Environment) -> Checker<'e> {
        Checker {
            names: &environment.names,
            has_objects: environment.has_objects,
            has_bind: environment.has_bind,
            bound: Vec::new(),
            used: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn wrong(&mut self, at: usize, what: String) -> Type {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { at, what });
        }
        Type::Wrong
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        let what = format!("undeclared reference to '{name}' (in container '')");
        self.wrong(at, what)
    }

    /// The type of a part.
    pub(super) fn type_of(&mut self, node: &Node) -> Type {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.type_here(node))
    }

    fn type_here(&mut self, node: &Node) -> Type {
        match &node.what {
            Expression::Literal(literal) => self.literal(node.at, literal),
            Expression::Name(name) => match self.found(name) {
                Some(of) => of,
                None => self.undeclared(node.at, name),
            },
            Expression::Select {
                of,
                name,
                is_optional,
            } => self.select(node, of, name, *is_optional),
            Expression::Index {
                of,
                key,
                is_optional,
            } => {
                let types = vec![self.type_of(of), self.type_of(key)];
                let name = if *is_optional { "_[?_]" } else { "_[_]" };
                self.apply(node.at, name, false, &types)
            }
            Expression::Call {
                name,
                target,
                arguments,
            } => self.call(node.at, name, target.as_deref(), arguments),
            Expression::List(items) => self.list(items),
            Expression::Map(entries) => self.map(entries),
            Expression::Message { name, fields } => self.message(node.at, name, fields),
            Expression::And(terms) | Expression::Or(terms) => {
                for term in terms {
                    self.expect(term, &Type::Bool);
                }
                Type::Bool
            }
            Expression::Conditional(parts) => self.conditional(node.at, parts),
        }
    }

    fn literal(&mut self, at: usize, literal: &Literal) -> Type {
        match literal {
            Literal::Null => Type::Null,
            Literal::Bool => Type::Bool,
            Literal::Int(true) => Type::Int,
            Literal::Uint(true) => Type::Uint,
            Literal::Int(false) => self.wrong(at, "invalid int literal".to_owned()),
            Literal::Uint(false) => self.wrong(at, "invalid uint literal".to_owned()),
            Literal::Double => Type::Double,
            Literal::String(_) => Type::String,
            Literal::Bytes => Type::Bytes,
        }
    }

    /// The type of a name, which may have dots.
    fn found(&mut self, name: &str) -> Option<Type> {
        let plain = name.trim_start_matches('.');
        let bound = self.bound.iter().rev().find(|(known, _)| known == name);
        if let Some((_, of)) = bound {
            return Some(of.clone());
        }
        if let Some(of) = self.names.get(plain) {
            if !self.used.iter().any(|used| used == plain) {
                self.used.push(plain.to_owned());
            }
            return Some(of.clone());
        }
        named_type(plain).map(Type::of_type)
    }

    /// A part that must be of a type.
    fn expect(&mut self, node: &Node, wanted: &Type) {
        let found = self.type_of(node);
        if joined(wanted, &found).is_none() {
            let what = format!("expected type '{wanted}' but found '{found}'");
            self.wrong(node.at, what);
        }
    }

    fn conditional(&mut self, at: usize, parts: &[Node; 3]) -> Type {
        let types: Vec<Type> = parts.iter().map(|part| self.type_of(part)).collect();
        let [condition, yes, no] = types.as_slice() else {
            return Type::Wrong;
        };
        if joined(&Type::Bool, condition).is_some()
            && let Some(both) = joined(yes, no)
        {
            return both;
        }
        self.no_overload(at, "_?_:_", None, &types)
    }

    fn select(&mut self, node: &Node, of: &Node, name: &str, is_optional: bool) -> Type {
        if !is_optional
            && let Some(whole) = node.qualified()
            && !self
                .bound
                .iter()
                .any(|(known, _)| whole.starts_with(known.as_str()))
            && let Some(found) = self.names.get(&whole).cloned()
        {
            self.used.push(whole);
            return found;
        }
        let found = self.type_of(of);
        let member = self.member(node.at, &found, name);
        match (is_optional, member) {
            (true, Type::Optional(of)) => Type::Optional(of),
            (true, of) => Type::optional(of),
            (false, of) => of,
        }
    }

    fn member(&mut self, at: usize, of: &Type, name: &str) -> Type {
        match of {
            Type::Dyn | Type::Any | Type::Parameter(_) => Type::Dyn,
            Type::Wrong => Type::Wrong,
            Type::Map(of) => of.1.clone(),
            Type::Optional(of) => {
                let of = self.member(at, of, name);
                Type::optional(of)
            }
            Type::Object(of) => match of.fields.get(name) {
                Some(found) => found.clone(),
                None => self.wrong(at, format!("undefined field '{name}'")),
            },
            other => self.wrong(
                at,
                format!("type '{other}' does not support field selection"),
            ),
        }
    }

    fn list(&mut self, items: &[Item]) -> Type {
        let mut of = None;
        for item in items {
            let found = self.type_of(&item.node);
            of = Some(self.same(item, found, of));
        }
        Type::list(of.unwrap_or(Type::Parameter('_')))
    }

    fn map(&mut self, entries: &[(Item, Node)]) -> Type {
        let (mut key, mut value) = (None, None);
        for (item, of) in entries {
            let found = self.type_of(&item.node);
            let plain = Item {
                is_optional: false,
                node: Node::new(item.node.at, Expression::Literal(Literal::Null)),
            };
            key = Some(self.same(&plain, found, key));
            let found = self.type_of(of);
            let plain = Item {
                is_optional: item.is_optional,
                node: Node::new(of.at, Expression::Literal(Literal::Null)),
            };
            value = Some(self.same(&plain, found, value));
        }
        match (key, value) {
            (Some(key), Some(value)) => Type::map(key, value),
            _ => Type::map(Type::Parameter('_'), Type::Parameter('_')),
        }
    }

    /// The type of the parts of a list, which have the same.
    fn same(&mut self, item: &Item, found: Type, before: Option<Type>) -> Type {
        let found = match (item.is_optional, found) {
            (true, Type::Optional(of)) => (*of).clone(),
            (_, of) => of,
        };
        let Some(before) = before else {
            return found;
        };
        match joined(&before, &found) {
            Some(both) => both,
            None => {
                let what = format!("expected type '{before}' but found '{found}'");
                self.wrong(item.node.at, what);
                before
            }
        }
    }

    fn message(&mut self, at: usize, name: &str, fields: &[(usize, String, Node)]) -> Type {
        let types: Vec<Type> = fields.iter().map(|(.., node)| self.type_of(node)).collect();
        if let Some(of) = named_type(name) {
            return of;
        }
        let is_patch = name == "JSONPatch";
        if !self.has_objects || !is_patch && name != "Object" && !name.starts_with("Object.") {
            return self.undeclared(at, name);
        }
        for ((at, field, _), found) in fields.iter().zip(types).filter(|_| is_patch) {
            let wanted = match field.as_str() {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => None,
            };
            if wanted
                .as_ref()
                .is_none_or(|wanted| joined(wanted, &found).is_none())
            {
                let wanted = wanted.map(|wanted| wanted.to_string()).unwrap_or_default();
                let what = format!(
                    "expected type of field '{field}' is '{wanted}' but provided type is '{found}'"
                );
                self.wrong(*at, what);
            }
        }
        Type::object(name, [])
    }

    fn call(&mut self, at: usize, name: &str, target: Option<&Node>, arguments: &[Node]) -> Type {
        if macros::is_has(name, target.is_some(), arguments.len()) {
            for argument in arguments {
                self.type_of(argument);
            }
            return Type::Bool;
        }
        if let Some(target) = target {
            // The name of a function may have dots.
            if let Some(mut whole) = target.qualified() {
                whole.push('.');
                whole.push_str(name);
                if self.has_bind && whole == "cel.bind" {
                    return self.bind(arguments);
                }
                if FUNCTIONS.contains_key(whole.as_str()) {
                    let types = self.types_of(arguments);
                    return self.apply(at, &whole, false, &types);
                }
            }
            if let Some(found) = macros::find(name, true, arguments.len()) {
                return self.comprehension(name, target, arguments, found.names);
            }
        }
        let mut types = Vec::with_capacity(arguments.len() + 1);
        types.extend(target.map(|target| self.type_of(target)));
        types.extend(self.types_of(arguments));
        let result = self.apply(at, name, target.is_some(), &types);
        self.constants(name, arguments);
        result
    }

    /// A value under a name: `cel.bind(name, value, expression)`.
    fn bind(&mut self, arguments: &[Node]) -> Type {
        let [name, value, expression] = arguments else {
            return Type::Wrong;
        };
        let of = self.type_of(value);
        let before = self.bound.len();
        if let Expression::Name(name) = &name.what {
            self.bound.push((name.clone(), of));
        }
        let result = self.type_of(expression);
        self.bound.truncate(before);
        result
    }

    fn types_of(&mut self, nodes: &[Node]) -> Vec<Type> {
        nodes.iter().map(|node| self.type_of(node)).collect()
    }

    /// The type of what a function answers.
    fn apply(&mut self, at: usize, name: &str, is_method: bool, types: &[Type]) -> Type {
        let Some(overloads) = FUNCTIONS.get(name) else {
            return self.undeclared(at, name);
        };
        let mut found: Option<Type> = None;
        for overload in overloads {
            let Some(result) = applied(overload, is_method, types) else {
                continue;
            };
            found = Some(match found {
                None => result,
                Some(before) if before == result => before,
                Some(_) => Type::Dyn,
            });
        }
        match found {
            Some(result) => result,
            None => {
                let target = types.first().filter(|_| is_method);
                let arguments = types.get(usize::from(is_method)..).unwrap_or_default();
                self.no_overload(at, name, target, arguments)
            }
        }
    }

    fn no_overload(
        &mut self,
        at: usize,
        name: &str,
        target: Option<&Type>,
        arguments: &[Type],
    ) -> Type {
        let shown: Vec<String> = arguments.iter().map(Type::as_argument).collect();
        let shown = shown.join(", ");
        let target = target.map(|of| format!("{}.", of.as_argument()));
        let target = target.unwrap_or_default();
        let what =
            format!("found no matching overload for '{name}' applied to '{target}({shown})'");
        self.wrong(at, what)
    }

    /// Constants that a function can't read.
    fn constants(&mut self, name: &str, arguments: &[Node]) {
        let Some(last) = arguments.last() else { return };
        let Expression::Literal(Literal::String(text)) = &last.what else {
            return;
        };
        let is_valid = match name {
            "matches" => Pattern::new(text).is_ok(),
            "duration" => is_duration(text),
            "timestamp" => text.parse::<jiff::Timestamp>().is_ok(),
            _ => true,
        };
        if !is_valid {
            self.wrong(last.at, format!("invalid {name} argument"));
        }
    }

    /// A macro about the items of a value.
    fn comprehension(
        &mut self,
        name: &str,
        target: &Node,
        arguments: &[Node],
        names: usize,
    ) -> Type {
        let of = self.type_of(target);
        let is_about_optional = matches!(name, "optMap" | "optFlatMap");
        let (first, second) = match &of {
            Type::List(item) if names == 2 => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Optional(of) if is_about_optional => ((**of).clone(), Type::Dyn),
            Type::Dyn | Type::Any | Type::Wrong | Type::Parameter(_) => (Type::Dyn, Type::Dyn),
            other => {
                let what = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.wrong(target.at, what);
                (Type::Wrong, Type::Wrong)
            }
        };
        let before = self.bound.len();
        for (node, of) in arguments.iter().take(names).zip([first, second.clone()]) {
            if let Expression::Name(name) = &node.what {
                self.bound.push((name.clone(), of));
            }
        }
        let result = self.comprehended(name, &of, arguments.get(names..).unwrap_or_default());
        self.bound.truncate(before);
        result
    }

    fn comprehended(&mut self, name: &str, of: &Type, parts: &[Node]) -> Type {
        let (last, conditions) = match parts.split_last() {
            Some((last, conditions)) => (last, conditions),
            None => return Type::Wrong,
        };
        match name {
            "all" | "exists" | "exists_one" | "existsOne" => {
                self.expect(last, &Type::Bool);
                Type::Bool
            }
            "filter" => {
                self.expect(last, &Type::Bool);
                match of {
                    Type::Map(of) => Type::list(of.0.clone()),
                    Type::List(_) => of.clone(),
                    _ => Type::list(Type::Dyn),
                }
            }
            _ => {
                for condition in conditions {
                    self.expect(condition, &Type::Bool);
                }
                let found = self.type_of(last);
                match (name, of) {
                    ("optMap", _) => Type::optional(found),
                    ("optFlatMap" | "transformMapEntry", _) => found,
                    ("transformMap", Type::Map(of)) => Type::map(of.0.clone(), found),
                    ("transformMap", _) => Type::map(Type::Dyn, found),
                    _ => Type::list(found),
                }
            }
        }
    }
}

/// What an overload answers to arguments of these types, if it takes them.
fn applied(overload: &Overload, is_method: bool, types: &[Type]) -> Option<Type> {
    if overload.is_method != is_method || overload.arguments.len() != types.len() {
        return None;
    }
    let mut bound = Bound::default();
    for (wanted, found) in overload.arguments.iter().zip(types) {
        if !bound.fits(wanted, found) {
            return None;
        }
    }
    Some(bound.filled(&overload.result))
}

fn is_duration(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut rest = rest;
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let (number, behind) = rest
            .split_at_checked(rest.len() - behind.len())
            .unwrap_or((rest, ""));
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let unit = units.into_iter().find(|unit| behind.starts_with(unit));
        let Some(unit) = unit.filter(|_| number.parse::<f64>().is_ok()) else {
            return false;
        };
        rest = behind.get(unit.len()..).unwrap_or_default();
    }
    true
}
