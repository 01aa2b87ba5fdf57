//! The size and depth of trees: limits while a document is decoded, and the size of a tree that was
//! not decoded from a document.

use serde::de::Error;
use serde_json::Value;

use super::Reading;
use crate::abandoned::{Abandoned, is_abandoned};

/// The limit on the text of a document plus a few bytes for every value. A body that expands
/// through aliases may exceed it, a plain one cannot.
const MAX_WEIGHT: usize = 8 * 1024 * 1024;

/// The weight of a value in addition to its text.
const WEIGHT_OF_VALUE: usize = 2;

/// The limit on the memory of a document's tree, estimated from the allocator's block sizes. Real
/// objects need up to forty times their text; `[{"":0},{"":0},...]` needs a hundred times its text.
pub const MAX_TREE_BYTES: usize = 64 * 1024 * 1024;

/// The limit on the tree of an answer of a webhook, which may have more bytes than a body.
pub const MAX_ANSWER_TREE_BYTES: usize = 96 * 1024 * 1024;

/// As [`MAX_WEIGHT`], for such answers.
const MAX_ANSWER_WEIGHT: usize = 24 * 1024 * 1024;

/// Returns the limit on the weight of a document whose tree has this limit.
pub(super) fn most_weight(most_tree_bytes: usize) -> usize {
    match most_tree_bytes {
        MAX_ANSWER_TREE_BYTES => MAX_ANSWER_WEIGHT,
        _ => MAX_WEIGHT,
    }
}

/// The limit on the tree of a short document. It grows with each byte of the document up to
/// [`MAX_TREE_BYTES`]. A request with copies of its tree then stays within 64 MiB plus 16 MB for
/// each MB of its body.
const TREE_BYTES_OF_SHORT: usize = 40 * 1024 * 1024;
const TREE_BYTES_PER_BYTE: usize = 16;

/// The number of values and names between two checks whether the client still waits.
const STEPS: usize = 1024;

/// The memory of a text in addition to its bytes.
const BYTES_OF_TEXT: usize = 16;

/// The memory of a map node with its first members. A node has room for eleven, and nodes of large
/// maps are about half full.
const BYTES_OF_NODE: usize = 640;
const BYTES_OF_MEMBER: usize = BYTES_OF_NODE / 6;

impl Reading {
    /// Counts a value with the length of its text, if it has one.
    pub(super) fn weigh<E: Error>(&mut self, text: Option<usize>) -> Result<(), E> {
        crate::cost::visited();
        self.weight += text.unwrap_or(0) + WEIGHT_OF_VALUE;
        let text_bytes = text.map_or(0, |bytes| bytes + BYTES_OF_TEXT);
        self.take(size_of::<Value>() + text_bytes)
    }

    /// Counts the name of a member and its entry in the map.
    pub(super) fn weigh_member<E: Error>(&mut self, name: usize, is_first: bool) -> Result<(), E> {
        self.weight += name + WEIGHT_OF_VALUE;
        let place = if is_first {
            BYTES_OF_NODE
        } else {
            BYTES_OF_MEMBER
        };
        self.take(name + BYTES_OF_TEXT + place)
    }

    /// Counts the maps that defaulting and the canonical form add to a struct.
    pub(super) fn weigh_filled_in<E: Error>(&mut self, nodes: usize) -> Result<(), E> {
        self.take(nodes * BYTES_OF_NODE)
    }

    fn take<E: Error>(&mut self, tree_bytes: usize) -> Result<(), E> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) && is_abandoned() {
            return Err(E::custom(Abandoned));
        }
        self.tree_bytes += tree_bytes;
        if self.tree_bytes <= self.allowed_tree_bytes() && self.weight <= self.most_weight {
            Ok(())
        } else {
            Err(E::custom("the document expands to too much data"))
        }
    }

    /// Returns the limit on the tree for the bytes that were read so far.
    fn allowed_tree_bytes(&self) -> usize {
        match self.most_tree_bytes {
            usize::MAX => usize::MAX,
            most => most.min(TREE_BYTES_OF_SHORT + TREE_BYTES_PER_BYTE * self.weight),
        }
    }
}

/// Returns the estimated memory of a tree, computed as for a document.
pub fn tree_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len() + BYTES_OF_TEXT,
        Value::Array(items) => items.iter().map(tree_bytes).sum(),
        Value::Object(members) => {
            let names = members.keys().map(|name| name.len() + BYTES_OF_TEXT);
            let node = BYTES_OF_NODE.min(members.len() * BYTES_OF_NODE);
            let more = members.len().saturating_sub(1) * BYTES_OF_MEMBER;
            let values = members.values().map(tree_bytes);
            node + more + names.sum::<usize>() + values.sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inside
}

/// Returns whether a tree has more than `levels` levels of objects and lists.
pub fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let exceeds = |inner: &Value| is_deeper_than(inner, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(exceeds),
        Value::Object(members) => levels == 0 || members.values().any(exceeds),
        _ => false,
    }
}
