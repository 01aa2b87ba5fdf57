//! JSON of large documents, written member by member. A tree of a whole document would take many
//! times the memory of its text.

use serde_json::Value;

/// A JSON object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    /// Writes an object: its members are what `fill` adds, in that order.
    pub(super) fn write(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
        out.push(b'{');
        let mut object = Object {
            out,
            is_empty: true,
        };
        fill(&mut object);
        object.out.push(b'}');
    }

    /// Adds a member.
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        let out = self.member(name);
        json(out, value);
    }

    /// Adds a member whose JSON is known.
    pub(super) fn text(&mut self, name: &str, text: &[u8]) {
        self.member(name).extend_from_slice(text);
    }

    /// Adds a member that is an object.
    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        Object::write(self.member(name), fill);
    }

    fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        json(self.out, &Value::from(name));
        self.out.push(b':');
        self.out
    }
}

/// Appends the JSON of a value.
pub(super) fn json(out: &mut Vec<u8>, value: &Value) {
    // A tree always has a form in JSON, and writing into memory can't fail.
    let _ = serde_json::to_writer(out, value);
}
