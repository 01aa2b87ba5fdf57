//! The findings of the checks about the parts of an expression, for its evaluation and its cost.

use std::collections::HashMap;

use super::functions::Overload;
use super::tree::Node;
use super::types::Type;

/// The findings about the parts of one expression, which stays in its place.
#[derive(Debug, Default)]
pub(super) struct Notes {
    types: HashMap<usize, Type>,
    names: HashMap<usize, Reference>,
    calls: HashMap<usize, Called>,
}

/// The meaning of a name that no macro binds.
#[derive(Clone, Debug)]
pub(super) enum Reference {
    /// A name of the environment.
    Variable(String),
    /// A type as a value.
    Type(Type),
}

/// The meaning of a call or an index.
#[derive(Clone, Debug)]
pub(super) enum Called {
    /// The macro `has`.
    Has,
    /// The macro `cel.bind`.
    Bind,
    /// A macro over the items of a value, with the overloads of the function that sorts, if it
    /// does.
    Macro(Vec<&'static Overload>),
    /// A function.
    Function {
        name: &'static str,
        /// Whether the target is an argument, and not a part of the name.
        has_target: bool,
        /// The overloads that match the types of the arguments.
        overloads: Vec<&'static Overload>,
    },
}

impl Notes {
    pub(super) fn of_type(&mut self, node: &Node, of: &Type) {
        self.types.insert(key(node), of.clone());
    }

    pub(super) fn name(&mut self, node: &Node, reference: Reference) {
        self.names.insert(key(node), reference);
    }

    pub(super) fn call(&mut self, node: &Node, called: Called) {
        self.calls.insert(key(node), called);
    }

    /// Returns the type of a part, with `dyn` for what stayed unknown.
    pub(super) fn type_at(&self, node: &Node) -> Type {
        let of = self.types.get(&key(node));
        of.map_or(Type::Dyn, Type::known)
    }

    /// Returns the meaning of a name or a member that is one.
    pub(super) fn name_at(&self, node: &Node) -> Option<&Reference> {
        self.names.get(&key(node))
    }

    /// Returns the meaning of a call.
    pub(super) fn call_at(&self, node: &Node) -> Option<&Called> {
        self.calls.get(&key(node))
    }
}

/// Returns a key that identifies a part of an expression.
pub(super) fn key(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}
