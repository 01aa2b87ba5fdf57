//! A multiset of nodes, in little memory. Pure.
//!
//! Most objects are used by the pods of one node, some by those of several, and few by those of
//! thousands.

use std::collections::HashMap;

/// The number of nodes up to which a sorted list is used.
const FEW: usize = 16;

/// The nodes that use an object, each with the number of uses.
#[derive(Clone, Debug, Default)]
pub(super) enum NodeCounts {
    #[default]
    None,
    One(u32, u32),
    /// Sorted by node.
    Few(Box<List>),
    Many(Box<Table>),
}

/// Nodes with their numbers of uses, sorted.
#[derive(Clone, Debug)]
pub(super) struct List(Vec<(u32, u32)>);

/// Nodes with their numbers of uses.
#[derive(Clone, Debug)]
pub(super) struct Table(HashMap<u32, u32>);

impl NodeCounts {
    /// Adds a use by a node. Returns whether it is the first one of that node.
    pub(super) fn add(&mut self, node: u32) -> bool {
        match self {
            NodeCounts::None => {
                *self = NodeCounts::One(node, 1);
                true
            }
            NodeCounts::One(known, count) if *known == node => {
                *count += 1;
                false
            }
            NodeCounts::One(known, count) => {
                let mut both = vec![(*known, *count), (node, 1)];
                both.sort_unstable();
                *self = NodeCounts::Few(Box::new(List(both)));
                true
            }
            NodeCounts::Few(list) => {
                match list.0.binary_search_by_key(&node, |(known, _)| *known) {
                    Ok(at) => {
                        if let Some((_, count)) = list.0.get_mut(at) {
                            *count += 1;
                        }
                        false
                    }
                    Err(at) if list.0.len() < FEW => {
                        list.0.reserve_exact(1);
                        list.0.insert(at, (node, 1));
                        true
                    }
                    Err(_) => {
                        let mut all: HashMap<u32, u32> = list.0.iter().copied().collect();
                        all.insert(node, 1);
                        *self = NodeCounts::Many(Box::new(Table(all)));
                        true
                    }
                }
            }
            NodeCounts::Many(all) => {
                let count = all.0.entry(node).or_default();
                *count += 1;
                *count == 1
            }
        }
    }

    /// Removes a use by a node. Returns whether it was the last one of that node.
    pub(super) fn remove(&mut self, node: u32) -> bool {
        match self {
            NodeCounts::None => false,
            NodeCounts::One(known, count) => {
                if *known != node {
                    return false;
                }
                *count -= 1;
                let is_last = *count == 0;
                if is_last {
                    *self = NodeCounts::None;
                }
                is_last
            }
            NodeCounts::Few(list) => {
                let Ok(at) = list.0.binary_search_by_key(&node, |(known, _)| *known) else {
                    return false;
                };
                let Some((_, count)) = list.0.get_mut(at) else {
                    return false;
                };
                *count -= 1;
                if *count > 0 {
                    return false;
                }
                list.0.remove(at);
                if let [(node, count)] = *list.0 {
                    *self = NodeCounts::One(node, count);
                }
                true
            }
            NodeCounts::Many(all) => {
                let Some(count) = all.0.get_mut(&node) else {
                    return false;
                };
                *count -= 1;
                if *count > 0 {
                    return false;
                }
                all.0.remove(&node);
                // Half as many, so that it does not change its form with each use.
                if all.0.len() <= FEW / 2 {
                    let mut list: Vec<_> =
                        all.0.iter().map(|(node, count)| (*node, *count)).collect();
                    list.sort_unstable();
                    *self = NodeCounts::Few(Box::new(List(list)));
                }
                true
            }
        }
    }

    /// Whether a node uses the object.
    pub(super) fn has(&self, node: u32) -> bool {
        match self {
            NodeCounts::None => false,
            NodeCounts::One(known, _) => *known == node,
            NodeCounts::Few(list) => list
                .0
                .binary_search_by_key(&node, |(known, _)| *known)
                .is_ok(),
            NodeCounts::Many(all) => all.0.contains_key(&node),
        }
    }

    /// Returns the nodes, each once.
    pub(super) fn nodes(&self) -> Vec<u32> {
        match self {
            NodeCounts::None => Vec::new(),
            NodeCounts::One(node, _) => vec![*node],
            NodeCounts::Few(list) => list.0.iter().map(|(node, _)| *node).collect(),
            NodeCounts::Many(all) => all.0.keys().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever its form, it counts like a map.
        #[test]
        fn uses_are_counted(changes in prop::collection::vec((any::<bool>(), 0_u32..40), 0..400)) {
            let mut counts = NodeCounts::default();
            let mut naive: BTreeMap<u32, u32> = BTreeMap::new();
            for (adds, node) in changes {
                if adds {
                    let is_first = !naive.contains_key(&node);
                    *naive.entry(node).or_default() += 1;
                    prop_assert_eq!(counts.add(node), is_first);
                } else {
                    let is_last = naive.get(&node) == Some(&1);
                    if let Some(count) = naive.get_mut(&node) {
                        *count -= 1;
                    }
                    naive.retain(|_, count| *count > 0);
                    prop_assert_eq!(counts.remove(node), is_last);
                }
                let mut nodes = counts.nodes();
                nodes.sort_unstable();
                let expected: Vec<u32> = naive.keys().copied().collect();
                prop_assert_eq!(nodes, expected);
                prop_assert_eq!(counts.has(node), naive.contains_key(&node));
            }
        }
    }

    #[test]
    fn it_takes_two_words() {
        assert!(size_of::<NodeCounts>() <= 16);
    }
}
