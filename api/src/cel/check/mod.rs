//! The types of the parts of an expression, names that nothing declares, and what doesn't fit.

mod comprehensions;
mod constants;
mod literals;

use std::collections::HashMap;
use std::fmt;

use self::comprehensions::Comprehension;
use self::constants::key;
use self::literals::literal_type;
use super::functions::{FUNCTIONS, Overload, PATCH_FUNCTIONS, named_type};
use super::macros;
use super::tree::{Expression, Node};
use super::types::{Bound, Type, joined};
use super::{Environment, Fault, Faults, VARIABLES};
use crate::field_error::beginning;
use crate::structural::Budget;

/// The stack that a level takes, and what is added when it is short.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// No more faults than this are looked for.
const MAX_FAULTS: usize = 200;

/// The types in a type that are looked at in one step.
const TYPES_IN_STEP: usize = 16;

pub(super) struct Checker<'e> {
    environment: &'e Environment,
    budget: &'e Budget,
    /// The names that macros bind, with what they stand for, the innermost last.
    bound: HashMap<String, Vec<Type>>,
    /// The names of the environment that are asked for.
    pub used: Vec<String>,
    faults: Vec<Fault>,
    /// Faults that are told if all types fit.
    later: Vec<Fault>,
    /// How many calls of `format` are around this part.
    formats: usize,
    /// The types of the parts in those calls.
    format_types: HashMap<usize, Type>,
}

impl<'e> Checker<'e> {
    pub(super) fn new(environment: &'e Environment, budget: &'e Budget) -> Checker<'e> {
        Checker {
            environment,
            budget,
            bound: HashMap::new(),
            used: Vec::new(),
            faults: Vec::new(),
            later: Vec::new(),
            formats: 0,
            format_types: HashMap::new(),
        }
    }

    /// The faults that are told.
    pub(super) fn told(&mut self) -> Faults {
        let faults = std::mem::take(&mut self.faults);
        let kept = match faults.is_empty() {
            true => std::mem::take(&mut self.later),
            false => faults,
        };
        Faults { kept, end: None }
    }

    fn wrong(&mut self, at: usize, what: impl fmt::Display) -> Type {
        add(&mut self.faults, at, what);
        Type::Wrong
    }

    fn wrong_later(&mut self, at: usize, what: impl fmt::Display) {
        add(&mut self.later, at, what);
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.wrong(
            at,
            format_args!("undeclared reference to '{name}' (in container '')"),
        )
    }

    /// The type of a part. What is around the part looks at all of the type, so this takes the
    /// steps for it. If the budget is spent, nothing more is looked at.
    pub(super) fn type_of(&mut self, node: &Node) -> Type {
        if self.budget.is_spent() {
            return Type::Wrong;
        }
        let of = stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.type_here(node));
        if !self.budget.take(1 + of.size() / TYPES_IN_STEP) {
            return Type::Wrong;
        }
        if self.formats > 0 {
            self.format_types.insert(key(node), of.clone());
        }
        of
    }

    fn type_here(&mut self, node: &Node) -> Type {
        match &node.what {
            Expression::Literal(literal) => literal_type(literal),
            Expression::Name(name) => match self.found(name) {
                Some(of) => of,
                None => self.undeclared(node.at, name),
            },
            Expression::Select {
                of,
                name,
                is_optional,
            } => self.select(node.at, node, of, name, *is_optional),
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
                let mut result = Type::Bool;
                for term in terms {
                    if !self.expect(term, &Type::Bool) {
                        result = Type::Wrong;
                    }
                }
                result
            }
            Expression::Conditional(parts) => self.conditional(node.at, parts),
        }
    }

    /// The type of a name, which may have dots.
    fn found(&mut self, name: &str) -> Option<Type> {
        let plain = name.trim_start_matches('.');
        if let Some(of) = self.bound.get(name).and_then(|all| all.last()) {
            return Some(of.clone());
        }
        if let Some(of) = self.environment.names.get(plain) {
            if !self.used.iter().any(|used| used == plain) {
                self.used.push(plain.to_owned());
            }
            return Some(of.clone());
        }
        named_type(plain).map(Type::of_type)
    }

    /// A part that must be of a type. The answer tells whether it is.
    fn expect(&mut self, node: &Node, wanted: &Type) -> bool {
        let found = self.type_of(node);
        let fits = joined(wanted, &found).is_some();
        if !fits {
            let (wanted, found) = (wanted.as_argument(), found.as_argument());
            let what = format_args!("expected type '{wanted}' but found '{found}'");
            self.wrong(node.at, what);
        }
        fits
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

    /// A member of a value, which is told of at a place.
    fn select(&mut self, at: usize, node: &Node, of: &Node, name: &str, is_optional: bool) -> Type {
        if !is_optional
            && let Some(whole) = node.known_name()
            && !self.is_bound(whole.split('.').next().unwrap_or_default())
        {
            if let Some(found) = self.environment.names.get(&whole).cloned() {
                if !self.used.contains(&whole) {
                    self.used.push(whole);
                }
                return found;
            }
            // Only names with dots are looked for here.
            if let Some(found) = named_type(&whole).filter(|_| whole.contains('.')) {
                return Type::of_type(found);
            }
        }
        let found = self.type_of(of);
        let member = self.member(at, &found, name);
        match (is_optional, member) {
            (true, Type::Optional(of)) => Type::Optional(of),
            (true, of) => Type::optional(of),
            (false, of) => of,
        }
    }

    /// Whether a macro binds this name.
    fn is_bound(&self, name: &str) -> bool {
        self.bound.get(name).is_some_and(|all| !all.is_empty())
    }

    fn bind_name(&mut self, node: &Node, of: Type) {
        if let Expression::Name(name) = &node.what {
            self.bound.entry(name.clone()).or_default().push(of);
        }
    }

    fn release_name(&mut self, node: &Node) {
        if let Expression::Name(name) = &node.what
            && let Some(all) = self.bound.get_mut(name)
        {
            all.pop();
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
            Type::Object(of) => {
                let found = match of.is_named(VARIABLES) {
                    true => self.environment.variables.get(name),
                    false => of.field(name),
                };
                match found {
                    Some(found) => found.clone(),
                    None => self.wrong(at, format_args!("undefined field '{name}'")),
                }
            }
            other => self.wrong(
                at,
                format_args!(
                    "type '{}' does not support field selection",
                    other.as_argument()
                ),
            ),
        }
    }

    fn call(&mut self, at: usize, name: &str, target: Option<&Node>, arguments: &[Node]) -> Type {
        if macros::is_has(name, target.is_some(), arguments.len()) {
            return self.has(at, arguments);
        }
        if let Some(target) = target {
            // The name of a function may have dots.
            if let Some(mut whole) = target.known_name() {
                whole.push('.');
                whole.push_str(name);
                if self.environment.has_bind && whole == "cel.bind" {
                    return self.bind(arguments);
                }
                let is_known =
                    self.environment.has_objects || !PATCH_FUNCTIONS.contains(&whole.as_str());
                if is_known && FUNCTIONS.contains_key(whole.as_str()) {
                    let types = self.types_of(arguments);
                    return self.apply(at, &whole, false, &types);
                }
            }
            if let Some(found) = macros::find(name, true, arguments.len()) {
                return self.comprehension(&Comprehension {
                    at,
                    name,
                    target,
                    arguments,
                    names: found.names,
                });
            }
        }
        let is_format = name == "format";
        self.formats += usize::from(is_format);
        let mut types = Vec::with_capacity(arguments.len() + 1);
        types.extend(target.map(|target| self.type_of(target)));
        types.extend(self.types_of(arguments));
        if let Some(target) = target.filter(|_| is_format) {
            self.format(at, target, arguments);
        }
        self.formats -= usize::from(is_format);
        if self.formats == 0 {
            self.format_types.clear();
        }
        let result = self.apply(at, name, target.is_some(), &types);
        self.constants(name, arguments);
        result
    }

    /// The question whether a member is there. What is wrong with it is told of the question.
    fn has(&mut self, at: usize, arguments: &[Node]) -> Type {
        for node in arguments {
            match &node.what {
                Expression::Select {
                    of,
                    name,
                    is_optional,
                } => self.select(at, node, of, name, *is_optional),
                _ => self.type_of(node),
            };
        }
        Type::Bool
    }

    /// A value under a name: `cel.bind(name, value, expression)`.
    fn bind(&mut self, arguments: &[Node]) -> Type {
        let [name, value, expression] = arguments else {
            return Type::Wrong;
        };
        let of = self.type_of(value);
        self.bind_name(name, of);
        let result = self.type_of(expression);
        self.release_name(name);
        result
    }

    fn types_of(&mut self, nodes: &[Node]) -> Vec<Type> {
        nodes.iter().map(|node| self.type_of(node)).collect()
    }

    /// The type of what a function answers.
    fn apply(&mut self, at: usize, name: &str, is_method: bool, types: &[Type]) -> Type {
        // A function is looked for at the root in any case.
        let plain = name.trim_start_matches('.');
        let is_known = self.environment.has_objects || !PATCH_FUNCTIONS.contains(&plain);
        let Some(overloads) = FUNCTIONS.get(plain).filter(|_| is_known) else {
            return self.undeclared(at, name);
        };
        // The first function that fits tells what was not known.
        let is_unknown = types.iter().any(Type::is_unknown);
        let mut found: Option<Type> = None;
        for overload in overloads {
            let Some(result) = applied(overload, is_method, types) else {
                continue;
            };
            found = Some(match found {
                None if is_unknown => return result,
                None => result,
                // What is not known of two results need not be the same.
                Some(before) if before == result && !result.is_unknown() => before,
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
        self.wrong(
            at,
            NoOverload {
                name,
                target,
                arguments,
            },
        )
    }
}

fn add(faults: &mut Vec<Fault>, at: usize, what: impl fmt::Display) {
    if faults.len() < MAX_FAULTS {
        let what = beginning(what);
        faults.push(Fault { at, what });
    }
}

/// A call that no function takes.
struct NoOverload<'c> {
    name: &'c str,
    target: Option<&'c Type>,
    arguments: &'c [Type],
}

impl fmt::Display for NoOverload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        write!(f, "found no matching overload for '{name}' applied to '")?;
        if let Some(target) = self.target {
            write!(f, "{}.", target.as_argument())?;
        }
        for (index, argument) in self.arguments.iter().enumerate() {
            let before = if index == 0 { "(" } else { ", " };
            write!(f, "{before}{}", argument.as_argument())?;
        }
        let open = if self.arguments.is_empty() { "(" } else { "" };
        write!(f, "{open})'")
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
