//! Limits on the cost of JSON patch operations. They are checked before each operation, because the
//! library runs any operation.

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::Value;

use crate::abandoned::is_abandoned;
use crate::decode::{MAX_TREE_BYTES, is_deeper_than, tree_bytes};
use crate::deep::{levels, note};
use crate::go_json::json_bytes;

/// The limit on the bytes of JSON that the copies of one patch may add, kube-apiserver's default
/// (API-159, API-21).
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The limit on steps that move values inside lists and measure moved values. Ten thousand
/// insertions at the front of a long list exceed it; ordinary patches need a few steps.
const MAX_STEPS: usize = 20_000_000;

/// The cost of the operations so far.
#[derive(Debug, Default)]
pub(super) struct Limits {
    copied: usize,
    copied_tree: usize,
    steps: usize,
}

impl Limits {
    /// Returns whether an operation may run on the document. Refuses all operations once the client
    /// is gone.
    pub(super) fn admit(&mut self, document: &Value, operation: &PatchOperation) -> bool {
        self.steps = self.steps.saturating_add(moved_items(document, operation));
        let fits = match operation {
            PatchOperation::Add(add) => fits_below(&add.path, &add.value),
            PatchOperation::Replace(replace) => fits_below(&replace.path, &replace.value),
            PatchOperation::Copy(copy) => match document.pointer(copy.from.as_str()) {
                Some(source) => {
                    self.copied = self.copied.saturating_add(json_bytes(source));
                    self.copied_tree = self.copied_tree.saturating_add(tree_bytes(source));
                    self.copied <= MAX_COPIED_BYTES
                        && self.copied_tree <= MAX_TREE_BYTES
                        && fits_below(&copy.path, source)
                }
                None => true, // it will fail by itself
            },
            PatchOperation::Move(_) | PatchOperation::Remove(_) | PatchOperation::Test(_) => true,
        };
        fits && self.steps <= MAX_STEPS && !is_abandoned()
    }

    /// Returns whether a value may be moved. The removal and the addition count like single
    /// operations.
    pub(super) fn admit_moved(&mut self, value: &Value) -> bool {
        self.steps = self.steps.saturating_add(json_bytes(value));
        self.steps <= MAX_STEPS
    }
}

/// Returns how many items of a list an operation shifts: those after an added or removed one.
fn moved_items(document: &Value, operation: &PatchOperation) -> usize {
    if matches!(
        operation,
        PatchOperation::Replace(_) | PatchOperation::Test(_)
    ) {
        return 0;
    }
    let Some((parent, last)) = operation.path().split_back() else {
        return 0;
    };
    match document.pointer(parent.as_str()) {
        Some(Value::Array(items)) => {
            let place = last.decoded().parse().unwrap_or(items.len());
            items.len().saturating_sub(place)
        }
        _ => 0,
    }
}

/// Returns whether the document stays shallow enough to be decoded again with the value at this
/// path.
fn fits_below(path: &Pointer, value: &Value) -> bool {
    let left = levels().checked_sub(path.count());
    let fits = left.is_some_and(|left| !is_deeper_than(value, left));
    if !fits {
        note();
    }
    fits
}
