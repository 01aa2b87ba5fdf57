//! The steps of a program.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::super::library::dispatch::Implementation;
use super::super::library::operators::Scalar;
use super::super::values::patterns::Compiled;
use super::super::values::value::Value;
use super::call_cost::Price;

/// An expression that can be evaluated.
#[derive(Debug)]
pub struct Program {
    pub(super) root: Step,
    /// The names of the environment that it uses.
    pub(super) names: Vec<String>,
    /// The most names that macros bind at a time.
    pub(super) slots: usize,
    /// The number of nested steps.
    pub(super) depth: usize,
    /// Whether everything is evaluated, for a comparison in tests.
    pub(super) is_exhaustive: bool,
}

/// The prefix of the names of a policy's variables, which are evaluated at their first use.
pub(super) const VARIABLE: &str = "variables.";

/// The fields of a message: their names, whether they are optional, and their values.
type MessageSteps = Box<[(Arc<str>, bool, Step)]>;

#[derive(Debug)]
pub(super) enum Step {
    Constant(Value<'static>),
    /// A value with its members and indexes.
    Path(Box<Path>),
    And(Box<[Step]>),
    Or(Box<[Step]>),
    /// `==`, or `!=` if negated.
    Equal {
        sides: Box<[Step; 2]>,
        is_negated: bool,
    },
    Call(Box<Call>),
    /// The search of a value in a constant list.
    IsOneOf(Box<(Step, HashSet<Scalar>)>),
    /// The method `or` of optional values, or `orValue`.
    OrElse {
        sides: Box<[Step; 2]>,
        is_value: bool,
    },
    /// A list, whose items may be optional.
    List(Box<[(bool, Step)]>),
    /// A map, whose entries may be optional.
    Map(Box<[(bool, Step, Step)]>),
    /// A message with its name, and fields that may be optional.
    Message(Box<(Arc<str>, MessageSteps)>),
    Fold(Box<Fold>),
    /// A name that is bound to a value at its first use.
    Bind(Box<Bind>),
    /// Steps that occur twice.
    Shared(Arc<Step>),
}

/// A value with its members and indexes.
#[derive(Debug)]
pub(super) struct Path {
    pub root: Root,
    pub parts: Vec<Part>,
    /// Whether it asks if the last part is present.
    pub is_test: bool,
}

#[derive(Debug)]
pub(super) enum Root {
    /// A name of the environment, by its position.
    Variable(usize),
    /// A name that a macro binds, by its position.
    Local(usize),
    Step(Box<Step>),
    /// One of two values by a condition.
    Either(Box<(Step, Path, Path)>),
}

/// A member or an index.
#[derive(Debug)]
pub(super) struct Part {
    pub key: Key,
    pub is_optional: bool,
}

#[derive(Debug)]
pub(super) enum Key {
    /// The value itself: the name of a policy's variable is a part of its root.
    Itself,
    Name(Arc<str>),
    Constant(Value<'static>),
    Path(Path),
    Step(Step),
}

/// A call of a function.
#[derive(Debug)]
pub(super) struct Call {
    pub name: &'static str,
    pub arguments: Box<[Step]>,
    pub implementation: Function,
    pub price: Price,
    /// Whether the arguments after one with an error are not evaluated.
    pub stops_early: bool,
}

#[derive(Debug)]
pub(super) enum Function {
    Plain(Implementation),
    /// The sum of a list, which begins with this zero, or with that of its first item.
    Sum(Option<Value<'static>>),
    /// A search for a pattern, which may be a constant.
    Pattern(Option<ConstantPattern>),
}

/// A constant pattern, which is compiled at its first use.
#[derive(Debug)]
pub(super) struct ConstantPattern {
    pub text: String,
    pub compiled: OnceLock<Result<Compiled, String>>,
}

/// A macro over the items of a value.
#[derive(Debug)]
pub(super) struct Fold {
    pub kind: FoldKind,
    pub range: Step,
    /// The position of the first name.
    pub first: usize,
    /// The position of the second name, if there is one.
    pub second: Option<usize>,
    pub filter: Option<Step>,
    pub body: Step,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// A list of the values. The list of one constant costs nothing.
    List {
        is_constant: bool,
    },
    /// A map of the values under the keys of the range.
    Map,
    /// A map of the entries of small maps.
    Entries,
}

/// A name that is bound to a value at its first use.
#[derive(Debug)]
pub(super) struct Bind {
    pub slot: usize,
    pub value: Step,
    pub result: Step,
}

impl Path {
    pub(super) fn of(root: Root) -> Path {
        Path {
            root,
            parts: Vec::new(),
            is_test: false,
        }
    }
}

impl Step {
    /// Returns the step as the beginning of a path.
    pub(super) fn into_path(self) -> Path {
        match self {
            Step::Path(path) => *path,
            other => Path::of(Root::Step(Box::new(other))),
        }
    }

    pub(super) fn path(path: Path) -> Step {
        Step::Path(Box::new(path))
    }

    pub(super) fn constant(&self) -> Option<&Value<'static>> {
        match self {
            Step::Constant(value) => Some(value),
            _ => None,
        }
    }
}
