//! Set operations. Unions walk both trees in parallel. The others take time proportional to this
//! set's tree, and look elements up in the other one, which may be larger.

use std::cmp::Ordering;

use super::{FieldSet, Node};

impl FieldSet {
    /// Returns the union with another set.
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        if self.is_empty() {
            return other.clone();
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        walk(self, other, |one, other| match (one, other) {
            (Some(one), Some(other)) => nodes.push(Node {
                element: one.element.clone(),
                is_member: one.is_member || other.is_member,
                below: one.below.union(&other.below),
            }),
            (Some(only), None) | (None, Some(only)) => nodes.push(only.clone()),
            (None, None) => {}
        });
        FieldSet { nodes }
    }

    /// Returns the union of sets.
    pub fn union_of(sets: &[&FieldSet]) -> FieldSet {
        let mut nodes: Vec<&Node> = sets.iter().flat_map(|set| &set.nodes).collect();
        nodes.sort_by(|one, other| one.element.cmp(&other.element));
        let same = nodes.chunk_by(|one, other| one.element == other.element);
        let nodes = same.filter_map(|same| {
            if let [only] = same {
                return Some((*only).clone());
            }
            let below: Vec<&FieldSet> = same.iter().map(|node| &node.below).collect();
            Some(Node {
                element: same.first()?.element.clone(),
                is_member: same.iter().any(|node| node.is_member),
                below: FieldSet::union_of(&below),
            })
        });
        FieldSet {
            nodes: nodes.collect(),
        }
    }

    /// Adds the fields of the other set.
    pub fn add(&mut self, other: &FieldSet) {
        if self.is_empty() {
            self.nodes.clone_from(&other.nodes);
            return;
        }
        // An insertion moves all later nodes, so many nodes are merged instead.
        if other.nodes.len() > 8 {
            *self = self.union(other);
            return;
        }
        for added in &other.nodes {
            if let Some(node) = self.node_mut(&added.element) {
                node.is_member |= added.is_member;
                node.below.add(&added.below);
            }
        }
    }

    /// Returns the fields in both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::new();
        look_up(self, other, |one, other| {
            if let Some(other) = other {
                push(&mut nodes, one, one.is_member && other.is_member, |below| {
                    below.intersection(&other.below)
                });
            }
        });
        FieldSet { nodes }
    }

    /// Returns the fields that are not in the other set. Fields below those of the other set stay.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        look_up(self, other, |one, other| match other {
            Some(other) => {
                push(
                    &mut nodes,
                    one,
                    one.is_member && !other.is_member,
                    |below| below.difference(&other.below),
                );
            }
            None => nodes.push(one.clone()),
        });
        FieldSet { nodes }
    }

    /// Returns the fields that are neither in the other set nor below a field of it.
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        look_up(self, other, |one, other| match other {
            Some(other) if !other.is_member => {
                push(&mut nodes, one, one.is_member, |below| {
                    below.recursive_difference(&other.below)
                });
            }
            Some(_) => {}
            None => nodes.push(one.clone()),
        });
        FieldSet { nodes }
    }

    /// Returns whether all fields are in the other set, too.
    pub fn is_subset(&self, other: &FieldSet) -> bool {
        self.nodes
            .iter()
            .all(|node| match other.node(&node.element) {
                Some(found) => {
                    (!node.is_member || found.is_member) && node.below.is_subset(&found.below)
                }
                None => false,
            })
    }

    /// Returns the fields without others of the set below them.
    pub fn leaves(&self) -> FieldSet {
        let nodes = self.nodes.iter().map(|node| Node {
            element: node.element.clone(),
            is_member: node.is_member && node.below.is_empty(),
            below: node.below.leaves(),
        });
        FieldSet {
            nodes: nodes.collect(),
        }
    }
}

fn push(
    nodes: &mut Vec<Node>,
    node: &Node,
    is_member: bool,
    below: impl FnOnce(&FieldSet) -> FieldSet,
) {
    let below = match node.below.is_empty() {
        true => FieldSet::default(),
        false => below(&node.below),
    };
    if is_member || !below.is_empty() {
        nodes.push(Node {
            element: node.element.clone(),
            is_member,
            below,
        });
    }
}

/// Visits the nodes of one set, each with the node of the other set for the same element. Searches
/// the other set, because it may be much larger: few fields change, while a manager may own
/// thousands.
fn look_up<'s>(
    one: &'s FieldSet,
    other: &'s FieldSet,
    mut visit: impl FnMut(&'s Node, Option<&'s Node>),
) {
    let mut rest = other.nodes.as_slice();
    for node in &one.nodes {
        let is_before = |other: &Node| other.element < node.element;
        let mut end = 0;
        while rest.get(end).is_some_and(is_before) {
            end = 2 * end + 1;
        }
        let begin = rest.get(..end.min(rest.len())).unwrap_or_default();
        let place = begin.partition_point(is_before);
        rest = rest.get(place..).unwrap_or_default();
        let found = rest.first().filter(|other| other.element == node.element);
        visit(node, found);
    }
}

/// Visits the nodes of both sets in order, those with the same element together.
fn walk<'s>(
    one: &'s FieldSet,
    other: &'s FieldSet,
    mut visit: impl FnMut(Option<&'s Node>, Option<&'s Node>),
) {
    let mut ones = one.nodes.iter().peekable();
    let mut others = other.nodes.iter().peekable();
    loop {
        let order = match (ones.peek(), others.peek()) {
            (Some(one), Some(other)) => one.element.cmp(&other.element),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        match order {
            Ordering::Less => visit(ones.next(), None),
            Ordering::Greater => visit(None, others.next()),
            Ordering::Equal => visit(ones.next(), others.next()),
        }
    }
}
