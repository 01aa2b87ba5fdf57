//! How large and how deep a tree is that was not read from a document.

use serde_json::Value;

use super::{BYTES_OF_MEMBER, BYTES_OF_NODE, BYTES_OF_TEXT};

/// The estimated memory of a tree, computed as for a document.
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

/// Whether a tree has more than `levels` levels of objects and lists.
pub fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let exceeds = |inner: &Value| is_deeper_than(inner, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(exceeds),
        Value::Object(members) => levels == 0 || members.values().any(exceeds),
        _ => false,
    }
}
