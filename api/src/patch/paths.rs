//! The paths of a JSON patch, which Kubernetes parses less strictly than RFC 6902 (API-160).
//!
//! Text before the first slash is ignored. A tilde may stand for itself. A list index may have a
//! sign and leading zeros, and a negative one counts from the end.

use std::borrow::Cow;

use json_patch::jsonptr::{Pointer, PointerBuf, Token};
use json_patch::{PatchOperation, RemoveOperation};
use serde_json::Value;

/// Returns a path as the text of a JSON pointer, or `None` for a path without a slash, which names
/// no member.
pub(super) fn as_pointer(path: &str) -> Option<Cow<'_, str>> {
    let path = &path[path.find('/')?..];
    let is_escape = |at: usize| matches!(path.as_bytes().get(at + 1), Some(b'0' | b'1'));
    if path.match_indices('~').all(|(at, _)| is_escape(at)) {
        return Some(path.into());
    }
    let mut text = String::with_capacity(path.len() + 8);
    for (at, character) in path.char_indices() {
        text.push(character);
        if character == '~' && !is_escape(at) {
            text.push('0');
        }
    }
    Some(text.into())
}

/// Returns an operation whose list indexes are those of RFC 6902. An index that the list of the
/// document lacks stays as it is, and the operation fails.
pub(super) fn resolved<'o>(
    document: &Value,
    operation: &'o PatchOperation,
) -> Cow<'o, PatchOperation> {
    let adds = matches!(operation, PatchOperation::Add(_) | PatchOperation::Copy(_));
    let path = resolved_path(document, operation.path(), adds);
    let from = match operation {
        PatchOperation::Copy(copy) => resolved_path(document, &copy.from, false),
        _ => None,
    };
    if path.is_none() && from.is_none() {
        return Cow::Borrowed(operation);
    }
    let mut operation = operation.clone();
    let (own_path, own_from) = match &mut operation {
        PatchOperation::Add(add) => (&mut add.path, None),
        PatchOperation::Remove(remove) => (&mut remove.path, None),
        PatchOperation::Replace(replace) => (&mut replace.path, None),
        PatchOperation::Test(test) => (&mut test.path, None),
        PatchOperation::Move(moved) => (&mut moved.path, None),
        PatchOperation::Copy(copy) => (&mut copy.path, Some(&mut copy.from)),
    };
    if let Some(path) = path {
        *own_path = path;
    }
    if let (Some(own), Some(from)) = (own_from, from) {
        *own = from;
    }
    Cow::Owned(operation)
}

/// Returns a removal with the list index of RFC 6902.
pub(super) fn removal(document: &Value, path: &Pointer) -> PatchOperation {
    let path = resolved_path(document, path, false).unwrap_or_else(|| path.to_owned());
    PatchOperation::Remove(RemoveOperation { path })
}

/// Returns the changed path, or `None` if it stays as it is. An added item may follow the last one.
fn resolved_path(document: &Value, path: &Pointer, adds: bool) -> Option<PointerBuf> {
    let mut tokens: Option<Vec<Token<'_>>> = None;
    let mut at = Some(document);
    let count = path.count();
    for (position, token) in path.tokens().enumerate() {
        let name = token.decoded();
        let mut index = None;
        at = match at {
            Some(Value::Object(members)) => members.get(name.as_ref()),
            Some(Value::Array(items)) => {
                let length = items.len() + usize::from(adds && position + 1 == count);
                index = own_index(&name, length);
                let index = index.or_else(|| name.parse().ok());
                index.and_then(|index| items.get(index))
            }
            _ => None,
        };
        if let Some(index) = index {
            let whole = tokens.get_or_insert_with(|| path.tokens().collect());
            whole[position] = Token::from(index);
        }
    }
    tokens.map(PointerBuf::from_tokens)
}

/// Returns the index for a text in Kubernetes' extended notation. Returns `None` for the notation
/// of RFC 6902, `-` included, and for an index before the start of a list of this length.
fn own_index(text: &str, length: usize) -> Option<usize> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_ordinary = digits.len() == text.len() && (text == "0" || !text.starts_with('0'));
    if is_ordinary || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: usize = digits.parse().ok()?;
    match text.starts_with('-') && number > 0 {
        true => length.checked_sub(number),
        false => Some(number),
    }
}
