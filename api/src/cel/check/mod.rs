//! Type checks: the types of the parts of an expression, undeclared names, and types that don't
//! match.

mod comprehensions;
mod constants;
mod literals;

use std::collections::HashMap;
use std::fmt;

use self::comprehensions::Comprehension;
use self::literals::literal_type;
use super::functions::{FUNCTIONS, Overload, PATCH_FUNCTIONS, named_type};
use super::macros;
use super::notes::{Called, Notes, Reference, key};
use super::reserved_words::is_reserved;
use super::tree::{Expression, Node};
use super::types::{Bound, Type, joined};
use super::{Environment, Fault, Faults, VARIABLES};
use crate::structural::Budget;
use crate::text::quoting::beginning;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The most errors that are recorded.
const MAX_FAULTS: usize = 200;

/// The parts of a type that are visited in one step.
const TYPES_IN_STEP: usize = 16;

pub(super) struct Checker<'e> {
    environment: &'e Environment,
    budget: &'e Budget,
    /// The types of the names that macros bind, the innermost last.
    bound: HashMap<String, Vec<Type>>,
    /// The names of the environment that are used.
    pub used: Vec<String>,
    faults: Vec<Fault>,
    /// Errors that are reported only without type errors.
    later: Vec<Fault>,
    /// The number of enclosing calls of `format`.
    formats: usize,
    /// The types of the parts inside such calls.
    format_types: HashMap<usize, Type>,
    /// The findings, if the expression is to be evaluated.
    pub notes: Option<Notes>,
    /// The overloads of the last function that was applied.
    matching: Vec<&'static Overload>,
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
            notes: None,
            matching: Vec::new(),
        }
    }

    /// Takes the errors to report.
    pub(super) fn take_faults(&mut self) -> Faults {
        let faults = std::mem::take(&mut self.faults);
        let kept = if faults.is_empty() {
            std::mem::take(&mut self.later)
        } else {
            faults
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

    /// Returns the type of a part. The enclosing part visits the whole type, so its steps are taken
    /// from the budget here. If the budget is spent, nothing more is checked.
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
        if let Some(notes) = &mut self.notes {
            notes.of_type(node, &of);
        }
        of
    }

    fn type_here(&mut self, node: &Node) -> Type {
        match &node.what {
            Expression::Literal(literal) => literal_type(literal),
            Expression::Name(name) => match self.found(node, name) {
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
                let result = self.apply(node.at, name, false, &types);
                self.note_function(node, name, false);
                result
            }
            Expression::Call {
                name,
                target,
                arguments,
            } => self.call(node, name, target.as_deref(), arguments),
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

    /// Returns the type of a name, which may have dots.
    fn found(&mut self, node: &Node, name: &str) -> Option<Type> {
        let plain = name.trim_start_matches('.');
        if let Some(of) = self.bound.get(name).and_then(|all| all.last()) {
            return Some(of.clone());
        }
        if let Some(of) = self.environment.names.get(plain) {
            if !self.used.iter().any(|used| used == plain) {
                self.used.push(plain.to_owned());
            }
            let of = of.clone();
            self.note_name(node, || Reference::Variable(plain.to_owned()));
            return Some(of);
        }
        let of = named_type(plain)?;
        self.note_name(node, || Reference::Type(of.clone()));
        Some(Type::of_type(of))
    }

    fn note_name(&mut self, node: &Node, reference: impl FnOnce() -> Reference) {
        if let Some(notes) = &mut self.notes {
            notes.name(node, reference());
        }
    }

    fn note_call(&mut self, node: &Node, called: Called) {
        if let Some(notes) = &mut self.notes {
            notes.call(node, called);
        }
    }

    /// Notes the overloads of the function that was applied last.
    fn note_function(&mut self, node: &Node, name: &str, has_target: bool) {
        let plain = name.trim_start_matches('.');
        if self.notes.is_some()
            && let Some((name, _)) = FUNCTIONS.get_key_value(plain)
        {
            let overloads = std::mem::take(&mut self.matching);
            self.note_call(
                node,
                Called::Function {
                    name,
                    has_target,
                    overloads,
                },
            );
        }
    }

    /// Checks that a part has a type. Returns whether it does.
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

    /// Returns the type of a member. Errors are reported at the position `at`.
    fn select(&mut self, at: usize, node: &Node, of: &Node, name: &str, is_optional: bool) -> Type {
        if !is_optional
            && let Some(whole) = node.known_name()
            && !self.is_bound(whole.split('.').next().unwrap_or_default())
        {
            if let Some(found) = self.environment.names.get(&whole).cloned() {
                if !self.used.contains(&whole) {
                    self.used.push(whole.clone());
                }
                self.note_name(node, || Reference::Variable(whole));
                return found;
            }
            // Other names were looked up before.
            if let Some(found) = named_type(&whole).filter(|_| whole.contains('.')) {
                self.note_name(node, || Reference::Type(found.clone()));
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

    /// Returns whether a macro binds this name.
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
                let found = if of.is_named(VARIABLES) {
                    self.environment.variables.get(name)
                } else {
                    let reserved = || is_reserved(name).then(|| format!("__{name}__"));
                    let found = of.field(name);
                    // A reserved word may also be written as it is.
                    found.or_else(|| of.field(&reserved()?))
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

    fn call(&mut self, node: &Node, name: &str, target: Option<&Node>, arguments: &[Node]) -> Type {
        let at = node.at;
        if macros::is_has(name, target.is_some(), arguments.len()) {
            self.note_call(node, Called::Has);
            return self.has(at, arguments);
        }
        if let Some(target) = target {
            // Names of functions may have dots.
            if let Some(mut whole) = target.known_name() {
                whole.push('.');
                whole.push_str(name);
                if self.environment.has_bind && whole == "cel.bind" {
                    self.note_call(node, Called::Bind);
                    return self.bind(arguments);
                }
                let is_known =
                    self.environment.has_objects || !PATCH_FUNCTIONS.contains(&whole.as_str());
                if is_known && FUNCTIONS.contains_key(whole.as_str()) {
                    let types = self.types_of(arguments);
                    let result = self.apply(at, &whole, false, &types);
                    self.note_function(node, &whole, false);
                    return result;
                }
            }
            if let Some(found) = macros::find(name, true, arguments.len()) {
                let result = self.comprehension(&Comprehension {
                    at,
                    name,
                    target,
                    arguments,
                    names: found.names,
                });
                let overloads = std::mem::take(&mut self.matching);
                self.note_call(node, Called::Macro(overloads));
                return result;
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
        self.note_function(node, name, target.is_some());
        self.constants(name, arguments);
        result
    }

    /// Checks `has`, at whose position errors are reported.
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

    /// Checks `cel.bind(name, value, expression)`, which binds a name to a value.
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

    /// Returns the type of a function's result.
    fn apply(&mut self, at: usize, name: &str, is_method: bool, types: &[Type]) -> Type {
        // Functions always belong to the root scope.
        let plain = name.trim_start_matches('.');
        let is_known = self.environment.has_objects || !PATCH_FUNCTIONS.contains(&plain);
        let Some(overloads) = FUNCTIONS.get(plain).filter(|_| is_known) else {
            return self.undeclared(at, name);
        };
        // With unknown argument types the first matching overload counts.
        let is_unknown = types.iter().any(Type::is_unknown);
        let mut found: Option<Type> = None;
        self.matching.clear();
        for overload in overloads {
            let Some(result) = applied(overload, is_method, types) else {
                continue;
            };
            self.matching.push(overload);
            found = Some(match found {
                None if is_unknown => return result,
                None => result,
                // Two results with unknown parts need not be the same.
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

/// The error for a call without a matching overload.
struct NoOverload<'c> {
    name: &'c str,
    target: Option<&'c Type>,
    arguments: &'c [Type],
}

impl fmt::Display for NoOverload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.trim_start_matches('.');
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

/// Returns the result type of an overload for these arguments, if they match.
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
