//! From a checked expression to the steps of its evaluation.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::super::functions::Overload;
use super::super::library::dispatch;
use super::super::library::operators::{Scalar, scalar};
use super::super::notes::{Called, Notes, Reference};
use super::super::tree::{Expression, Item, Literal, MessageField, Node};
use super::super::types::{Type, VARIABLES};
use super::super::values::patterns::Compiled;
use super::super::values::value::{BuiltMap, List, Map, Text, Value};
use super::super::values::work_limit::Work;
use super::call_cost::{Price, price};
use super::steps::{
    Call, ConstantPattern, Function, Key, Part, Path, Program, Root, Step, VARIABLE,
};
use crate::structural::pattern::Pattern;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// A plan, or the reason why an expression can't have one, in words.
pub(super) type Planned<T = Step> = Result<T, String>;

/// Returns the program of a checked expression.
///
/// # Errors
/// A constant part has an error, such as `int('a')`.
pub(in super::super) fn plan(tree: &Node, notes: &Notes) -> Planned<Program> {
    planned(tree, notes, false)
}

/// As [`plan`], without short cuts: nothing is computed beforehand or left out.
pub(in super::super) fn plan_in_full(tree: &Node, notes: &Notes) -> Planned<Program> {
    planned(tree, notes, true)
}

fn planned(tree: &Node, notes: &Notes, is_in_full: bool) -> Planned<Program> {
    let mut planner = Planner {
        notes,
        is_in_full,
        names: Vec::new(),
        scopes: Vec::new(),
        slots: 0,
        work: Work::default(),
    };
    let root = planner.step(tree)?;
    Ok(Program {
        root,
        names: planner.names,
        slots: planner.slots,
        // A macro takes a few more levels than its node.
        depth: 3 * tree.depth,
        is_exhaustive: is_in_full,
    })
}

pub(super) struct Planner<'n> {
    pub notes: &'n Notes,
    names: Vec<String>,
    /// The names that macros bind, the innermost last, with their positions.
    pub scopes: Vec<(String, usize)>,
    /// The number of names that macros bind.
    slots: usize,
    work: Work,
    /// Whether nothing is computed beforehand.
    is_in_full: bool,
}

impl Planner<'_> {
    /// Binds a name of a macro. Each has its own position.
    pub(super) fn bind(&mut self, name: &Node) -> usize {
        let slot = self.slots;
        self.slots += 1;
        if let Expression::Name(name) = &name.what {
            self.scopes.push((name.clone(), slot));
        }
        slot
    }

    /// Returns the steps of a part.
    pub(super) fn step(&mut self, node: &Node) -> Planned {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.step_here(node))
    }

    fn step_here(&mut self, node: &Node) -> Planned {
        Ok(match &node.what {
            Expression::Literal(literal) => Step::Constant(constant(literal)),
            Expression::Name(name) => self.name(node, name),
            Expression::Select {
                of,
                name,
                is_optional,
            } => match self.notes.name_at(node) {
                Some(reference) => self.reference(reference),
                None => self.member(of, name, *is_optional)?,
            },
            Expression::Index {
                of,
                key,
                is_optional,
            } => {
                let of = self.step(of)?;
                let key = match self.step(key)? {
                    Step::Constant(Value::String(name)) => Key::Name(Arc::from(&*name)),
                    Step::Constant(value) => Key::Constant(value),
                    Step::Path(path) => Key::Path(*path),
                    other => Key::Step(other),
                };
                extended(of, key, *is_optional)
            }
            Expression::Call {
                name,
                target,
                arguments,
            } => self.called(node, name, target.as_deref(), arguments)?,
            Expression::List(items) => self.list(items)?,
            Expression::Map(entries) => self.map(entries)?,
            Expression::Message { name, fields } => self.message(name, fields)?,
            Expression::And(terms) => Step::And(self.steps(terms)?),
            Expression::Or(terms) => Step::Or(self.steps(terms)?),
            Expression::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let (condition, yes) = (self.step(condition)?, self.step(yes)?);
                either(condition, yes, self.step(no)?)
            }
        })
    }

    pub(super) fn steps(&mut self, nodes: &[Node]) -> Planned<Box<[Step]>> {
        nodes.iter().map(|node| self.step(node)).collect()
    }

    fn name(&mut self, node: &Node, name: &str) -> Step {
        let bound = self.scopes.iter().rev().find(|(known, _)| known == name);
        match (bound, self.notes.name_at(node)) {
            (Some((_, slot)), _) => Step::path(Path::of(Root::Local(*slot))),
            (None, Some(reference)) => self.reference(reference),
            (None, None) => Step::Constant(Value::Null),
        }
    }

    fn reference(&mut self, reference: &Reference) -> Step {
        match reference {
            Reference::Type(of) => Step::Constant(Value::Type(Text::from(type_name(of)))),
            Reference::Variable(name) => {
                // linear: an environment has few names.
                let known = self.names.iter().position(|known| known == name);
                let at = known.unwrap_or(self.names.len());
                if known.is_none() {
                    self.names.push(name.clone());
                }
                Step::path(Path::of(Root::Variable(at)))
            }
        }
    }

    /// Returns the steps of a member of a value. A variable of a policy is a name of its own.
    fn member(&mut self, of: &Node, name: &str, is_optional: bool) -> Planned {
        let is_variable = matches!(self.notes.name_at(of), Some(Reference::Variable(_)))
            && matches!(self.notes.type_at(of), Type::Object(of) if of.is_named(VARIABLES));
        if is_variable {
            let whole = Reference::Variable(format!("{VARIABLE}{name}"));
            return Ok(extended(self.reference(&whole), Key::Itself, is_optional));
        }
        let of = self.step(of)?;
        Ok(extended(of, Key::Name(Arc::from(name)), is_optional))
    }

    /// Returns the steps of a message. Those of the library are not built.
    fn message(&mut self, name: &str, fields: &[MessageField]) -> Planned {
        if !matches!(name, "Object" | "JSONPatch") && !name.starts_with("Object.") {
            return Err(format!("building of '{name}' is not supported"));
        }
        let steps = fields.iter().map(|field| {
            let step = self.step(&field.value)?;
            Ok((Arc::from(field.name.as_str()), field.is_optional, step))
        });
        let steps = steps.collect::<Planned<Vec<_>>>()?;
        Ok(Step::Message(Box::new((Arc::from(name), steps.into()))))
    }

    fn called(
        &mut self,
        node: &Node,
        name: &str,
        target: Option<&Node>,
        arguments: &[Node],
    ) -> Planned {
        match (self.notes.call_at(node), target, arguments) {
            (Some(Called::Has), _, [argument]) => self.has(argument),
            (Some(Called::Bind), _, [name, value, result]) => self.bound(name, value, result),
            (Some(Called::Macro(overloads)), Some(target), arguments) => {
                self.macros(name, target, arguments, overloads)
            }
            (
                Some(Called::Function {
                    name,
                    has_target,
                    overloads,
                }),
                target,
                arguments,
            ) => {
                let target = target.filter(|_| *has_target);
                let nodes = target.into_iter().chain(arguments);
                let steps = nodes
                    .map(|node| self.step(node))
                    .collect::<Planned<Vec<Step>>>()?;
                self.function(name, overloads, steps)
            }
            _ => Err(format!("no such overload: {name}")),
        }
    }

    /// Returns the steps of the macro `has`.
    fn has(&mut self, argument: &Node) -> Planned {
        let Expression::Select {
            of,
            name,
            is_optional,
        } = &argument.what
        else {
            return Err("invalid argument to has() macro".to_owned());
        };
        let mut path = self.member(of, name, *is_optional)?.into_path();
        path.is_test = true;
        Ok(Step::path(path))
    }

    /// Returns the steps of a call of a function.
    pub(super) fn function(
        &mut self,
        name: &'static str,
        overloads: &[&'static Overload],
        arguments: Vec<Step>,
    ) -> Planned {
        let overload = match overloads {
            [only] => Some(*only),
            _ => None,
        };
        if let ("_==_" | "_!=_" | "or" | "orValue", 2) = (name, arguments.len()) {
            let mut arguments = arguments.into_iter();
            let (Some(one), Some(other)) = (arguments.next(), arguments.next()) else {
                return Err(format!("no such overload: {name}"));
            };
            let sides = Box::new([one, other]);
            return Ok(match name {
                "or" | "orValue" => Step::OrElse {
                    sides,
                    is_value: name == "orValue",
                },
                _ => Step::Equal {
                    sides,
                    is_negated: name == "_!=_",
                },
            });
        }
        if let ("@in", Some(overload), [_, Step::Constant(Value::List(list))]) =
            (name, overload, arguments.as_slice())
            && matches!(overload.arguments.get(1), Some(Type::List(_)))
        {
            // Nothing is in an empty list, not even an error: the left side is never evaluated.
            if list.is_empty() {
                return Ok(Step::Constant(Value::Bool(false)));
            }
            if let Some(known) = known_values(list).filter(|_| !self.is_in_full) {
                let searched = arguments.into_iter().next();
                let searched = searched.unwrap_or(Step::Constant(Value::Null));
                return Ok(Step::IsOneOf(Box::new((searched, known))));
            }
        }
        let is_constant = is_conversion(name) && !self.is_in_full;
        if let (true, [Step::Constant(value)]) = (is_constant, arguments.as_slice()) {
            let implementation = dispatch::find(name);
            let value = std::slice::from_ref(value);
            let value = dispatch::call(implementation, name, value, &self.work);
            return value.map(Step::Constant).map_err(|fault| fault.to_string());
        }
        self.plain(name, overload, overloads.len(), arguments)
    }

    fn plain(
        &mut self,
        name: &'static str,
        overload: Option<&Overload>,
        matching: usize,
        arguments: Vec<Step>,
    ) -> Planned {
        let mut stops_early = arguments.len() > 2 || matches!(name, "format" | "findAll");
        let implementation = match name {
            "matches" | "find" | "findAll" => {
                let pattern = arguments.get(1).and_then(Step::constant);
                let pattern = match pattern {
                    Some(Value::String(text)) => Some(ConstantPattern::new(text)?),
                    _ => None,
                };
                stops_early |= pattern.is_some();
                Function::Pattern(pattern)
            }
            "sum" => Function::Sum(zero(overload)),
            _ => Function::Plain(dispatch::find(name)),
        };
        // A function that is chosen by its arguments takes them one after the other.
        let is_single = name.starts_with(['_', '!', '-', '@']) || matches!(name, "size" | "type");
        stops_early |= matching > 1 && !is_single;
        let is_nothing = arguments.is_empty();
        Ok(Step::Call(Box::new(Call {
            name,
            arguments: arguments.into(),
            implementation,
            price: match is_nothing {
                true => Price::Fixed(1),
                false => price(name, overload),
            },
            stops_early,
        })))
    }

    fn list(&mut self, items: &[Item]) -> Planned {
        let steps = items
            .iter()
            .map(|item| Ok((item.is_optional, self.step(&item.node)?)));
        let steps: Vec<(bool, Step)> = steps.collect::<Planned<_>>()?;
        Ok(list(steps))
    }

    fn map(&mut self, entries: &[(Item, Node)]) -> Planned {
        let steps = entries.iter().map(|(key, value)| {
            let step = self.step(&key.node)?;
            Ok((key.is_optional, step, self.step(value)?))
        });
        let steps: Vec<(bool, Step, Step)> = steps.collect::<Planned<_>>()?;
        let mut map = BuiltMap::default();
        for (_, key, value) in &steps {
            let (Some(key), Some(value)) = (key.constant(), value.constant()) else {
                return Ok(Step::Map(steps.into()));
            };
            if !map.insert(key.clone(), value.clone()) {
                return Err("unsupported key type".to_owned());
            }
        }
        Ok(Step::Constant(Value::Map(Map::Built(Arc::new(map)))))
    }
}

impl ConstantPattern {
    fn new(text: &str) -> Planned<ConstantPattern> {
        match Pattern::new(text) {
            Ok(_) => Ok(ConstantPattern {
                text: text.to_owned(),
                compiled: OnceLock::new(),
            }),
            Err(why) => Err(format!("error parsing regexp: {why}")),
        }
    }

    /// Returns the compiled pattern.
    pub(super) fn get(&self) -> Result<&Compiled, &String> {
        self.compiled
            .get_or_init(|| Compiled::new(&self.text))
            .as_ref()
    }
}

/// Returns a list, which is a constant if all of its items are.
pub(super) fn list(steps: Vec<(bool, Step)>) -> Step {
    let constants = steps.iter().map(|(_, step)| step.constant().cloned());
    match constants.collect::<Option<Vec<Value<'static>>>>() {
        Some(items) => Step::Constant(Value::list(items)),
        None => Step::List(steps.into()),
    }
}

/// Returns the steps of one of two values.
pub(super) fn either(condition: Step, yes: Step, no: Step) -> Step {
    let parts = (condition, yes.into_path(), no.into_path());
    Step::path(Path::of(Root::Either(Box::new(parts))))
}

/// Returns the steps of a member or an index.
fn extended(of: Step, key: Key, is_optional: bool) -> Step {
    let mut path = of.into_path();
    path.parts.push(Part { key, is_optional });
    Step::path(path)
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(of) => Value::Bool(*of),
        Literal::Int(of) => Value::Int(*of),
        Literal::Uint(of) => Value::Uint(*of),
        Literal::Double(of) => Value::Double(*of),
        Literal::String(of) => Value::text(of.clone()),
        Literal::Bytes(of) => Value::Bytes(Arc::from(of.as_slice())),
    }
}

/// Returns the name of a type without its parameters.
fn type_name(of: &Type) -> String {
    let name = of.to_string();
    match name.split_once('(') {
        Some((plain, _)) => plain.to_owned(),
        None => name,
    }
}

fn is_conversion(name: &str) -> bool {
    matches!(
        name,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    )
}

/// Returns the zero with which the sum of a list begins.
fn zero(overload: Option<&Overload>) -> Option<Value<'static>> {
    let Type::List(of) = overload?.arguments.first()? else {
        return None;
    };
    Some(match **of {
        Type::Uint => Value::Uint(0),
        Type::Double => Value::Double(0.0),
        Type::Duration => Value::Duration(0),
        _ => Value::Int(0),
    })
}

/// Returns the values of a constant list, if they can be found by a hash. A number is found as any
/// number type that has it.
fn known_values(list: &List<'static>) -> Option<HashSet<Scalar>> {
    let mut known = HashSet::new();
    for item in list.iter() {
        let item = item.ok()?;
        let number = match &item {
            Value::Bool(_) | Value::String(_) => None,
            Value::Int(of) => Some(i128::from(*of)),
            Value::Uint(of) => Some(i128::from(*of)),
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
            Value::Double(of) => (of.fract() == 0.0 && of.abs() < 2e19).then_some(*of as i128),
            _ => return None,
        };
        known.insert(scalar(&item));
        if let Some(number) = number {
            known.extend(i64::try_from(number).ok().map(Scalar::Int));
            known.extend(u64::try_from(number).ok().map(Scalar::Uint));
            #[expect(clippy::cast_precision_loss, reason = "as cel-go converts it")]
            known.insert(Scalar::Double((number as f64).to_bits()));
        }
    }
    Some(known)
}
