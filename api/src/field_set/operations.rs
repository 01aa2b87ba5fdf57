//! What is done with sets. Unions walk both trees at once. All else takes as long as the tree of
//! the own set, and a little more where the other one is larger.

use std::cmp::Ordering;

use super::{FieldSet, Node};

impl FieldSet {
    /// What is in either set.
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

    /// What is in any of these sets.
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

    /// Adds what is in the other set.
    pub fn add(&mut self, other: &FieldSet) {
        if self.is_empty() {
            self.nodes.clone_from(&other.nodes);
            return;
        }
        // Each new node moves those behind it, so many of them are merged instead.
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

    /// What is in both sets.
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

    /// What is in this set and not in the other one. What is below a field of the other set stays.
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

    /// What is in this set, and neither in the other one nor below a field of it.
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

    /// Whether the other set has all that is in this one.
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

    /// The fields below which no other is in the set.
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

/// Visits the nodes of one set, each with that of the other set that has its element. The other set
/// may be much larger, as what a write changes beside what one of thousands of managers owns, so it
/// is searched.
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

/// Visits the nodes of both sets in order, those of one element together.
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
