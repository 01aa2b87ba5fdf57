//! The estimate of an expression, from its parts to the whole.

use std::collections::HashMap;

use super::super::notes::{Called, Notes, Reference};
use super::super::shape::Shape;
use super::super::tree::{Expression, Item, Literal, Node};
use super::super::types::Type;
use super::Range;
use super::paths::Path;
use crate::structural::Budget;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The costs of new lists, maps and messages.
pub(super) const LIST: Range = Range::of(10);
pub(super) const MAP: Range = Range::of(30);
const MESSAGE: Range = Range::of(40);

/// The steps of a path that are followed in one step of the budget.
const PATH_IN_STEP: usize = 4;

/// Returns the estimate of an expression over values of a shape, or `None` if the budget is spent.
pub(super) fn estimate(tree: &Node, notes: &Notes, root: &Shape, budget: &Budget) -> Option<Range> {
    let mut walk = Walk {
        notes,
        root,
        budget,
        locals: HashMap::new(),
    };
    let cost = walk.part(tree).cost;
    (!budget.is_spent()).then_some(cost)
}

/// The estimates of a part.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub cost: Range,
    pub path: Path,
    /// The size of the value, if it is known.
    pub size: Option<Range>,
    /// The sizes of its keys and values, if they are known.
    pub entry: Option<Entry>,
    pub of: Type,
    /// The integer that it is in the text.
    pub literal: Option<i64>,
}

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub is_list: bool,
    pub key: Range,
    pub value: Range,
}

/// A name that a macro binds.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub path: Path,
    pub size: Option<Range>,
    pub entry: Option<Entry>,
}

pub(super) struct Walk<'n> {
    pub notes: &'n Notes,
    pub root: &'n Shape,
    budget: &'n Budget,
    locals: HashMap<String, Vec<Local>>,
}

impl Part {
    pub(super) fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

impl Entry {
    /// Returns the sizes of what may be either of two values.
    pub(super) fn or(one: Option<Entry>, other: Option<Entry>) -> Option<Entry> {
        let (one, other) = (one?, other?);
        Some(Entry {
            is_list: one.is_list,
            key: one.key.or(other.key),
            value: one.value.or(other.value),
        })
    }
}

impl Walk<'_> {
    pub(super) fn bind(&mut self, name: &Node, local: Local) {
        if let Expression::Name(name) = &name.what {
            self.locals.entry(name.clone()).or_default().push(local);
        }
    }

    pub(super) fn release(&mut self, name: &Node) {
        if let Expression::Name(name) = &name.what
            && let Some(all) = self.locals.get_mut(name)
        {
            all.pop();
        }
    }

    pub(super) fn parts(&mut self, nodes: &[Node]) -> Vec<Part> {
        nodes.iter().map(|node| self.part(node)).collect()
    }

    /// Returns the estimates of a part.
    pub(super) fn part(&mut self, node: &Node) -> Part {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.part_here(node))
    }

    /// Completes a part. A size that was not computed follows from its path or its type.
    pub(super) fn made(
        &self,
        node: &Node,
        cost: Range,
        path: Path,
        size: Option<Range>,
        entry: Option<Entry>,
    ) -> Part {
        let of = self.notes.type_at(node);
        let is_paid = self.budget.take(1 + path.len() / PATH_IN_STEP);
        let size = size
            .or_else(|| path.size(self.root).filter(|_| is_paid))
            .or_else(|| is_scalar(&of).then_some(Range::of(1)));
        let literal = match &node.what {
            Expression::Literal(Literal::Int(number)) => Some(*number),
            _ => None,
        };
        Part {
            cost,
            path,
            size,
            entry,
            of,
            literal,
        }
    }

    fn part_here(&mut self, node: &Node) -> Part {
        match &node.what {
            Expression::Literal(literal) => {
                let size = Range::of(literal_size(literal));
                self.made(node, Range::of(0), Path::default(), Some(size), None)
            }
            Expression::Name(name) => self.name(node, name),
            Expression::Select {
                of,
                name,
                is_optional,
            } => self.select(node, of, name, *is_optional),
            Expression::Index { of, key, .. } => {
                let arguments = vec![self.part(of), self.part(key)];
                self.indexed(node, &arguments)
            }
            Expression::Call {
                name,
                target,
                arguments,
            } => self.called(node, name, target.as_deref(), arguments),
            Expression::List(items) => self.list(node, items),
            Expression::Map(entries) => self.map(node, entries),
            Expression::Message { fields, .. } => {
                let mut cost = MESSAGE;
                for field in fields {
                    cost = cost.plus(self.part(&field.value).cost);
                }
                self.made(node, cost, Path::default(), None, None)
            }
            Expression::And(terms) | Expression::Or(terms) => {
                let terms = self.parts(terms);
                let first = terms.first().map_or(0, |term| term.cost.min);
                let all = terms
                    .iter()
                    .fold(Range::of(0), |sum, term| sum.plus(term.cost));
                // The first term may decide.
                let cost = Range {
                    min: first,
                    max: all.max,
                };
                self.made(node, cost, Path::default(), None, None)
            }
            Expression::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let parts = [self.part(condition), self.part(yes), self.part(no)];
                let [condition, yes, no] = &parts;
                let cost = condition.cost.plus(yes.cost.or(no.cost));
                let size = yes.size_or_unknown().or(no.size_or_unknown());
                let entry = Entry::or(yes.entry, no.entry);
                self.made(node, cost, Path::default(), Some(size), entry)
            }
        }
    }

    fn name(&mut self, node: &Node, name: &str) -> Part {
        let local = self.locals.get(name).and_then(|all| all.last()).cloned();
        let Some(local) = local else {
            let path = Path::of(name.trim_start_matches('.'));
            return self.made(node, Range::of(1), path, None, None);
        };
        let mut part = self.made(node, Range::of(1), local.path, None, local.entry);
        part.size = part.size.or(local.size);
        part
    }

    fn select(&mut self, node: &Node, of: &Node, name: &str, is_optional: bool) -> Part {
        if let Some(reference) = self.notes.name_at(node) {
            // A name with dots is one name.
            let path = match reference {
                Reference::Variable(name) => Path::of(name),
                Reference::Type(of) => Path::of(&of.to_string()),
            };
            return self.made(node, Range::of(1), path, None, None);
        }
        let of = self.part(of);
        if is_optional {
            let cost = of.cost.plus(Range::of(1));
            return self.made(node, cost, Path::default(), None, None);
        }
        let has_cost = matches!(of.of, Type::Map(_) | Type::Object(_) | Type::Opaque(_));
        let cost = of.cost.plus(Range::of(u64::from(has_cost)));
        let path = of.path.with(name);
        self.made(node, cost, path, None, None)
    }

    /// Returns the estimates of `has`, which looks at the value but not at its member.
    fn has(&mut self, node: &Node, argument: &Node) -> Part {
        let cost = match &argument.what {
            Expression::Select { of, .. } => self.part(of).cost,
            _ => self.part(argument).cost,
        };
        self.made(node, cost, Path::default(), None, None)
    }

    fn called(
        &mut self,
        node: &Node,
        name: &str,
        target: Option<&Node>,
        arguments: &[Node],
    ) -> Part {
        match (self.notes.call_at(node), target, arguments) {
            (Some(Called::Has), _, [argument]) => self.has(node, argument),
            (Some(Called::Bind), _, [name, value, result]) => {
                let value = self.part(value);
                let (cost, result) = self.bound(name, value, result);
                self.made(node, cost, Path::default(), result.size, result.entry)
            }
            (Some(Called::Macro(sorting)), Some(target), arguments) => {
                self.macros(node, name, target, arguments, sorting)
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
                let arguments = self.parts(arguments);
                let target = target
                    .filter(|_| *has_target)
                    .map(|target| self.part(target));
                self.function(node, name, overloads, target.as_ref(), &arguments)
            }
            _ => self.made(node, Range::of(0), Path::default(), None, None),
        }
    }

    fn list(&mut self, node: &Node, items: &[Item]) -> Part {
        let mut cost = LIST;
        let mut value = Range {
            min: if items.is_empty() { 0 } else { u64::MAX },
            max: 0,
        };
        for item in items {
            let part = self.part(&item.node);
            cost = cost.plus(part.cost);
            value = value.or(part.size_or_unknown());
        }
        let entry = Entry {
            is_list: true,
            key: Range::of(1),
            value,
        };
        let size = Range::of(items.len() as u64);
        self.made(node, cost, Path::default(), Some(size), Some(entry))
    }

    fn map(&mut self, node: &Node, entries: &[(Item, Node)]) -> Part {
        let mut cost = MAP;
        let empty = Range {
            min: if entries.is_empty() { 0 } else { u64::MAX },
            max: 0,
        };
        let (mut keys, mut values) = (empty, empty);
        for (key, value) in entries {
            let key = self.part(&key.node);
            let value = self.part(value);
            cost = cost.plus(key.cost).plus(value.cost);
            keys = keys.or(key.size_or_unknown());
            values = values.or(value.size_or_unknown());
        }
        let entry = Entry {
            is_list: false,
            key: keys,
            value: values,
        };
        let size = Range::of(entries.len() as u64);
        self.made(node, cost, Path::default(), Some(size), Some(entry))
    }
}

fn literal_size(literal: &Literal) -> u64 {
    match literal {
        Literal::String(text) => text.chars().count() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

/// Returns whether values of a type have a constant size.
pub(super) fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}
