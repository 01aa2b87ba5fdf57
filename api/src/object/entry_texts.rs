//! The text of an entry of managedFields.

use crate::go_json::write_text;

/// The members of an entry except its fields. Empty ones are not written.
pub(crate) struct EntryTexts<'t> {
    pub api_version: &'t str,
    pub manager: &'t str,
    pub operation: &'t str,
    pub subresource: &'t str,
    pub time: &'t str,
}

impl EntryTexts<'_> {
    /// Writes the entry as JSON with sorted members. `fields` writes the FieldsV1.
    pub(crate) fn write(&self, text: &mut String, fields: impl FnOnce(&mut String)) {
        let member = |text: &mut String, name: &str, value: &str| {
            if !value.is_empty() {
                let mut printed = Vec::with_capacity(value.len() + 2);
                write_text(&mut printed, value);
                let parts = ["\"", name, "\":", &String::from_utf8_lossy(&printed), ","];
                parts.into_iter().for_each(|part| text.push_str(part));
            }
        };
        text.push('{');
        member(text, "apiVersion", self.api_version);
        text.push_str("\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        fields(text);
        text.push(',');
        member(text, "manager", self.manager);
        member(text, "operation", self.operation);
        member(text, "subresource", self.subresource);
        member(text, "time", self.time);
        text.pop();
        text.push('}');
    }
}
