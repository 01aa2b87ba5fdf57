//! Field sets that were written when the types of their parts were different.

use super::ValueType;
use super::forms::Items;
use super::kind::Kind;
use crate::field_set::{FieldSet, Node, PathElement};

/// Turns parts that were owned field by field, and are atomic now, into one field. Like Kubernetes,
/// does nothing for parts that became granular.
pub(super) fn reconciled(of: ValueType<'_>, set: &FieldSet) -> Option<FieldSet> {
    has_changes(of, set).then(|| changed(of, set))
}

fn has_changes(of: ValueType<'_>, set: &FieldSet) -> bool {
    let mut parts = set.nodes().iter().filter(|node| !node.below.is_empty());
    parts.any(|node| match child(of, &node.element) {
        Some(child) => is_atomic(child.kind) || has_changes(child, &node.below),
        None => false,
    })
}

fn changed(of: ValueType<'_>, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet::default();
    for node in set.nodes() {
        let child = child(of, &node.element).filter(|_| !node.below.is_empty());
        out.push(match child {
            Some(child) if is_atomic(child.kind) => Node {
                element: node.element.clone(),
                is_member: true,
                below: FieldSet::default(),
            },
            Some(child) => Node {
                element: node.element.clone(),
                is_member: node.is_member,
                below: changed(child, &node.below),
            },
            None => node.clone(),
        });
    }
    out
}

/// Returns the type of a child. `None` for undeclared fields and for values without declared parts.
fn child<'s>(of: ValueType<'s>, element: &PathElement) -> Option<ValueType<'s>> {
    match (of.kind, element) {
        (Kind::Struct { .. } | Kind::Map { .. }, PathElement::Field(name)) => of.member(name),
        (Kind::List { of: item, .. }, _) => Some(of.at(Kind::of_type(of.schema, item))),
        (Kind::Other(_), PathElement::Field(name)) => of.member(name),
        (Kind::Other(list), _) => Some(of.at(list.items(of.schema))),
        _ => None,
    }
}

fn is_atomic(kind: Kind<'_>) -> bool {
    match kind {
        Kind::Struct { is_atomic, .. }
        | Kind::Map { is_atomic, .. }
        | Kind::Object { is_atomic } => is_atomic,
        Kind::List { items, .. } => matches!(items, Items::Atomic),
        Kind::Scalar(_) | Kind::Deduced => false,
        Kind::Raw => true,
        Kind::Other(other) => other.is_atomic(),
    }
}
