//! JSON of large documents, written member by member, because a tree of a whole document would take
//! many times the memory of its text. Also the parts that both formats share.

use serde_json::{Value, json};

use super::operations::Operation;
use super::packing::Packer;

/// A JSON object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut Packer,
    is_empty: bool,
}

impl Object<'_> {
    /// Writes an object with the members that `fill` adds, in that order.
    pub(super) fn write(out: &mut Packer, fill: impl FnOnce(&mut Object<'_>)) {
        out.text().push(b'{');
        let mut object = Object {
            out,
            is_empty: true,
        };
        fill(&mut object);
        object.out.text().push(b'}');
    }

    /// Adds a member.
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        write_json(self.member(name).text(), value);
    }

    /// Adds a member that is given as JSON text.
    pub(super) fn text(&mut self, name: &str, text: &[u8]) {
        self.member(name).text().extend_from_slice(text);
    }

    /// Adds a member that is an object.
    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        Object::write(self.member(name), fill);
    }

    fn member(&mut self, name: &str) -> &mut Packer {
        let is_first = std::mem::take(&mut self.is_empty);
        let out = self.out.text();
        if !is_first {
            out.push(b',');
        }
        write_json(out, &Value::from(name));
        out.push(b':');
        self.out
    }
}

/// Appends the JSON of a value.
pub(super) fn write_json(out: &mut Vec<u8>, value: &Value) {
    // A tree always serializes, and writing into memory cannot fail.
    let _ = serde_json::to_writer(out, value);
}

/// Returns the title and version of the API.
pub(super) fn info() -> Value {
    json!({"title": "Kubernetes", "version": "1.36"})
}

/// Returns the authentication scheme of clients.
pub(super) fn bearer_token() -> Value {
    json!({
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
        "description": "Bearer Token authentication",
    })
}

/// Adds the members of an operation that both formats share.
pub(super) fn extend(written: &mut Value, operation: &Operation<'_>, parameters: Vec<Value>) {
    if !parameters.is_empty() {
        written["parameters"] = parameters.into();
    }
    if let Some(action) = operation.action {
        written["x-kubernetes-action"] = action.into();
    }
    if let Some(kind) = &operation.kind {
        written["x-kubernetes-group-version-kind"] = json!(kind);
    }
}
