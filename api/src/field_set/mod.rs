//! Field sets: the fields that a manager owns (http.md 4.6).
//!
//! Contains field paths, sets of them, and their text form FieldsV1 in managedFields, as in
//! structured-merge-diff's `fieldpath` package. Nothing here knows schemas or managers.

mod element;
mod fields_v1;
mod filter;
mod operations;
mod path;

use std::fmt;

pub use element::PathElement;
pub(crate) use element::{equal, shown_number};
pub use fields_v1::FieldsV1Error;
pub(crate) use fields_v1::{write_name, write_set};
pub use filter::Filter;
pub use path::FieldPath;

/// A set of fields, as a tree. Below a node are the fields within it; the node itself may or may
/// not be in the set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element, without repetitions. Each node is a member or has members below it.
    nodes: Vec<Node>,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The element that leads here from the parent.
    pub(crate) element: PathElement,
    /// Whether the field itself is in the set.
    pub(crate) is_member: bool,
    /// The members below this field.
    pub(crate) below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Returns the set of these paths.
    pub fn of<'p>(paths: impl IntoIterator<Item = &'p [PathElement]>) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Adds a field, without its parents. The empty path, which means the whole object, is never in
    /// a set.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let Some(node) = self.node_mut(first) else {
            return;
        };
        match rest {
            [] => node.is_member = true,
            rest => node.below.insert(rest),
        }
    }

    /// Returns the node for an element, adding it if it is absent. The caller must make it a member
    /// or add something below it.
    fn node_mut(&mut self, element: &PathElement) -> Option<&mut Node> {
        let place = match self.place(element) {
            Ok(place) => place,
            Err(place) => {
                let node = Node {
                    element: element.clone(),
                    is_member: false,
                    below: FieldSet::default(),
                };
                self.nodes.insert(place, node);
                place
            }
        };
        self.nodes.get_mut(place)
    }

    fn place(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes
            .binary_search_by(|node| node.element.cmp(element))
    }

    /// Adds a node, at the end or at its sorted position. Ignores an empty one.
    pub(crate) fn push(&mut self, node: Node) {
        if node.is_empty() {
            return;
        }
        if self
            .nodes
            .last()
            .is_none_or(|last| last.element < node.element)
        {
            self.nodes.push(node);
            return;
        }
        match self.place(&node.element) {
            Ok(place) => {
                if let Some(there) = self.nodes.get_mut(place) {
                    there.is_member |= node.is_member;
                    there.below.add(&node.below);
                }
            }
            Err(place) => self.nodes.insert(place, node),
        }
    }

    /// Builds a set from nodes in any order. Merges nodes with the same element.
    pub(crate) fn of_nodes(mut nodes: Vec<Node>) -> FieldSet {
        nodes.retain(|node| !node.is_empty());
        nodes.sort_by(|one, other| one.element.cmp(&other.element));
        let mut pairs = nodes.iter().zip(nodes.iter().skip(1));
        let is_set = pairs.all(|(one, next)| one.element != next.element);
        let set = FieldSet { nodes };
        match is_set {
            true => set,
            false => FieldSet::union_of(&[&set]),
        }
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns whether a field is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has_element(last),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.has(rest)),
        }
    }

    /// Returns whether the child itself is in the set.
    pub fn has_element(&self, element: &PathElement) -> bool {
        self.node(element).is_some_and(|node| node.is_member)
    }

    /// Returns the set below a child. `None` if it is empty.
    pub fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        let below = &self.node(element)?.below;
        (!below.is_empty()).then_some(below)
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.nodes.get(self.place(element).ok()?)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of fields in the set.
    pub fn len(&self) -> usize {
        let counts = self.nodes.iter();
        counts
            .map(|node| usize::from(node.is_member) + node.below.len())
            .sum()
    }

    /// Returns all paths in the order of Kubernetes: first the children that are in the set, then
    /// the members below each of them.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.add_paths(&mut FieldPath::default(), &mut paths);
        paths
    }

    fn add_paths(&self, above: &mut FieldPath, paths: &mut Vec<FieldPath>) {
        for node in self.nodes.iter().filter(|node| node.is_member) {
            above.push(node.element.clone());
            paths.push(above.clone());
            above.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            above.push(node.element.clone());
            node.below.add_paths(above, paths);
            above.pop();
        }
    }
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.paths().into_iter().map(|path| path.to_string());
        f.debug_set().entries(paths).finish()
    }
}

#[cfg(test)]
mod tests;
